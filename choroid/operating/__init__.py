"""Commands to a running controller."""
