"""Warmth: chamber, loop and holder as one body that a heater or a thermostat's bath warms and the room cools."""

from __future__ import annotations

from math import exp

from sim.plant.compiled import compiled

CAPACITY_J_PER_K = 420.0
LOSS_W_PER_K = 0.55
"""About 100 mL of water's worth, a quarter of an hour's time constant [P]."""
JACKET_W_PER_K = 11.0
"""Between the body and a bath that circulates through its jacket, or a block under it: 200 cm² at 550 W/m²K [P]."""


@compiled
def warmed(
    temperature_c: float, power_w: float, ambient_c: float, jacket_w_per_k: float, bath_c: float, dt_s: float
) -> float:
    """Return the temperature (°C) after `dt_s` at steady power and bath, exactly.

    T∞ + (T − T∞)·e^(−G·t/C), with G the losses to the room and through the jacket, T∞ = ambient + P/G, and P the heater's
    power and what the jacket would give at the room's temperature.
    """
    conductance = LOSS_W_PER_K + jacket_w_per_k
    goal = ambient_c + (power_w + jacket_w_per_k * (bath_c - ambient_c)) / conductance
    return goal + (temperature_c - goal) * exp(-dt_s * conductance / CAPACITY_J_PER_K)


@compiled
def relaxed(bath_c: float, goal_c: float, per_s: float, dt_s: float) -> float:
    """Return a bath's temperature (°C) after `dt_s` of exponential approach to `goal_c`."""
    return goal_c + (bath_c - goal_c) * exp(-dt_s * per_s)
