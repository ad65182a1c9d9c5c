"""Limits and interlocks: the pure safety kernel."""
