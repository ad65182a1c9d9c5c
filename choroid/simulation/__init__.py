"""The simulated laboratory as used by commands."""
