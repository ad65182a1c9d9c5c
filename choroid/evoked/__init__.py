"""Responses of the tissue to pulses, from recordings."""
