"""Persistent records: history and calibrations."""
