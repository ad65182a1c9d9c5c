"""What a trial on another rig than the bench rig draws: a protocol that the rig supports, flows and tissue."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from controller.recipes.catalogue import find
from controller.recipes.on_rig import lacking
from controller.rig.description import Rig
from controller.runs.rehearsal import HOURS

KEPT_ML = 15.0
"""What an exchange does not ask of the reservoir: its floor, and as much again for doubt."""
MIN_BATCH_ML, MAX_BATCH_ML = 4, 20
MOVING = ("recycle", "exchange")
CHAMBERWISE = "change-wells"
STANDING = ("circulate", "stand-by")
SHARE = (0.8, 1.2)
"""Range of a changed flow, as a share of that in the rig file."""


def fresh_ml(rig: Rig) -> float:
    """Return what the bottle of fresh medium holds at the beginning (mL)."""
    gut = rig.organs.gut
    return 0.0 if gut is None else rig.vessels[rig.lines[gut.feed].from_].volume_ul / 1000.0


def draw_protocol(rng: np.random.Generator, rig: Rig, *, hours: float) -> tuple[str, dict[str, str]]:
    """Draw a protocol that the rig supports, with its parameters."""
    if not lacking(find(CHAMBERWISE), rig):
        return CHAMBERWISE, {
            "share": f"{rng.integers(5, 21)} %",
            "every": f"{rng.choice([1.0, 2.0, 4.0]):g} h",
        }
    known = [name for name in MOVING if not lacking(find(name), rig)]
    if not known:
        name = str(rng.choice([name for name in STANDING if not lacking(find(name), rig)]))
        return name, {"time": f"{max(hours, 1.0):g} h"}
    name = str(rng.choice(known))
    every_h = float(rng.choice([1.0, 2.0, 4.0]))
    max_ml = min(MAX_BATCH_ML, int(0.5 * _room_ml(rig)))
    if name == "exchange":
        max_ml = min(max_ml, int((fresh_ml(rig) - KEPT_ML) / math.ceil(HOURS / every_h)))
    volume = f"{rng.integers(min(MIN_BATCH_ML, max_ml), max_ml, endpoint=True)} mL" if max_ml > 0 else "1 mL"
    wanted = {"batch": volume, "min_batch": volume} if name == "recycle" else {"volume": volume}
    return name, {**wanted, "every": f"{every_h:g} h"}


def draw_edits(rng: np.random.Generator, rig: Rig, data: Mapping[str, Any]) -> dict[str, Any]:
    """Draw what differs from the rig file, by dotted place in its `data`: each of the possible changes half of the time."""
    return {place: value for place, value in _changes(rng, rig, data) if rng.random() < 0.5}


def _changes(rng: np.random.Generator, rig: Rig, data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    tissue, organs = data.get("tissue") or {}, data.get("organs") or {}
    for name, spec in rig.tissue.items():
        if "count" in (tissue.get(name) or {}):
            yield f"tissue.{name}.count", int(rng.integers(max(1, spec.count // 2), 2 * spec.count, endpoint=True))
    for name, heart in rig.organs.hearts.items():
        place = "organs.heart" if "heart" in organs else f"organs.hearts.{name}"
        flow = min(max(heart.flow_ul_min * rng.uniform(*SHARE), heart.basal_ul_min), heart.max_ul_min)
        yield f"{place}.flow", f"{flow:.0f} uL/min"
    if rig.organs.kidney is not None:
        yield "organs.kidney.flow", f"{rig.organs.kidney.flow_ul_min * rng.uniform(*SHARE):.0f} uL/min"


def _room_ml(rig: Rig) -> float:
    """Return how much medium fits into the vessel of spent medium above what stays in it (mL)."""
    kidney = rig.organs.kidney
    if kidney is None:
        return 0.0
    vessel = rig.vessels[kidney.vessel]
    return (vessel.limit_ul - vessel.volume_ul) / 1000.0
