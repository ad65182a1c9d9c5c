"""Evaporation of the vessels of a rig, as the ledger books it."""

from __future__ import annotations

import math
from collections import defaultdict

from controller.ledger.terms import (
    EVAPORATION_SD_UL_D,
    EVAPORATION_UL_D,
    SPENT_EVAPORATION_SD_UL_D,
    SPENT_EVAPORATION_UL_D,
    SURFACE_EVAPORATION_REL_SD,
    Loss,
)
from controller.rig.description import Rig
from controller.rig.graph import outlets, vessels_behind
from controller.rig.open_surfaces import evaporation_ul_d
from controller.rig.perfusion import perfused_chambers


def losses_of(rig: Rig) -> dict[str, Loss]:
    """Return what evaporates, by vessel: from the tubing of spent vessel and loop, and from the open surfaces of chambers.

    A perfused chamber stays full: what its open surface loses is missing in the vessels into which it overflows.
    """
    kidney, loop = rig.organs.kidney, rig.loop
    losses = {}
    if kidney is not None:
        losses[kidney.vessel] = Loss("evaporation of spent", SPENT_EVAPORATION_UL_D, SPENT_EVAPORATION_SD_UL_D)
    missing = _missing_behind_perfused(rig)
    if loop is not None:
        ul_d = missing.pop(loop, 0.0)
        sd_ul_d = math.hypot(EVAPORATION_SD_UL_D, SURFACE_EVAPORATION_REL_SD * ul_d)
        losses[loop] = Loss("evaporation", EVAPORATION_UL_D + ul_d, sd_ul_d)
    perfused = perfused_chambers(rig)
    chambers = [name for name, vessel in rig.vessels.items() if vessel.kind == "chamber"]  # with tissue or without
    static = {name: evaporation_ul_d(rig, name) for name in chambers if name not in perfused}
    for name, ul_d in (*missing.items(), *static.items()):
        losses.setdefault(name, Loss("evaporation of chambers", ul_d, SURFACE_EVAPORATION_REL_SD * ul_d))
    return losses


def _missing_behind_perfused(rig: Rig) -> dict[str, float]:
    """Return what the open surfaces of perfused chambers lose in a day (µL), by the vessel in which it is missing."""
    missing: defaultdict[str, float] = defaultdict(float)
    for chamber in perfused_chambers(rig):
        if rig.vessels[chamber].surface_cm2 is not None:
            ends = overflow_ends(rig, chamber)
            for vessel, share in ends.items():
                missing[vessel] += evaporation_ul_d(rig, chamber) * share / sum(ends.values())
    return missing


def overflow_ends(rig: Rig, chamber: str) -> dict[str, float]:
    """Return the vessels in which what overflows a chamber ends, with their shares; the chamber if nothing does."""
    ends: defaultdict[str, float] = defaultdict(float)
    for outlet in outlets(rig, chamber):
        for vessel, share in vessels_behind(rig, outlet).items():
            if not outlets(rig, vessel):
                ends[vessel] += share
    return dict(ends) or {chamber: 1.0}
