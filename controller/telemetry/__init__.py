"""Sinks that export readings."""
