"""Upkeep: calibration of pumps and probes, age of tubing, consumables, manual tasks."""
