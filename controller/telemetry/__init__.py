"""Sinks that carry readings away."""
