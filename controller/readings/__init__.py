"""Readings: their plausibility and liveliness, and the readings of the electrode engine."""
