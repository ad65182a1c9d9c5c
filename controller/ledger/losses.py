"""Evaporation of the vessels of a rig, as the ledger books it."""

from __future__ import annotations

from controller.ledger.terms import (
    EVAPORATION_SD_UL_D,
    EVAPORATION_UL_D,
    SPENT_EVAPORATION_SD_UL_D,
    SPENT_EVAPORATION_UL_D,
    STATIC_EVAPORATION_REL_D,
    STATIC_EVAPORATION_REL_SD,
    Loss,
)
from controller.rig.description import Rig
from controller.rig.perfusion import perfused_chambers


def losses_of(rig: Rig) -> dict[str, Loss]:
    """Return what evaporates, by vessel: from the tubing of spent vessel and loop, and from chambers without perfusion."""
    kidney = rig.organs.kidney
    losses = {}
    if kidney is not None:
        losses[kidney.vessel] = Loss("evaporation of spent", SPENT_EVAPORATION_UL_D, SPENT_EVAPORATION_SD_UL_D)
    if rig.loop is not None:
        losses[rig.loop] = Loss("evaporation", EVAPORATION_UL_D, EVAPORATION_SD_UL_D)
    perfused = perfused_chambers(rig)
    for name in rig.tissue:
        if name not in perfused:
            ul_d = STATIC_EVAPORATION_REL_D * rig.vessels[name].volume_ul
            losses[name] = Loss("evaporation of chambers", ul_d, STATIC_EVAPORATION_REL_SD * ul_d)
    return losses
