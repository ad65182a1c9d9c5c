"""Figures of the liver: pH of the loop, doses and their accuracy, concentrations, ammonia removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.figures.figure import Figure, FigureLimits, figure, missing
from controller.figures.gut import stock
from controller.figures.sources import Sources
from controller.figures.transfers import ML, BookedTransfer, accuracy, volume
from controller.rig.probes import loop_ph, ph_target

PH_BAND = (7.25, 7.45)
"""Grade A of the media grades (biology.md §3.2)."""
PH_OUT_PCT = FigureLimits(1.0, 10.0)
SOLUTES: dict[str, tuple[str, str]] = {
    "lactate_mm": ("lactate", "mM"),
    "ammonia_mm": ("ammonia", "mM"),
    "glucose_mm": ("glucose", "mM"),
    "osmolality_mosm": ("osmolality", "mOsm/kg"),
}


def liver(sources: Sources) -> list[Figure]:
    """Return every figure of the liver; of a rig without one only those of the loop's medium, if it has a loop."""
    organ, loop = sources.rig.organs.liver, sources.rig.loop
    ph = [] if loop is None else _ph(sources)
    medium = [] if loop is None else [*_estimates(sources), *_ammonia_cleared(sources)]
    if organ is None:
        return [*ph, *medium]
    glucose, base = sources.moved(organ.glucose), sources.moved(organ.base)
    figures = [
        *ph,
        volume("base_given", "bicarbonate given", base, sources.days),
        volume("glucose_given", "glucose given", glucose, sources.days),
        accuracy("dose_error", "doses against balance", [*base, *glucose]),
        *medium,
    ]
    for line, what in ((organ.base, "bicarbonate"), (organ.glucose, "glucose stock")):
        figures += stock(sources, sources.rig.lines[line].from_, what, line)
    return figures


def _ph(sources: Sources) -> list[Figure]:
    point = loop_ph(sources.rig)
    names = (
        ("ph_deviation", "pH less set-point", "pH"),
        ("ph_out", f"time with pH out of {PH_BAND[0]} to {PH_BAND[1]}", "%"),
    )
    if point is None:
        return [missing(*name, "the rig has no pH probe in the loop") for name in names]
    course, target = sources.courses.get(point), ph_target(sources.rig)
    if course is None:
        return [sources.no_series(*names[0], point), sources.no_series(*names[1], point)]
    return [
        figure(
            *names[0],
            course.mean - target,
            coverage=course.coverage,
            basis=f"{point}: rms {course.rms_from(target):.3f}, least {course.least:.3f}, most {course.most:.3f}; the"
            " probe's own error comes on top",
        ),
        figure(
            *names[1],
            100.0 * course.out_share,
            coverage=course.coverage,
            limits=PH_OUT_PCT,
            basis=f"{point}; the band is that of grade A",
        ),
    ]


def _estimates(sources: Sources) -> list[Figure]:
    """Return the last estimate of the loop in the period, with its interval: these are rarely measured on line."""
    last = next((note for note in reversed(sources.estimates) if "loop" in _estimate(note.body)), None)
    figures = []
    for key, (label, unit) in SOLUTES.items():
        name = f"{label} in the loop, estimated"
        found = None if last is None else _estimate(last.body)["loop"].get(key)
        if last is None or found is None:
            figures.append(missing(key, name, unit, "no protocol asked for an estimate in the period"))
            continue
        basis = f"soft sensor, {(sources.end - last.at) / 3600.0:.1f} h before the period's end"
        figures.append(Figure(key, name, unit, found["value"], found["low"], found["high"], basis=basis))
    return figures


def _ammonia_cleared(sources: Sources) -> list[Figure]:
    """Return the ammonia that left with discarded medium, by the estimate before each discard; empty without a kidney."""
    kidney = sources.rig.organs.kidney
    return [] if kidney is None else [_ammonia_discarded(sources, sources.moved(kidney.discard))]


def _ammonia_discarded(sources: Sources, discarded: Sequence[BookedTransfer]) -> Figure:
    key, label, unit = "ammonia_removed", "ammonia removed with discarded medium", "umol/d"
    if not discarded:
        return missing(key, label, unit, "nothing was discarded, and the rig has no sorbent")
    umol = low = high = 0.0
    for each in discarded:
        before = [note for note in sources.estimates if note.at <= each.end and "spent" in _estimate(note.body)]
        found = _estimate(before[-1].body)["spent"].get("ammonia_mm") if before else None
        if found is None:
            return missing(key, label, unit, "medium was discarded without an estimate of its ammonia")
        umol += found["value"] * each.ul / ML
        low += max(found["low"], 0.0) * each.ul / ML
        high += found["high"] * each.ul / ML
    rate = [value / sources.days for value in (umol, low, high)]
    basis = "estimated concentration times volume discarded; the rig has no sorbent"
    return Figure(key, label, unit, rate[0], rate[1], rate[2], basis=basis)


def _estimate(body: Mapping[str, Any]) -> Mapping[str, Any]:
    estimate = body.get("estimate")
    return estimate if isinstance(estimate, Mapping) else {}
