"""The hazard table of a rig: every hazard, its detection, its action, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from controller.hazards import (
    agitation,
    bounds,
    drift,
    fluids,
    gas,
    heat,
    parts,
    perfusion,
    pressure,
    sampling,
    selectors,
    static,
    volumes,
    witnesses,
)
from controller.hazards.terms import Hazard, HazardVerdict, Subject
from controller.rig.description import Rig
from controller.rig.problems import Finding, nearest
from controller.safety.limits import limits_of
from controller.safety.terms import Limits

SUBJECTS = (
    heat,
    pressure,
    perfusion,
    static,
    volumes,
    selectors,
    gas,
    agitation,
    sampling,
    fluids,
    parts,
    witnesses,
    drift,
)


def hazards_of(rig: Rig, limits: Limits | None = None) -> tuple[Hazard, ...]:
    """Return the hazard table of a valid rig; `limits` default to those derived from it."""
    subject = Subject(rig, limits_of(rig) if limits is None else limits)
    rows = [row for part in SUBJECTS for row in part.hazards(subject)]
    accepted = rig.safety.accepted
    return tuple(replace(row, accepted=accepted.get(row.id) or accepted.get(row.group)) for row in rows)


def gaps_of(rig: Rig) -> Iterator[Finding]:
    """Yield what is missing in a valid rig; a gap that kills quickly cannot be accepted."""
    rows = hazards_of(rig)
    for row in rows:
        if row.verdict is HazardVerdict.GAP:
            yield from row.gaps
    for name in rig.safety.accepted:
        yield from _wrongly_accepted(name, rows)


def _wrongly_accepted(name: str, rows: Sequence[Hazard]) -> Iterator[Finding]:
    """Yield a finding if there is nothing to accept under a name, or nothing that a person may accept."""
    place = ("safety", "accepted", name)
    meant = [row for row in rows if name in (row.id, row.group)]
    if not meant:
        known = [*(row.id for row in rows), *(row.group for row in rows if row.group)]
        yield Finding(place, f"the rig has no hazard “{name}”", nearest(name, known, "hazards"))
    elif not any(row.gaps for row in meant):
        yield Finding(place, "this hazard is covered; there is nothing to accept", "Remove it")
    for row in meant:
        if row.gaps and not may_be_accepted(row):
            what = f"this hazard does harm within {row.harm_s:.0f} s, too soon for a person; it cannot be accepted"
            yield Finding(place, what, f"Remove it and close the gap: {row.gaps[0].what}. {row.gaps[0].fix}")


def may_be_accepted(row: Hazard) -> bool:
    """Return whether a person who is called has time to act before the hazard does harm, or no software could act at all."""
    return row.harm_s >= bounds.PERSON_S or row.residual
