"""Cameras of a rig: what takes its images, in real time and in simulations."""
