"""Warmth: chamber, loop and holder as one body that a heater warms and the room cools."""

from __future__ import annotations

from math import exp

from sim.plant.compiled import compiled

CAPACITY_J_PER_K = 420.0
LOSS_W_PER_K = 0.55
"""About 100 mL of water's worth, a quarter of an hour's time constant [P]."""


@compiled
def warmed(temperature_c: float, power_w: float, ambient_c: float, dt_s: float) -> float:
    """Temperature (°C) after `dt_s` at steady power: T∞ + (T − T∞)·e^(−G·t/C), T∞ = ambient + P/G, exactly."""
    goal = ambient_c + power_w / LOSS_W_PER_K
    return goal + (temperature_c - goal) * exp(-dt_s * LOSS_W_PER_K / CAPACITY_J_PER_K)
