"""Assays of the medium that were taken at one time, and what they do to the estimate together.

An assay that contradicts the estimate makes it doubtful (:func:`protocols.media_assays.doubted`). Samples of loop and spent
medium that are much more probable when they are exchanged count as exchanged, and are not used until a person is sure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from protocols import media_assays
from protocols.assay import Assay
from protocols.media_state import MediaState


@dataclass(frozen=True, slots=True)
class EnteredAssay:
    """One assay of the medium, the journal row of its entry, and whether a person was sure of it.

    `again`: the assay of this species before it was refused, too.
    """

    seq: int
    assay: Assay
    sure: bool
    again: bool = False


@dataclass(frozen=True, slots=True)
class SampledTogether:
    """The assays of one time."""

    findings: tuple[EnteredAssay, ...]

    @property
    def newest(self) -> int:
        """Journal row of the last entry."""
        return max(each.seq for each in self.findings)

    @property
    def both_vessels(self) -> bool:
        """Whether loop and spent medium were sampled."""
        return len({each.assay.where for each in self.findings}) > 1

    def exchanged(self, state: MediaState) -> bool:
        """Return whether loop and spent medium were exchanged, as far as the state without them tells."""
        if any(each.sure for each in self.findings):
            return False
        latest = {(each.assay.species, each.assay.where): each.assay for each in self.findings}
        pairs = [
            (species, (loop.value, loop.sd), (spent.value, spent.sd))
            for (species, where), loop in latest.items()
            if where == "loop" and (spent := latest.get((species, "spent"))) is not None
        ]
        return media_assays.exchange_evidence(state, pairs) > media_assays.EXCHANGED

    def applied(self, state: MediaState, *, doubt: media_assays.GrossErrors) -> MediaState:
        """Return the state after these assays; `doubt` as in :func:`protocols.media_assays.assayed`."""
        if self.exchanged(state):
            return state
        confirmed = {(each.assay.species, each.assay.where) for each in self.findings if each.sure}
        for each in self.findings:
            assay = each.assay
            told = (assay.where, assay.species, assay.value, assay.sd)
            if not each.sure and (assay.species, assay.where) in confirmed:
                continue
            if assay.used:
                state = media_assays.assayed(state, *told, doubt=doubt)
            else:
                state = media_assays.doubted(state, *told, doubt=doubt, again=each.again)
        return state


def by_time(findings: Iterable[EnteredAssay]) -> dict[datetime, SampledTogether]:
    """Return assays by the time of their sample, those of one time in a fixed order, whichever was entered first."""
    ordered = sorted(findings, key=lambda each: (each.assay.taken, each.assay.analyte, each.assay.vessel, each.seq))
    found: dict[datetime, list[EnteredAssay]] = {}
    refused: dict[str, datetime] = {}
    for each in ordered:
        species, taken = each.assay.species, each.assay.taken
        again = refused.get(species, taken) < taken
        found.setdefault(taken, []).append(replace(each, again=again))
        if each.assay.used:
            refused.pop(species, None)
        else:
            refused.setdefault(species, taken)
    return {taken: SampledTogether(tuple(together)) for taken, together in found.items()}
