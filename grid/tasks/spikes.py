"""Spikes of the simulated array as counts in bins, and the pulses of the data boards."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim.neurons.culture import Floats, Ints

Phases = tuple[tuple[float, float], ...]
"""(µs, µA) of each phase of a pulse."""


def biphasic(ua: float, us: float = 200.0) -> Phases:
    """Return a negative-first, charge-balanced pulse: (µs, µA) of each phase."""
    return ((us, -ua), (us, ua))


def counts(
    electrode: Ints, at_s: Floats, *, begin_s: float, bin_s: float, bins: int, electrodes: int
) -> NDArray[np.float32]:
    """Return spike counts from `begin_s` on, shape (bins, electrodes); later spikes are left out."""
    found = np.zeros((bins, electrodes), np.float32)
    row = np.floor((at_s - begin_s) / bin_s + 1e-9).astype(np.int64)
    inside = (row >= 0) & (row < bins)
    np.add.at(found, (row[inside], electrode[inside]), 1.0)
    return found


def ridge(inputs: NDArray[np.float32], targets: NDArray[np.float64], penalty: float) -> NDArray[np.float64]:
    """Return the weights of a ridge regression with a constant in the last row."""
    rows = with_constant(inputs)
    weights = np.linalg.solve(rows.T @ rows + penalty * np.eye(rows.shape[1]), rows.T @ targets)
    return weights.astype(np.float64)


def with_constant(inputs: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return one flat row for each input, with a constant in the last column."""
    flat = inputs.reshape(len(inputs), -1).astype(np.float64)
    return np.concatenate([flat, np.ones((len(flat), 1))], axis=1)
