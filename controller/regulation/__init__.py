"""Regulators: pure steps from the state to what they want. Only the process takes that to the gate."""
