"""Regulators: pure steps from the state to intents. Only the process submits the intents to the gate."""
