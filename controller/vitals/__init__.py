"""Vital signs: viability, its baseline and its scores."""
