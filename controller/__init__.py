"""The living process: rig, body, safety, regulation, execution, memory, telemetry, nerves."""
