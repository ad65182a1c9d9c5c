"""Batches of medium, followed through every vessel by perfect mixing: what is in here, and where did that lot go? Pure.

The medium of a vessel is a mixture of parcels; a parcel is what there is of one batch that has been in the loop equally
often. Pouring takes the same share of every parcel along. Shares always add up to one: what falls below a bound is
counted with its nearest relation, not dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

PRUNE = 1e-4
"""A parcel below this share of its vessel is merged into the parcel of the same batch nearest to it in uses."""
TRACE = 1e-7
"""A batch below this share of its vessel is no longer told apart from other traces: a microlitre in ten litres."""
TRACES = "(traces)"
AT_THE_START = " at the start"
"""What stands in a vessel when a journal begins is called so after it, until somebody enters a lot."""

Key = tuple[str, int]
"""Batch, and how often the medium has entered the loop."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A lot of medium as a bottle's label tells it; times are UTC, ISO 8601, empty where nobody said."""

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
        """With the time of its first use, if this is it."""
        return self if self.first_use_utc else replace(self, first_use_utc=utc)

    def expired(self, now_utc: str) -> bool:
        """Whether its label says that it is past its time."""
        return bool(self.expires_utc) and self.expires_utc <= now_utc

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


class BatchMixture:
    """Parcels with their shares (0..1, together 1); without any, an empty vessel that never held something."""

    __slots__ = ("_shares",)

    def __init__(self, shares: Mapping[Key, float] | None = None) -> None:
        self._shares: dict[Key, float] = dict(shares or {})

    @classmethod
    def of(cls, lot: str, uses: int = 0) -> BatchMixture:
        """One batch, pure."""
        return cls({(lot, uses): 1.0})

    def __iter__(self) -> Iterator[tuple[Key, float]]:
        return iter(sorted(self._shares.items()))

    @property
    def by_batch(self) -> dict[str, float]:
        """Share of each batch, the greatest first."""
        found: dict[str, float] = {}
        for (lot, _), share in sorted(self._shares.items()):
            found[lot] = found.get(lot, 0.0) + share
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    @property
    def mean_uses(self) -> float:
        """How often its medium has entered the loop, on average."""
        return sum(uses * share for (_, uses), share in self._shares.items())

    def entered_loop(self) -> BatchMixture:
        """The same once more in the loop."""
        return BatchMixture({(lot, uses + 1): share for (lot, uses), share in self._shares.items()})

    def with_(self, poured: BatchMixture, share: float) -> BatchMixture:
        """Mixed with `poured`, which makes up `share` (0..1) of the whole afterwards."""
        if not self._shares or share >= 1.0:
            return poured if poured._shares else self
        if not poured._shares or share <= 0.0:
            return self
        mixed = {key: part * (1.0 - share) for key, part in self._shares.items()}
        for key, part in poured._shares.items():
            mixed[key] = mixed.get(key, 0.0) + part * share
        return BatchMixture(_pruned(mixed))


class Whereabouts:
    """Every batch of a rig: what it is, which vessels hold it now, which lines it went along."""

    def __init__(self) -> None:
        self.batches: dict[str, Batch] = {}
        self.mixtures: dict[str, BatchMixture] = {}
        self.flows_ul: dict[str, dict[str, float]] = {}
        """Batch → line → how much of it has passed (µL)."""

    def loaded(self, batch: Batch, *, uses: int = 0, share: float = 1.0) -> None:
        """`batch` is now in its vessel, where it makes up `share` of what is there."""
        known = self.batches.get(batch.lot)
        first_use_utc = "" if known is None else known.first_use_utc
        self.batches[batch.lot] = replace(batch, first_use_utc=first_use_utc) if first_use_utc else batch
        before = self.mixtures.get(batch.vessel, BatchMixture())
        self.mixtures[batch.vessel] = before.with_(BatchMixture.of(batch.lot, uses), share)

    def moved(self, line: str, source: str, target: str, ul: float, share: float, *, into_loop: bool, utc: str) -> None:
        """`ul` µL went along a line and make up `share` of its target afterwards."""
        poured = self.mixtures.get(source, BatchMixture())
        for lot, part in poured.by_batch.items():
            flows = self.flows_ul.setdefault(lot, {})
            flows[line] = flows.get(line, 0.0) + part * ul
            if lot in self.batches:
                self.batches[lot] = self.batches[lot].used(utc)
        if into_loop:
            poured = poured.entered_loop()
        self.mixtures[target] = self.mixtures.get(target, BatchMixture()).with_(poured, share)

    def told(self, vessel: str) -> dict[str, Any]:
        """What a vessel holds, and what is known of each lot in it, as another rig can take it (:meth:`take`)."""
        parcels = self.vessel_json(vessel)
        lots = dict.fromkeys(parcel["lot"] for parcel in parcels)
        return {"parcels": parcels, "lots": [self.batches[lot].to_json() for lot in lots if lot in self.batches]}

    def take(self, vessel: str, told: Mapping[str, Any]) -> None:
        """`vessel` holds what another rig has :meth:`told`, and nothing else; a lot that is known here is the same."""
        for lot in told["lots"]:
            self.batches.setdefault(lot["lot"], replace(Batch(**lot), vessel=vessel))
        self.mixtures[vessel] = BatchMixture({(each["lot"], each["uses"]): each["share"] for each in told["parcels"]})

    def vessel_json(self, vessel: str) -> list[dict[str, Any]]:
        """What a vessel holds: its parcels, the greatest first."""
        parcels = sorted(self.mixtures.get(vessel, BatchMixture()), key=lambda each: (-each[1], each[0]))
        return [{"lot": lot, "uses": uses, "share": share} for (lot, uses), share in parcels]

    def batch_json(self, lot: str, volumes_ul: Mapping[str, float]) -> dict[str, Any]:
        """What a batch is, where it is now (µL by vessel) and which lines it went along (µL). KeyError when unknown."""
        known = self.batches[lot]
        now = {
            vessel: volumes_ul[vessel] * share
            for vessel, mixture in self.mixtures.items()
            if (share := mixture.by_batch.get(lot, 0.0)) > 0.0
        }
        return {**known.to_json(), "now_ul": now, "passed_ul": dict(self.flows_ul.get(lot, {}))}


def _pruned(shares: dict[Key, float]) -> dict[Key, float]:
    """Fewer parcels, the same mass."""
    kept = {key: share for key, share in shares.items() if share >= PRUNE}
    for (lot, uses), share in sorted(shares.items()):
        if share >= PRUNE:
            continue
        kin = [key for key in kept if key[0] == lot]
        if kin:
            nearest = min(kin, key=lambda key: (abs(key[1] - uses), key[1]))
        elif share < TRACE:
            nearest = (TRACES, 0)
        else:
            nearest = (lot, uses)
        kept[nearest] = kept.get(nearest, 0.0) + share
    return kept
