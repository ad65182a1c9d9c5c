"""Child processes: how long to wait for them, on a machine that may be busy."""
