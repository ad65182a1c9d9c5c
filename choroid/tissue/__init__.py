"""Tissue on an array as experiments see it: windows with pulses in and spikes out. Tasks and environments use it."""
