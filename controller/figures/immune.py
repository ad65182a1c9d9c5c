"""Figures of the immune organ: flow and pressure of the sterile filter, its fouling, and its integrity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from controller.figures.figure import Figure, FigureLimits, figure, missing
from controller.figures.sources import Sources
from controller.figures.transfers import BookedTransfer

PEAK_PCT = FigureLimits(50.0, 80.0)
"""Share of the filter's rated pressure: replace it before the interlock stops every return (%)."""
EDGE = 0.2
"""Share of a pass that is left out at either end: the line fills, the pump ramps."""
LMH = 60.0 / 100.0
"""uL/min through a cm² as L/(m² h): 1e-6 L · 60 /(1e-4 m²)."""
MIN_PASSES = 4
"""Minimum number of passes for a trend."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One transfer through the filter: time (UTC seconds), mean pressure (kPa), flux (L/m²/h), litres filtered before."""

    at: float
    kpa: float
    flux_lmh: float
    litres_before: float

    @property
    def resistance(self) -> float:
        """Pressure per unit of flux, kPa/(L/m²/h)."""
        return self.kpa / self.flux_lmh


def immune(sources: Sources) -> list[Figure]:
    """Return every figure of the immune organ; none on a rig without one."""
    organ = sources.rig.organs.immune
    if organ is None:
        return []
    sterile = sources.rig.filters[organ.filter]
    lines = [name for name, line in sources.rig.lines.items() if line.filter == organ.filter]
    through = [each for line in lines for each in sources.moved(line)]
    passes = filter_passes(sources, organ.pressure, through, sterile.area_cm2)
    return [
        *_pressure(passes, organ.pressure),
        _peak(through, sterile.max_pressure_kpa),
        _fouling(passes),
        _integrity(sources),
    ]


def filter_passes(sources: Sources, gauge: str, through: Sequence[BookedTransfer], area_cm2: float) -> list[Pass]:
    """Return the passes with pressure readings, oldest first."""
    found = []
    litres = 0.0
    for each in sorted(through, key=lambda one: one.end):
        if each.begin is not None and each.flow_ul_min and each.asked_ul:
            # The row is written after the balance has settled, so the duration follows from the volume.
            lasts_s = each.asked_ul / each.flow_ul_min * 60.0
            begin = each.begin + EDGE * lasts_s
            readings = [value for _, value in sources.raw(gauge, begin, each.begin + (1 - EDGE) * lasts_s)]
            minutes = lasts_s / 60.0
            if readings and each.ended == "done" and each.ul > 0:
                flux = each.ul / minutes / area_cm2 * LMH
                found.append(Pass(each.end, sum(readings) / len(readings), flux, litres))
        litres += each.ul / 1e6
    return found


def _pressure(passes: Sequence[Pass], point: str) -> list[Figure]:
    names = (
        ("tmp", "transmembrane pressure while filtering", "kPa"),
        ("flux", "flux", "L/m2/h"),
        ("permeability", "permeability", "L/m2/h/kPa"),
    )
    if not passes:
        return [missing(*name, f"no pass through the filter with readings of {point} in the period") for name in names]
    basis = f"{len(passes)} passes; {point} against the room, as the filter's outlet is open"
    values = (
        [each.kpa for each in passes],
        [each.flux_lmh for each in passes],
        [each.flux_lmh / each.kpa for each in passes if each.kpa > 0],
    )
    figures = []
    for name, some in zip(names, values, strict=True):
        if some:
            mean, sd = _mean_sd(some)
            figures.append(figure(*name, mean, sd=sd / math.sqrt(len(some)), basis=basis))
        else:
            figures.append(missing(*name, "the pressure while filtering was not above the room's"))
    return figures


def _peak(through: Sequence[BookedTransfer], stands_kpa: float) -> Figure:
    key, label, unit = "peak", "highest pressure, of what the filter stands", "%"
    peaks = [each.peak_kpa for each in through if each.peak_kpa is not None]
    if not peaks:
        return missing(key, label, unit, "no peak pressure was booked with a transfer in the period")
    share = 100.0 * max(peaks) / stands_kpa
    return figure(key, label, unit, share, limits=PEAK_PCT, basis=f"{max(peaks):.3g} of {stands_kpa:g} kPa")


def _fouling(passes: Sequence[Pass]) -> Figure:
    """Return the growth of the resistance per litre filtered: a straight line through all passes, with its error."""
    key, label, unit = "fouling", "growth of resistance", "%/L"
    if len(passes) < MIN_PASSES:
        return missing(key, label, unit, f"{len(passes)} passes in the period; a trend needs {MIN_PASSES}")
    fitted = line_through([each.litres_before for each in passes], [each.resistance for each in passes])
    if fitted is None:
        return missing(key, label, unit, "every pass came at the same volume")
    slope, slope_sd, start = fitted
    if start <= 0:
        return missing(key, label, unit, "the line through the passes does not begin above zero")
    litres = passes[-1].litres_before - passes[0].litres_before
    return figure(
        key,
        label,
        unit,
        100.0 * slope / start,
        sd=100.0 * slope_sd / start,
        basis=f"resistance of {len(passes)} passes against {litres:.3g} L filtered",
    )


def _integrity(sources: Sources) -> Figure:
    """Return the number of integrity tests: the recipe `filter-integrity` notes the peak pressure of the filter."""
    key, label, unit = "integrity_tests", "integrity tests", ""
    if not sources.filter_notes:
        return missing(key, label, unit, "no integrity test was run in the period (recipe filter-integrity)")
    last = sources.filter_notes[-1]
    peak = last.body.get("peak_kpa")
    needed = f"{peak['value']:.3g} kPa" if isinstance(peak, dict) and "value" in peak else str(peak)
    basis = f"the last, {(sources.end - last.at) / 86_400.0:.1f} d before the period's end, needed {needed}"
    return figure(key, label, unit, float(len(sources.filter_notes)), basis=basis)


def line_through(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float] | None:
    """Fit a line by least squares: slope, its standard error, and the value at x = 0; None if all x are equal."""
    n = len(x)
    mean_x, mean_y = sum(x) / n, sum(y) / n
    square = sum((value - mean_x) ** 2 for value in x)
    if square <= 0 or n < 3:
        return None
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / square
    start = mean_y - slope * mean_x
    rest = sum((b - start - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    return slope, math.sqrt(rest / (n - 2) / square), start


def _mean_sd(values: Sequence[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
