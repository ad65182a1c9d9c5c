"""Faults of a lab in software: what can go wrong, when it does, and how it is brought about and taken back."""
