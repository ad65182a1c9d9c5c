"""Hazards of agitation: a stirrer, shaker or rocker that stops. Oxygen is judged without any motion (static culture)."""

from __future__ import annotations

from collections.abc import Iterator

from controller.hazards.terms import NEVER_S, Hazard, Subject
from controller.rig.agitation import Agitator, agitated
from controller.rig.problems import Finding, named


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield a row for each agitator under tissue."""
    zones = {name: vessel.zone for name, vessel in subject.rig.vessels.items()}
    for name, agitator in subject.rig.agitators.items():
        if chambers := [vessel for vessel in agitated(agitator, zones) if vessel in subject.rig.tissue]:
            yield _stops(subject, name, agitator, chambers)


def _stops(subject: Subject, name: str, agitator: Agitator, chambers: list[str]) -> Hazard:
    measured, drive = agitator.measured, agitator.drive
    acts = () if drive is None else (drive,)
    limits = f"{agitator.stands_below_rpm:g} rpm" if measured is not None else ""
    gaps: list[Finding] = []
    if measured is not None and agitator.stale_s <= subject.every_s(measured):
        what = f"“{measured}” is read every {subject.every_s(measured):g} s and counts as lost after {agitator.stale_s:g} s"
        gaps.append(
            Finding(("agitators", name, "stale"), what, "Write a larger “stale”, or read its device more often")
        )
    note = "organoids that touch for a day fuse"
    if measured is None:
        sees = "a person sets its speed" if drive is None else "a closed contact is no proof that the motor turns"
        note = f"{note}; {sees}: look at it on the daily round, or declare the point that measures its speed"
    return Hazard(
        f"agitation_stops_{name}", named(chambers), measured or "none", "agitation_stopped: alarm" if measured else "none",
        acts, limits, agitator.stale_s if measured else 0.0, NEVER_S, note, tuple(gaps), residual=measured is None,
    )  # fmt: skip
