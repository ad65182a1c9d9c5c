"""Readings: whether they are plausible, alive and flat, and those of the electrode engine."""
