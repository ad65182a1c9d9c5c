"""Faults of a simulated lab: kinds, schedules, injection and undoing."""
