"""Simulated devices, written from the manuals apart from the drivers."""
