"""Drivers of cameras: one file per interface, and the test that each of them passes."""
