"""Clients of a running controller."""
