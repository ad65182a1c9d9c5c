"""Spike sorting of a recording with a sorter of SpikeInterface, in a process of its own."""
