"""Upkeep: calibration of pumps, age of tubing, consumables."""
