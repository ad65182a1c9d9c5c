"""Samples that leave a vessel for an assay: their volume, where it is missing, and whether a later reading contains it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Self

from controller.core.state import Volume
from controller.journal.rows import JournalRows
from controller.ledger.losses import overflow_ends
from controller.rig.description import Rig
from controller.rig.perfusion import perfused_chambers

SAMPLED = "ledger.sampled"
"""Kind of the journal's rows of samples."""
REL_SD, MIN_SD_UL = 0.03, 5.0
"""Uncertainty of a sample's volume by a pipette or a sampler: relative, and at least [P]."""
_READINGS = ("ledger.weighed", "ledger.balanced", "ledger.level", "ledger.reconciled", "moved")
"""Kinds of rows that may hold a measured volume of a vessel."""


@dataclass(frozen=True, slots=True)
class AssaySample:
    """One sample: the vessel it was taken from, its volume with standard deviation (µL), and when (ISO 8601, UTC)."""

    vessel: str
    ul: float
    sd_ul: float
    taken_utc: str
    missing: Mapping[str, float]
    """Share of the volume by the vessel that it is missing in: a perfused chamber stays full at the cost of the loop."""
    contained: tuple[str, ...]
    """Of these vessels, those that were measured since: their present volume lacks the sample already."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        values = {name: data[name] for name in cls.__dataclass_fields__}
        return cls(**{**values, "contained": tuple(values["contained"])})

    def withdrawn_ul(self) -> Iterator[tuple[str, float]]:
        """Yield the vessels whose believed volume shrinks by the sample, and by how much (µL)."""
        for vessel, share in self.missing.items():
            if vessel not in self.contained:
                yield vessel, share * self.ul


def sample_of(rig: Rig, journal: JournalRows, vessel: str, ul: float, taken: datetime) -> AssaySample:
    """Return the sample of a volume (µL) that was taken out of a vessel."""
    missing = overflow_ends(rig, vessel) if vessel in perfused_chambers(rig) else {vessel: 1.0}
    total = sum(missing.values())
    shares = {name: share / total for name, share in missing.items()}
    kidney = rig.organs.kidney
    spent = None if kidney is None else kidney.vessel
    contained = tuple(name for name in shares if name in _measured_since(journal, spent, taken))
    return AssaySample(vessel, ul, max(REL_SD * ul, MIN_SD_UL), taken.isoformat(timespec="seconds"), shares, contained)


def _measured_since(journal: JournalRows, spent: str | None, taken: datetime) -> set[str]:
    """Return the vessels whose volume was weighed, read or set after a time; the balance of `spent` weighs doses."""
    found: set[str] = set()
    for row in journal.entries(kinds=_READINGS, newest_first=True):
        if datetime.fromisoformat(row.utc) <= taken:
            break
        if row.kind != "moved":
            found.add(row.body["vessel"])
        elif spent is not None and "spent_ul" in row.body:
            found.add(spent)
    return found


def same_sample(journal: JournalRows, vessel: str, taken: datetime) -> AssaySample | None:
    """Return the sample that is booked for this vessel and time; several analytes of one sample are one withdrawal."""
    for row in journal.entries(kinds=(SAMPLED,), newest_first=True):
        booked = AssaySample.from_json(row.body)
        if (booked.vessel, datetime.fromisoformat(booked.taken_utc)) == (vessel, taken):
            return booked
    return None


def objection(sample: AssaySample, volume: Volume, booked: AssaySample | None) -> str | None:
    """Return why a sample cannot be booked, or None; `volume` is what its vessel holds now, `booked` the same sample."""
    what = f"a sample of {sample.ul / 1000:g} mL from {sample.vessel}"
    if not (math.isfinite(sample.ul) and sample.ul > 0.0):
        return f"{what} is impossible. Likely cause: a slip. Next: write the volume that was taken, such as 0.5 mL"
    if booked is not None and not math.isclose(booked.ul, sample.ul, rel_tol=1e-6):
        return (
            f"{what} at {sample.taken_utc} contradicts the {booked.ul / 1000:g} mL that are booked for the same vessel and"
            " time. Likely cause: a slip in one of both. Next: give the same volume for all analytes of one sample, or the"
            " time of the other sample"
        )
    if booked is None and sample.ul > volume.ul:
        return (
            f"{what} is more than the {volume.ul / 1000:.2f} mL that it holds. Likely cause: a slip in the unit or the"
            " vessel. Next: write the volume that was taken; if the ledger is wrong, enter the level that you read"
        )
    return None
