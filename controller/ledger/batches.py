"""Batches of medium, followed through all vessels by perfect mixing. Pure.

The medium of a vessel is a mixture of parcels. A parcel is the share of one batch that has entered the loop equally often.
A transfer takes the same share of every parcel. Shares always add up to one: a parcel below a bound is merged into the
nearest one, not dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

PRUNE = 1e-4
"""Share of its vessel below which a parcel is merged into the parcel of the same batch nearest to it in uses."""
COUNTED_SHARE = 0.05
"""Share of a bottle from which a lot counts."""
TRACE = 1e-7
"""Share of its vessel below which a batch is merged into the traces: a microlitre in ten litres."""
TRACES = "(traces)"
AT_THE_START = " at the start"
"""Suffix of the name of a vessel's initial medium, until a person enters its lot."""

Key = tuple[str, int]
"""Batch, and number of times that the medium has entered the loop."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A lot of medium as its label describes it. Times are UTC, ISO 8601, empty where unknown."""

    lot: str
    medium: str
    """Composition: a name from `media` in the rig file; empty for none."""
    loaded_utc: str
    vessel: str
    made_utc: str = ""
    thawed_utc: str = ""
    expires_utc: str = ""
    first_use_utc: str = ""
    by: str = ""

    def used(self, utc: str) -> Batch:
        """Return the batch with the time of its first use."""
        return self if self.first_use_utc else replace(self, first_use_utc=utc)

    def expired(self, now_utc: str) -> bool:
        """Return whether the label's expiry date has passed."""
        return bool(self.expires_utc) and self.expires_utc <= now_utc

    def no_dates(self) -> str:
        """Return what of the label is no date that exists; an empty text if all are."""
        stated = {"made": self.made_utc, "thawed": self.thawed_utc, "expires": self.expires_utc}
        return " and ".join(
            f"“{text}” ({name}) is no date" for name, text in stated.items() if text and not _date(text)
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


class BatchMixture:
    """Parcels with their shares (0..1, sum 1). Without parcels: an empty vessel that never held medium."""

    __slots__ = ("_shares",)

    def __init__(self, shares: Mapping[Key, float] | None = None) -> None:
        self._shares: dict[Key, float] = dict(shares or {})

    @classmethod
    def of(cls, lot: str, uses: int = 0) -> BatchMixture:
        """Return a mixture of one batch."""
        return cls({(lot, uses): 1.0})

    def __iter__(self) -> Iterator[tuple[Key, float]]:
        return iter(sorted(self._shares.items()))

    @property
    def by_batch(self) -> dict[str, float]:
        """Share of each batch, the largest first."""
        found: dict[str, float] = {}
        for (lot, _), share in sorted(self._shares.items()):
            found[lot] = found.get(lot, 0.0) + share
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    def entered_loop(self) -> BatchMixture:
        """Return the mixture after it has entered the loop once more."""
        return BatchMixture({(lot, uses + 1): share for (lot, uses), share in self._shares.items()})

    def with_(self, poured: BatchMixture, share: float) -> BatchMixture:
        """Return the mixture with `poured`, which makes up `share` (0..1) of the result."""
        if not self._shares or share >= 1.0:
            return poured if poured._shares else self
        if not poured._shares or share <= 0.0:
            return self
        mixed = {key: part * (1.0 - share) for key, part in self._shares.items()}
        for key, part in poured._shares.items():
            mixed[key] = mixed.get(key, 0.0) + part * share
        return BatchMixture(_pruned(mixed))


class Whereabouts:
    """Every batch of a rig: its label, the vessels that hold it now, and the lines it has passed."""

    def __init__(self) -> None:
        self.batches: dict[str, Batch] = {}
        self.mixtures: dict[str, BatchMixture] = {}
        self.flows_ul: dict[str, dict[str, float]] = {}
        """Volume that has passed (µL), by batch and line."""
        self._put_in_utc: dict[tuple[str, str], str] = {}
        """By vessel and lot: since when what makes the vessel's contents has been there."""

    def loaded(self, batch: Batch, *, uses: int = 0, share: float = 1.0) -> None:
        """Add `batch` to its vessel, where it makes up `share` of the contents."""
        known = self.batches.get(batch.lot)
        first_use_utc = "" if known is None else known.first_use_utc
        self.batches[batch.lot] = replace(batch, first_use_utc=first_use_utc) if first_use_utc else batch
        before = self.mixtures.get(batch.vessel, BatchMixture())
        if (1.0 - share) * before.by_batch.get(batch.lot, 0.0) < COUNTED_SHARE:  # else it is as old as what was there
            self._put_in_utc[batch.vessel, batch.lot] = batch.loaded_utc
        self.mixtures[batch.vessel] = before.with_(BatchMixture.of(batch.lot, uses), share)

    def put_in_utc(self, vessel: str, lot: str) -> str:
        """Return since when a lot is in a vessel; empty where it is unknown."""
        batch = self.batches.get(lot)
        return self._put_in_utc.get((vessel, lot), "" if batch is None else batch.loaded_utc)

    def moved(self, line: str, source: str, target: str, ul: float, share: float, *, into_loop: bool, utc: str) -> None:
        """Move `ul` µL along a line; they make up `share` of its target afterwards."""
        poured = self.mixtures.get(source, BatchMixture())
        for lot, part in poured.by_batch.items():
            flows = self.flows_ul.setdefault(lot, {})
            flows[line] = flows.get(line, 0.0) + part * ul
            if lot in self.batches:
                self.batches[lot] = self.batches[lot].used(utc)
        if into_loop:
            poured = poured.entered_loop()
        self.mixtures[target] = self.mixtures.get(target, BatchMixture()).with_(poured, share)

    def to_json(self, vessel: str) -> dict[str, Any]:
        """Return the contents of a vessel, and the label of each lot in it, in the form that :meth:`take` takes."""
        parcels = self.vessel_json(vessel)
        lots = dict.fromkeys(parcel["lot"] for parcel in parcels)
        return {"parcels": parcels, "lots": [self.batches[lot].to_json() for lot in lots if lot in self.batches]}

    def take(self, vessel: str, contents: Mapping[str, Any]) -> None:
        """Replace the contents of `vessel` by what :meth:`to_json` of another rig returned. A known lot keeps its label."""
        for lot in contents["lots"]:
            self.batches.setdefault(lot["lot"], replace(Batch(**lot), vessel=vessel))
        self.mixtures[vessel] = BatchMixture(
            {(each["lot"], each["uses"]): each["share"] for each in contents["parcels"]}
        )

    def vessel_json(self, vessel: str) -> list[dict[str, Any]]:
        """Return the parcels of a vessel, the largest first."""
        parcels = sorted(self.mixtures.get(vessel, BatchMixture()), key=lambda each: (-each[1], each[0]))
        return [{"lot": lot, "uses": uses, "share": share} for (lot, uses), share in parcels]

    def batch_json(self, lot: str, volumes_ul: Mapping[str, float]) -> dict[str, Any]:
        """Return a batch's label, its present volumes (µL by vessel) and what has passed each line (µL).

        Raises:
            KeyError: for an unknown lot.
        """
        known = self.batches[lot]
        now = {
            vessel: volumes_ul[vessel] * share
            for vessel, mixture in self.mixtures.items()
            if (share := mixture.by_batch.get(lot, 0.0)) > 0.0
        }
        return {**known.to_json(), "now_ul": now, "passed_ul": dict(self.flows_ul.get(lot, {}))}


def _date(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _pruned(shares: dict[Key, float]) -> dict[Key, float]:
    """Merge small parcels; the total share stays the same."""
    kept = {key: share for key, share in shares.items() if share >= PRUNE}
    for (lot, uses), share in sorted(shares.items()):
        if share >= PRUNE:
            continue
        relatives = [key for key in kept if key[0] == lot]
        if relatives:
            nearest = min(relatives, key=lambda key: (abs(key[1] - uses), key[1]))
        elif share < TRACE:
            nearest = (TRACES, 0)
        else:
            nearest = (lot, uses)
        kept[nearest] = kept.get(nearest, 0.0) + share
    return kept
