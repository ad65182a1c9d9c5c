"""Figures of the nerves: active electrodes, firing, evoked responses, and charge."""

from __future__ import annotations

from controller.figures.figure import Figure, FigureLimits, figure, missing
from controller.figures.sources import Sources

ACTIVE_PCT = FigureLimits(50.0, 20.0, upward=False)
EVOKED_RATIO = FigureLimits(0.5, 0.25, upward=False)
"""A response at half of the tissue's earlier one is to be examined."""


def nerves(sources: Sources) -> list[Figure]:
    """Return every figure of the nerves; none on a rig without an electrode array."""
    array = sources.rig.nerves
    if array is None:
        return []
    return [*_active(sources, array.electrodes), _firing(sources), _evoked(sources), *_charge(sources)]


def _active(sources: Sources, electrodes: int) -> list[Figure]:
    names = ("active", "active electrodes", "electrodes"), ("active_share", "share of electrodes active", "%")
    course = sources.courses.get("nerves.active_electrodes")
    if course is None:
        return [sources.no_series(*name, "nerves.active_electrodes") for name in names]
    basis = f"of {electrodes}; least {course.least:g}, most {course.most:g}; active from five spikes a minute on"
    share = 100.0 * course.mean / electrodes
    return [
        figure(*names[0], course.mean, coverage=course.coverage, basis=basis),
        figure(*names[1], share, coverage=course.coverage, limits=ACTIVE_PCT),
    ]


def _firing(sources: Sources) -> Figure:
    key, label, unit = "firing", "firing rate of active electrodes", "Hz"
    course = sources.courses.get("nerves.firing_rate")
    if course is None:
        return sources.no_series(key, label, unit, "nerves.firing_rate")
    basis = f"mean over time; least {course.least:.3g}, most {course.most:.3g}; corrected for blanked time"
    return figure(key, label, unit, course.mean, coverage=course.coverage, basis=basis)


def _evoked(sources: Sources) -> Figure:
    key, label, unit = "evoked", "evoked response over its own earlier ones", ""
    course = sources.courses.get("nerves.evoked_ratio")
    if course is None:
        return missing(
            key, label, unit, "no evoked responses are in the record: nothing was stimulated, or not long enough"
        )
    return figure(key, label, unit, course.mean, coverage=course.coverage, limits=EVOKED_RATIO)


def _charge(sources: Sources) -> list[Figure]:
    names = ("pulses", "pulses delivered", ""), ("charge", "charge delivered", "nC")
    given = sources.stimulation
    if given is None:
        why = "there is no stimulation ledger: no electrode engine has run with this data directory"
        return [missing(*name, why) for name in names]
    basis = f"stimulation ledger; {given.refused} requests refused"
    if given.unknown:
        basis += f"; {given.unknown} of unknown fate counted in"
    return [
        figure(*names[0], float(given.pulses), basis=basis),
        figure(*names[1], given.charge_nc, basis="first phase of each pulse; the second takes it back"),
    ]
