"""What a dialyser did: dialysate used, and the clearance that assays before and after a dialysis show.

A batch of volume V that is stirred and dialysed against C_d follows V·dC/dt = -K·(C - C_d), so two assays around one
dialysis of t minutes give K = V/t · ln((C0 - C_d)/(C1 - C_d)) (biology.md §2). Estimates are not used for it: they were
made with the KoA of the rig file, and would only give that back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.figures.figure import Figure, figure, missing
from controller.figures.sources import Sources
from controller.figures.transfers import BookedTransfer, seconds, volume
from protocols.dialysis import exchanged, koa_at

SOLUTES = {"ammonia": "ammonia_mm", "lactate": "lactate_mm"}
WITHIN_S = 4 * 3600.0
"""An assay further away from its dialysis than this tells more of what happened in between."""
NO_DIALYSER = "the rig has no dialyser: medium is exchanged, not dialysed"


@dataclass(frozen=True, slots=True)
class Pair:
    """The clearance that the assays around one dialysis show, and its standard deviation (µL/min)."""

    clearance: float
    sd: float


def dialysis(sources: Sources) -> list[Figure]:
    """The figures of the dialyser, or why there are none."""
    names = (
        ("dialysate", "dialysate used", "mL"),
        *((f"clearance_{solute}", f"clearance of {solute} by the dialyser", "uL/min") for solute in SOLUTES),
        ("sieving", "sieving coefficient", ""),
        ("ultrafiltration", "ultrafiltration", "mL/d"),
    )
    line = sources.rig.organs.kidney.dialyse
    if line is None:
        return [missing(*name, NO_DIALYSER) for name in names]
    done = sources.moved(line)
    return [
        volume("dialysate", "dialysate used", done, sources.days),
        *(_clearance(sources, done, solute) for solute in SOLUTES),
        missing(*names[-2], "needs assays of the dialysate that leaves; nothing measures it"),
        missing(*names[-1], "needs the dialysate weighed on its way in and out; nothing does"),
    ]


def _clearance(sources: Sources, done: Sequence[BookedTransfer], solute: str) -> Figure:
    key, label, unit = f"clearance_{solute}", f"clearance of {solute} by the dialyser", "uL/min"
    if not done:
        return missing(key, label, unit, "nothing was dialysed in the period")
    pairs = [pair for each in done if (pair := _pair(sources, each, solute)) is not None]
    if not pairs:
        line = sources.rig.organs.kidney.dialyse
        fibres = sources.rig.dialysers[sources.rig.lines[line or ""].dialyser or ""]
        flow = sources.rig.organs.kidney.dialysate_ul_min
        koa = koa_at(flow, fibres.koa_ul_min, fibres.koa_at_ul_min)
        promised = flow * -math.log1p(-exchanged(koa, flow, 1.0, 1.0))
        why = f"no assays of {solute} in the spent medium within 4 h before and after a dialysis"
        return missing(key, label, unit, f"{why}; the rig file's KoA promises {promised:.3g} uL/min")
    weights = [1.0 / pair.sd**2 for pair in pairs]
    mean = sum(pair.clearance * weight for pair, weight in zip(pairs, weights, strict=True)) / sum(weights)
    basis = f"assays before and after {len(pairs)} of {len(done)} dialyses"
    return figure(key, label, unit, mean, sd=math.sqrt(1.0 / sum(weights)), basis=basis)


def _pair(sources: Sources, each: BookedTransfer, solute: str) -> Pair | None:
    """The clearance that the nearest assays around one dialysis show; None where there are none, or they cannot be."""
    if each.begin is None or not each.flow_ul_min or each.ul <= 0:
        return None
    held = [before.spent_ul for before in sources.transfers if before.end <= each.begin and before.spent_ul]
    if not held:
        return None
    # The volume counts, not the row's time, which is that of the balance having settled.
    minutes = each.ul / each.flow_ul_min
    ends = each.begin + minutes * 60.0
    found = _assays(sources, solute)
    before = [assay for assay in found if each.begin - WITHIN_S <= _taken(assay) <= each.begin]
    after = [assay for assay in found if ends <= _taken(assay) <= ends + WITHIN_S]
    if not before or not after:
        return None
    rig = sources.rig
    bottle = rig.lines[each.line].from_
    basal = float(getattr(rig.media[rig.vessels[bottle].contains or ""], SOLUTES[solute]))
    over = before[-1]["value"] - basal, after[0]["value"] - basal
    if min(over) <= 0:
        return None
    ul_min = held[-1] / minutes
    clearance = ul_min * math.log(over[0] / over[1])
    sd = ul_min * math.hypot(before[-1]["sd"] / over[0], after[0]["sd"] / over[1])
    return Pair(clearance, sd) if sd > 0 else None


def _assays(sources: Sources, solute: str) -> list[Mapping[str, Any]]:
    """Assays of the spent medium that were used, by the time when they were taken."""
    spent = sources.rig.organs.kidney.vessel
    some = [
        note.body
        for note in sources.assays
        if note.body.get("analyte") == solute and note.body.get("vessel") == spent and note.body.get("used")
    ]
    return sorted(some, key=_taken)


def _taken(assay: Mapping[str, Any]) -> float:
    return seconds(str(assay["taken_utc"]))
