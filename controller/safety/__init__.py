"""Limits, interlocks and the one door to every actuator."""
