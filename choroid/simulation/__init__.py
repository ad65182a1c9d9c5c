"""The simulated laboratory as commands use it."""
