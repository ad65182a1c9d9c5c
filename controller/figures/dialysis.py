"""Figures of a dialyser: dialysate used, and the clearance by assays before and after a dialysis.

A stirred batch of volume V dialysed against C_d follows V·dC/dt = -K·(C - C_d), so two assays around a dialysis of t minutes
give K = V/t · ln((C0 - C_d)/(C1 - C_d)) (biology.md §2). Estimates are not used: they were made with the KoA of the rig file
and would only return it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.figures.figure import Figure, figure, missing
from controller.figures.sources import Sources
from controller.figures.transfers import BookedTransfer, seconds, volume
from controller.rig.organs import KidneyConfig
from protocols.dialysis import exchanged, koa_at

SOLUTES = {"ammonia": "ammonia_mm", "lactate": "lactate_mm"}
WITHIN_S = 4 * 3600.0
"""Maximum time between an assay and its dialysis; an earlier or later one reflects other events too (s)."""
NO_DIALYSER = "the rig has no dialyser: medium is exchanged, not dialysed"


@dataclass(frozen=True, slots=True)
class Pair:
    """Clearance by the assays around one dialysis, and its standard deviation (µL/min)."""

    clearance: float
    sd: float


def dialysis(sources: Sources, kidney: KidneyConfig) -> list[Figure]:
    """Return the figures of the kidney's dialyser, or why there are none."""
    names = (
        ("dialysate", "dialysate used", "mL"),
        *((f"clearance_{solute}", f"clearance of {solute} by the dialyser", "uL/min") for solute in SOLUTES),
        ("sieving", "sieving coefficient", ""),
        ("ultrafiltration", "ultrafiltration", "mL/d"),
    )
    line = kidney.dialyse
    if line is None:
        return [missing(*name, NO_DIALYSER) for name in names]
    done = sources.moved(line)
    return [
        volume("dialysate", "dialysate used", done, sources.days),
        *(_clearance(sources, kidney, done, solute) for solute in SOLUTES),
        missing(*names[-2], "needs assays of the dialysate that leaves; nothing measures it"),
        missing(*names[-1], "needs the dialysate weighed on its way in and out; nothing does"),
    ]


def _clearance(sources: Sources, kidney: KidneyConfig, done: Sequence[BookedTransfer], solute: str) -> Figure:
    key, label, unit = f"clearance_{solute}", f"clearance of {solute} by the dialyser", "uL/min"
    if not done:
        return missing(key, label, unit, "nothing was dialysed in the period")
    pairs = [pair for each in done if (pair := _pair(sources, kidney.vessel, each, solute)) is not None]
    if not pairs:
        fibres = sources.rig.dialysers[sources.rig.lines[kidney.dialyse or ""].dialyser or ""]
        flow = kidney.dialysate_ul_min
        koa = koa_at(flow, fibres.koa_ul_min, fibres.koa_at_ul_min)
        promised = flow * -math.log1p(-exchanged(koa, flow, 1.0, 1.0))
        why = f"no assays of {solute} in the spent medium within 4 h before and after a dialysis"
        return missing(key, label, unit, f"{why}; the rig file's KoA promises {promised:.3g} uL/min")
    weights = [1.0 / pair.sd**2 for pair in pairs]
    mean = sum(pair.clearance * weight for pair, weight in zip(pairs, weights, strict=True)) / sum(weights)
    basis = f"assays before and after {len(pairs)} of {len(done)} dialyses"
    return figure(key, label, unit, mean, sd=math.sqrt(1.0 / sum(weights)), basis=basis)


def _pair(sources: Sources, spent: str, each: BookedTransfer, solute: str) -> Pair | None:
    """Return the clearance by the nearest assays around one dialysis; None without them, or if they are implausible."""
    if each.begin is None or not each.flow_ul_min or each.ul <= 0:
        return None
    held_ul = _held_ul(sources, each.begin)
    # The duration follows from the volume: the row is written after the balance has settled.
    minutes = each.ul / each.flow_ul_min
    around = _around(_assays(sources, spent, solute), each.begin, each.begin + minutes * 60.0)
    if held_ul is None or around is None:
        return None
    before, after = around
    rig = sources.rig
    bottle = rig.lines[each.line].from_
    basal = float(getattr(rig.media[rig.vessels[bottle].contains or ""], SOLUTES[solute]))
    over = before["value"] - basal, after["value"] - basal
    if min(over) <= 0:
        return None
    ul_min = held_ul / minutes
    clearance = ul_min * math.log(over[0] / over[1])
    sd = ul_min * math.hypot(before["sd"] / over[0], after["sd"] / over[1])
    return Pair(clearance, sd) if sd > 0 else None


def _held_ul(sources: Sources, at: float) -> float | None:
    """Return the last weighed volume of the spent vessel by `at` (UTC seconds)."""
    held = [before.spent_ul for before in sources.transfers if before.end <= at and before.spent_ul]
    return held[-1] if held else None


def _around(
    found: Sequence[Mapping[str, Any]], begin: float, end: float
) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """Return the last assay before `begin` and the first after `end` (UTC seconds), if both are near enough."""
    before = [assay for assay in found if begin - WITHIN_S <= _taken(assay) <= begin]
    after = [assay for assay in found if end <= _taken(assay) <= end + WITHIN_S]
    return (before[-1], after[0]) if before and after else None


def _assays(sources: Sources, spent: str, solute: str) -> list[Mapping[str, Any]]:
    """Return the assays of the spent medium that were used, by time of sampling."""
    some = [
        note.body
        for note in sources.assays
        if note.body.get("analyte") == solute and note.body.get("vessel") == spent and note.body.get("used")
    ]
    return sorted(some, key=_taken)


def _taken(assay: Mapping[str, Any]) -> float:
    return seconds(str(assay["taken_utc"]))
