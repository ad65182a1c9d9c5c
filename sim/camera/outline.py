"""The outline of one simulated organoid, seen from above: its form stays the same while it grows."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np
from numpy.typing import NDArray

F8 = NDArray[np.float64]
POINTS = 2048
LOBES = range(2, 8)
LOBE_SD = 0.05
"""Standard deviation of the radius in the lowest lobe [P]; it falls with the lobe's number."""
BUDS_MEAN = 1.5
ROUGHNESS = 0.015
"""Share of the radius by which the rim of dying tissue is ragged [P]."""


@dataclass(frozen=True, slots=True)
class Outline:
    """Radius over angle, in units of the radius of a disc with the same area."""

    angles: F8
    radii: F8

    @classmethod
    def made(cls, seed: int, raggedness: float = 0.0) -> Outline:
        """Return the form of an organoid.

        Args:
            seed: Chooses the form.
            raggedness: 0 (intact rim) to 1 (dying tissue).
        """
        random = np.random.default_rng((seed, 11))
        angles = np.linspace(0.0, 2 * pi, POINTS, endpoint=False)
        radii = np.ones(POINTS)
        for lobe in LOBES:
            radii += random.normal(0.0, LOBE_SD * 2 / lobe) * np.cos(lobe * angles + random.uniform(0, 2 * pi))
        for _ in range(random.poisson(BUDS_MEAN)):
            at, width, height = random.uniform(0, 2 * pi), random.uniform(0.12, 0.3), random.uniform(0.03, 0.12)
            away = np.angle(np.exp(1j * (angles - at)))
            radii += height * np.exp(-((away / width) ** 2))
        rough = np.zeros(POINTS)
        for wave in range(15, 60):
            rough += random.normal(0.0, 1.0) * np.cos(wave * angles + random.uniform(0, 2 * pi))
        radii += ROUGHNESS * raggedness * rough / rough.std()
        radii = np.maximum(radii, 0.3)
        return cls(angles, radii / np.sqrt(np.mean(radii**2)))

    def radius_at(self, angle: F8) -> F8:
        """Return the radius at some angles (rad)."""
        return np.interp(angle, self.angles, self.radii, period=2 * pi)
