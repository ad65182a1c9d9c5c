"""Plots of a program under the names of the CL API."""

from __future__ import annotations

from choroid.client.cl.plots import plot_spike, uV_formatter

__all__ = ["plot_spike", "uV_formatter"]
