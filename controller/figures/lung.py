"""Figures of the lung: oxygen and carbon dioxide of the loop, gas transfer rate, and gas used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from controller.figures.figure import Figure, FigureLimits, figure, missing
from controller.figures.sources import Sources
from controller.figures.transient import Approach, approach
from controller.memory.history_reader import Stretch
from controller.rig.organs import LungConfig

ATMOSPHERE_KPA, WATER_KPA = 101.325, 6.27
"""Standard pressure, and water vapour at 37 °C: the gas over medium is humid."""
OXYGEN_OF_AIR = 0.2095
MMHG_KPA = 7.50062
MIN_OXYGEN_PCT = 60.0
"""Of air saturation; the lower edge of grade A (biology.md §3.2)."""
LOW_OXYGEN_PCT = FigureLimits(1.0, 5.0)
STEP_PCT = 2.0
"""Minimum change of the inlet's oxygen (% of the gas) for a fit of the transient."""
STILL_PCT = 0.5
"""Maximum variation of the mixture after its step (% of the gas)."""
WINDOW_S = 3600.0


def lung(sources: Sources) -> list[Figure]:
    """Return every figure of the lung; none on a rig without one."""
    organ = sources.rig.organs.lung
    if organ is None:
        return []
    return [
        *_oxygen(sources, organ), _co2(sources, organ), _kla(sources, organ), _transfer(), *_gas(sources, organ)
    ]  # fmt: skip


def _oxygen(sources: Sources, organ: LungConfig) -> list[Figure]:
    course = sources.courses.get(organ.oxygen)
    names = (
        ("oxygen", "dissolved oxygen", "% air"),
        ("po2", "oxygen partial pressure", "kPa"),
        ("oxygen_deviation", "dissolved oxygen less set-point", "% air"),
        ("oxygen_low", f"time below {MIN_OXYGEN_PCT:g} % air saturation", "%"),
    )
    if course is None:
        return [sources.no_series(*name, organ.oxygen) for name in names]
    kpa = course.mean / 100.0 * OXYGEN_OF_AIR * (ATMOSPHERE_KPA - WATER_KPA)
    off = course.mean - organ.oxygen_setpoint_pct
    coverage = course.coverage
    return [
        figure(*names[0], course.mean, coverage=coverage, basis=f"least {course.least:.4g}, most {course.most:.4g}"),
        figure(*names[1], kpa, coverage=coverage, basis="from dissolved oxygen, at standard pressure and 37 °C"),
        figure(
            *names[2],
            off,
            coverage=coverage,
            basis=f"set-point {organ.oxygen_setpoint_pct:g} %; rms {course.rms_from(organ.oxygen_setpoint_pct):.3g}",
        ),
        figure(*names[3], 100.0 * course.out_share, coverage=coverage, limits=LOW_OXYGEN_PCT, basis=organ.oxygen),
    ]


def _co2(sources: Sources, organ: LungConfig) -> Figure:
    """Return the partial pressure of the gas over the medium, from the mixture."""
    key, label, unit = "pco2", "CO2 partial pressure of the gas", "mmHg"
    courses = {point: sources.courses.get(point) for point in (organ.air, organ.co2, organ.o2)}
    absent = [point for point, course in courses.items() if course is None]
    if absent:
        return sources.no_series(key, label, unit, ", ".join(absent))
    flows = {point: max(course.mean, 0.0) for point, course in courses.items() if course is not None}
    total = sum(flows.values())
    if total <= 0:
        return missing(key, label, unit, "no gas flowed in the period")
    share = flows[organ.co2] / total
    coverage = min(course.coverage for course in courses.values() if course is not None)
    mmhg = share * (ATMOSPHERE_KPA - WATER_KPA) * MMHG_KPA
    basis = f"{100 * share:.2f} % of the mean gas flow; the medium follows it with a delay"
    return figure(key, label, unit, mmhg, coverage=coverage, basis=basis)


def _kla(sources: Sources, organ: LungConfig) -> Figure:
    key, label, unit = "kla", "kLa for oxygen", "1/h"
    if sources.courses.get(organ.oxygen) is None:
        return sources.no_series(key, label, unit, organ.oxygen)
    steps = list(oxygen_steps(sources, organ))
    if not steps:
        return missing(key, label, unit, f"the gas mixture made no step of {STEP_PCT:g} % oxygen or more in the period")
    fits = list(_fits(sources, organ, steps))
    if not fits:
        why = f"{len(steps)} steps of the gas mixture, and after none a clean exponential approach of dissolved oxygen"
        return missing(key, label, unit, why)
    mean, sd = _combined(fits)
    basis = f"{len(fits)} of {len(steps)} transients after a step of the gas mixture, dynamic method"
    return figure(key, label, unit, mean, sd=sd, basis=basis)


def _fits(sources: Sources, organ: LungConfig, steps: Iterable[float]) -> Iterator[Approach]:
    """Yield the exponential approach of dissolved oxygen after each step that shows one."""
    for at in steps:
        readings = list(sources.raw(organ.oxygen, at, min(at + WINDOW_S, sources.end)))
        if (fit := approach([when - at for when, _ in readings], [value for _, value in readings])) is not None:
            yield fit


def _combined(fits: Sequence[Approach]) -> tuple[float, float]:
    """Return the weighted mean of the rates and its standard deviation (1/h).

    If the fits differ by more than their own errors, the standard deviation is widened accordingly (Birge 1932).
    """
    weights = [1.0 / max(fit.sd_h, 1e-6) ** 2 for fit in fits]
    mean = sum(fit.rate_h * weight for fit, weight in zip(fits, weights, strict=True)) / sum(weights)
    spread = sum(weight * (fit.rate_h - mean) ** 2 for fit, weight in zip(fits, weights, strict=True))
    birge = max(1.0, spread / (len(fits) - 1)) if len(fits) > 1 else 1.0
    return mean, math.sqrt(birge / sum(weights))


def oxygen_steps(sources: Sources, organ: LungConfig) -> Iterator[float]:
    """Yield the times (UTC seconds) at which the inlet's oxygen changed by a step and then stayed."""
    shares = list(_inlet(*(sources.stretches(point) for point in (organ.air, organ.co2, organ.o2))))
    hold = int(WINDOW_S / sources.width)
    for i in range(2, len(shares) - hold):
        at, share = shares[i]
        before = shares[i - 2][1]  # the stretch between the two holds the step itself
        after = [value for _, value in shares[i : i + hold]]
        if abs(share - before) < STEP_PCT or max(after) - min(after) > STILL_PCT:
            continue
        if abs(shares[i - 1][1] - share) <= STILL_PCT and abs(shares[i - 1][1] - before) >= STEP_PCT:
            continue  # reported at the stretch before
        yield at


def _inlet(air: Iterator[Stretch], co2: Iterator[Stretch], o2: Iterator[Stretch]) -> Iterator[tuple[float, float]]:
    """Yield the oxygen of the inlet gas (%) for each stretch in which all three flows are known."""
    flows = [{stretch.begin: max(stretch.total / stretch.n, 0.0) for stretch in gas} for gas in (air, co2, o2)]
    for at in sorted(flows[0].keys() & flows[1].keys() & flows[2].keys()):
        total = sum(flow[at] for flow in flows)
        if total > 0:
            yield at, 100.0 * (OXYGEN_OF_AIR * flows[0][at] + flows[2][at]) / total


def _transfer() -> Figure:
    why = "needs dissolved oxygen before and behind the oxygenator; this rig has one probe"
    return missing("oxygen_transfer", "oxygen transfer rate", "umol/min", why)


def _gas(sources: Sources, organ: LungConfig) -> list[Figure]:
    figures = []
    for key, what, point in (("air", "air", organ.air), ("co2", "CO2", organ.co2), ("o2", "oxygen", organ.o2)):
        name = f"{key}_used", f"{what} used", "L"
        course = sources.courses.get(point)
        if course is None:
            figures.append(sources.no_series(*name, point))
            continue
        litres = max(course.mean, 0.0) * course.covered_s / 60.0 / 1000.0
        basis = f"mean {course.mean:.4g} {course.unit} of {point} over the time that it is known for"
        figures.append(figure(*name, litres, coverage=course.coverage, basis=basis))
    return figures
