"""Hazards of a probe that drifts alone: what shows it, and what remains."""

from __future__ import annotations

from collections.abc import Iterator

from controller.hazards.terms import NEVER_S, Hazard, Subject
from controller.rig.agreement import balanced, same_medium
from controller.rig.families import OXYGEN, PH, TEMPERATURE, points_of
from controller.rig.heating import warmed_chambers
from controller.rig.probes import culture_places
from controller.rig.problems import named

QUANTITIES = {TEMPERATURE: "thermometer", PH: "pH probe", OXYGEN: "oxygen probe"}
NOTHING = "none"


def drift_id(point: str) -> str:
    """Return the id of the hazard that a probe drifts."""
    return f"drift_{point}"


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield a row for each thermometer, pH and oxygen probe in medium of the tissue."""
    rig = subject.rig
    places = {*culture_places(rig), *rig.tissue}
    regulated = {each.point: each for each in balanced(rig)}
    groups = same_medium(rig)
    for point, kind in points_of(rig).items():
        grouped = any(point in group.points for group in groups)
        if kind not in QUANTITIES or not (subject.at(point) in places or grouped or point in regulated):
            continue
        others = [other for group in groups if point in group.points for other in group.points if other != point]
        shown = named(others)
        if (balance := regulated.get(point)) is not None:
            shown = f"{shown} and {balance.by}" if others else balance.by
        within = [group.for_s for group in groups if point in group.points]
        within += [] if balance is None else [balance.for_s]
        yield _row(subject, point, QUANTITIES[kind], shown, min(within, default=0.0), alone=not others)


def _row(subject: Subject, point: str, probe: str, shown: str, detection_s: float, *, alone: bool) -> Hazard:
    """Return the row of one probe; one without a second probe in its medium leaves a hazard."""
    remedy = f"fit a second {probe} in the same medium and compare it with an instrument each week"
    skin = subject.rig.organs.skin
    heated = skin is not None and skin.temperature == point and warmed_chambers(subject.rig)
    if heated:
        remedy += "; fit a limiting thermostat of its own (39 degC) in the heater's supply"
    note = f"compared with {shown}"
    if alone:
        hidden = "what drifts within the first hour, or as the surroundings may, is not seen"
        note = f"{note}; {hidden}: {remedy}" if shown else f"nothing of this rig shows it: {remedy}"
    acts = "probe_disagreement: alarm" if shown else "none"
    return Hazard(
        drift_id(point), point, shown or NOTHING, acts, (), "", detection_s, NEVER_S, note, residual=alone,
    )  # fmt: skip
