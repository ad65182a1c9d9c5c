"""Figures of firing: intervals, bursts, network bursts and synchrony of spike trains, over a rolling window."""
