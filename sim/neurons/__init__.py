"""The simulated electrode array."""
