"""What lives of an organoid in the care for which its rig is designed: its state at the start, to which viability refers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.plant import organoid, sphere
from sim.plant.columns import Shell
from sim.plant.compiled import SOURCES, kept
from sim.plant.tissue import take_stock

F8 = NDArray[np.float64]
Records = NDArray[np.void]
SHELL_ROWS = len(Shell)


class Care(NamedTuple):
    """The care of one tissue by design."""

    oxygen_mm: float
    """Of medium in equilibrium with the gas."""
    supply_ul_s: float
    """Medium with this oxygen that comes, and what gas transfer adds (kLa times volume); 0: the medium never lacks any."""
    velocity_m_s: float
    """Of the medium past the organoids."""
    organoids: float
    demand: float
    """This and the next are those of :class:`sim.plant.tissue_models.TissueKind`."""
    min_oxygen_mm: float
    anoxia_harm: float
    regrowth: float


def _made(sources: int) -> tuple[Callable[[Care, F8, float, F8], float], Callable[[Records, F8, F8], None]]:
    """Compile what Python calls, again when any file of this package changes."""

    @kept
    def settle(care: Care, shells: F8, radius_m: float, rows: F8) -> float:
        """Write oxygen and living share of each shell into `rows` and return the living share of the whole."""
        if sources == 0:
            return 0.0
        oxygen, living = rows[Shell.OXYGEN], rows[Shell.LIVING]
        film = sphere.film_coefficient(2.0 * radius_m, care.velocity_m_s)
        bulk_mm = care.oxygen_mm
        oxygen[:] = bulk_mm
        living[:] = 1.0
        for iteration in range(1000):
            uptake_mol_s = sphere.solve(
                shells, oxygen, living, radius_m, bulk_mm, film, organoid.V_MAX * care.demand, organoid.KM_OXYGEN_MM,
                organoid.DIFFUSIVITY,
            )  # fmt: skip
            if care.supply_ul_s > 0.0:
                left_mm = max(0.0, care.oxygen_mm - care.organoids * uptake_mol_s * 1e9 / care.supply_ul_s)
                bulk_mm = 0.5 * (bulk_mm + left_mm)
            change = 0.0
            for shell in range(living.shape[0]):
                death = organoid.anoxia_per_hour(oxygen[shell], 10.0, care.min_oxygen_mm, care.anoxia_harm)
                healing = organoid.regrowth_per_hour(oxygen[shell], care.regrowth)
                goal = 1.0
                if death > 0.0:
                    goal = max(0.0, 1.0 - death / healing) if healing > 0.0 else 0.0
                change = max(change, abs(goal - living[shell]))
                living[shell] += (goal - living[shell]) / (2.0 + 0.1 * iteration)
            if change < 1e-4:
                break
        return sphere.living_share(shells, living)

    @kept
    def take_stocks(tissues: Records, shells: F8, profiles: F8) -> None:
        if sources == 0:
            return
        for rig in range(tissues.shape[0]):
            for number in range(tissues.shape[1]):
                take_stock(tissues[rig, number], shells, profiles[rig, number])

    return settle, take_stocks


settle, take_stocks = _made(SOURCES)
"""`take_stocks` sets viability, dead share and core of tissues (rigs, tissues) by their shells (…, Shell, shells)."""


def settled(care: Care, radius_m: float) -> F8:
    """Return the rows by :class:`Shell` of an organoid in its care by design, shape (rows, shells)."""
    rows: F8 = np.zeros((SHELL_ROWS, sphere.NODES))
    for place, each_m in enumerate(sphere.capacity_radius_m()):
        rows[Shell.CAPACITY, place] = settle(care, sphere.SHELLS, each_m, rows)
    settle(care, sphere.SHELLS, radius_m, rows)
    return rows
