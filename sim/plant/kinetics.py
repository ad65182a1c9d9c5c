"""Suspended cells: the macroscopic Monod model of CHO cultures with inhibition (PMC5874891 table 2 [V, S10]).

Not part of the plant, whose tissue is solid; the default kinetics wherever cells in suspension are wanted, and V9.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Monod:
    """Rates an hour, concentrations mM, cells 1e9 per litre (= 1e6 per mL), amounts mmol per 1e9 cells."""

    growth: float = 0.039
    death: float = 0.004
    k_glucose: float = 1.00
    k_glutamine: float = 0.047
    inhibition_lactate: float = 43.0
    inhibition_ammonia: float = 6.51
    death_lactate: float = 45.8
    death_ammonia: float = 6.51
    cells_per_glucose: float = 0.357
    cells_per_glutamine: float = 0.974
    lactate_per_glucose: float = 0.70
    ammonia_per_glutamine: float = 0.67
    glucose_maintenance: float = 0.0692
    ammonia_removal: float = 0.0063
    glutamine_maintenance: float = 0.0032
    glutamine_half: float = 2.1

    def rates(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return d/dt of (living cells, glucose, glutamine, lactate, ammonia), an hour, shape (5,)."""
        cells, glucose, glutamine, lactate, ammonia = (max(0.0, float(value)) for value in state)
        mu = self.growth * glucose / (glucose + self.k_glucose) * glutamine / (glutamine + self.k_glutamine)
        mu *= self.inhibition_lactate / (self.inhibition_lactate + lactate)
        mu *= self.inhibition_ammonia / (self.inhibition_ammonia + ammonia)
        dying = self.death * lactate / (self.death_lactate + lactate) * ammonia / (self.death_ammonia + ammonia)
        living = glucose / (glucose + 1e-3)  # nothing is consumed without glucose
        consumed = (mu / self.cells_per_glucose + self.glucose_maintenance * living) * cells
        used = mu / self.cells_per_glutamine + self.glutamine_maintenance * glutamine / (
            self.glutamine_half + glutamine
        )
        used *= cells
        removed = self.ammonia_removal * cells * ammonia / (ammonia + 1e-3)
        return np.array(
            [
                (mu - dying) * cells,
                -consumed,
                -used,
                self.lactate_per_glucose * consumed,
                self.ammonia_per_glutamine * used - removed,
            ]
        )


def grow(model: Monod, start: NDArray[np.float64], hours: float, steps: int) -> NDArray[np.float64]:
    """Integrate a batch culture by the classical Runge–Kutta method: shape (steps + 1, 5), from `start` on."""
    dt = hours / steps
    rows = [np.asarray(start, dtype=np.float64)]
    for _ in range(steps):
        y = rows[-1]
        k1 = model.rates(y)
        k2 = model.rates(y + 0.5 * dt * k1)
        k3 = model.rates(y + 0.5 * dt * k2)
        k4 = model.rates(y + dt * k3)
        rows.append(y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    return np.array(rows)
