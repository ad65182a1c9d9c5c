"""The gate: the one path to an actuator, with its readback and its emergency stop."""
