"""Electrode input and output."""
