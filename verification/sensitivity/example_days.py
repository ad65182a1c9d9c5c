"""Example days for the sensitivity analysis: invented, one for each way in which a day goes wrong, every input
known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from controller.rig.description import Rig
from controller.rig.probes import loop_oxygen
from protocols.activity import FiringMeasures
from protocols.care_rating import MediumGrade, Vitals
from protocols.grading import Letter
from protocols.interval import Interval
from protocols.welfare import Treatment

Days = Mapping[str, tuple[Vitals, Treatment]]


def _near(value: float, share: float = 0.1) -> Interval:
    return Interval(value, value - share * abs(value), value + share * abs(value))


def _graded(letter: Letter) -> MediumGrade:
    return MediumGrade(letter, letter)


_FIRING = FiringMeasures(
    active_ratio=_near(1.0),
    rate_z=Interval(0.0, -0.5, 0.5),
    burst_cv=_near(0.8),
    sttc=_near(0.2),
    branching=_near(0.95, 0.05),
    evoked_ratio=_near(0.95),
    signal_quality=Interval.exact(1.0),
)
_ALIVE = Vitals(
    temperature_c=Interval.around(37.0, 0.15),
    oxygen_short_s=Interval.exact(0.0),
    ldh=_near(1.1),
    oxygen_uptake=_near(1.0),
    growth=_near(0.03, 0.3),
    lactate_yield=_near(1.3),
    grade=_graded(Letter.A),
    firing=_FIRING,
)
_KEPT = Treatment(
    temperature_spread_c=_near(0.4),
    ph_spread=_near(0.08),
    osmolality_spread_pct=_near(1.5),
    stimulation_load=Interval.exact(0.2),
    rest_h=Interval.exact(16.0),
    own_band=Interval(0.0, -0.5, 0.5),
)


def _less(rate_z: float, active: float) -> FiringMeasures:
    return replace(_FIRING, rate_z=Interval(rate_z, rate_z - 0.5, rate_z + 0.5), active_ratio=_near(active))


def _band(rate_z: float) -> Interval:
    return Interval(rate_z, rate_z - 0.5, rate_z + 0.5)


EXAMPLE_DAYS: Days = {
    "well": (_ALIVE, _KEPT),
    "medium not renewed": (
        replace(_ALIVE, grade=_graded(Letter.C), lactate_yield=_near(1.5)),
        replace(_KEPT, ph_spread=_near(0.35), osmolality_spread_pct=_near(5.0)),
    ),
    "ammonia": (
        replace(_ALIVE, grade=_graded(Letter.D), ldh=_near(3.0), oxygen_uptake=_near(0.7), firing=_less(-2.5, 0.8)),
        replace(_KEPT, own_band=_band(-2.5)),
    ),
    "little oxygen": (
        replace(
            _ALIVE, lactate_yield=_near(2.0), oxygen_uptake=_near(0.4), firing=_less(-3.5, 0.5), grade=_graded(Letter.C)
        ),
        replace(_KEPT, own_band=_band(-3.5)),
    ),
    "starving": (
        replace(
            _ALIVE, growth=_near(-0.02), oxygen_uptake=_near(0.6), firing=_less(-2.0, 0.7), grade=_graded(Letter.D)
        ),
        replace(_KEPT, own_band=_band(-2.0)),
    ),
    "dying slowly": (
        replace(_ALIVE, ldh=_near(2.5), growth=_near(-0.03), oxygen_uptake=_near(0.5), firing=_less(-3.0, 0.6)),
        replace(_KEPT, own_band=_band(-3.0)),
    ),
    "too much stimulation": (
        replace(_ALIVE, firing=replace(_less(-1.8, 0.9), evoked_ratio=_near(0.4))),
        replace(_KEPT, stimulation_load=Interval.exact(1.0), rest_h=Interval.exact(8.0), own_band=_band(-1.8)),
    ),
    "seizure-like": (
        replace(
            _ALIVE, firing=replace(_FIRING, rate_z=_band(4.0), burst_cv=_near(0.1), sttc=_near(0.8), seizure_like=True)
        ),
        replace(_KEPT, own_band=_band(4.0), seizure_like=True),
    ),
    "warmth and gas unsteady": (
        _ALIVE,
        replace(_KEPT, temperature_spread_c=_near(2.5), ph_spread=_near(0.4)),
    ),
    "chilled": (
        replace(_ALIVE, temperature_c=Interval.around(31.0, 0.15), oxygen_uptake=_near(0.6), firing=_less(-4.0, 0.5)),
        replace(_KEPT, temperature_spread_c=_near(6.0), own_band=_band(-4.0)),
    ),
}


def as_measured(days: Days, rig: Rig) -> Days:
    """Return the days as this rig would measure them without a laboratory: inputs without a probe are missing."""
    outlet = any(
        each.at in rig.tissue and f"{name}.oxygen" != loop_oxygen(rig) and "do" in each.model
        for name, each in rig.devices.items()
    )
    seen = {}
    for name, (vitals, treated) in days.items():
        firing = (
            FiringMeasures() if rig.nerves is None else replace(vitals.firing, burst_cv=None, sttc=None, branching=None)
        )
        by = "" if outlet else "told from lactate making [P]"
        vitals = replace(vitals, ldh=None, growth=None, lactate_yield=None, oxygen_uptake_by=by, firing=firing)
        if rig.nerves is None:
            treated = replace(treated, own_band=None)
        seen[name] = (vitals, treated)
    return seen
