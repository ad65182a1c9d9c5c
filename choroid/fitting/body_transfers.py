"""What moved between the bodies of medium in a period: pumped, dialysed, sampled, filled in or taken out by people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from choroid.fitting.series import seconds
from controller.figures.transfers import ROWS, BookedTransfer, transfers
from controller.journal.reader import JournalReader
from controller.journal.terms import Entry
from controller.ledger.flow_paths import FlowPaths
from controller.ledger.samples import SAMPLED, AssaySample
from controller.rig.description import Rig
from controller.rig.organs import KidneyConfig
from controller.rig.perfusion import circulating
from protocols.dialysis import exchanged, koa_at
from sim.plant.circulating import BODIES, LOOP, SPENT

OUTSIDE = -1
"""Source or target that is no body of medium."""
HANDLED = ("ledger.loaded", "ledger.reconciled", SAMPLED)
"""Rows of what people did by hand."""


@dataclass(frozen=True, slots=True)
class BodyTransfer:
    """A volume that moved: `source` and `target` as in :class:`sim.plant.circulating.MoveColumn`."""

    at_s: float
    source: int
    target: int
    ul: float


class BodyTransfers:
    """Reads the transfers of one period from a journal."""

    def __init__(self, rig: Rig, volumes: Mapping[str, float], begin: float, end: float) -> None:
        """`volumes` (µL) are those at the begin; `begin` and `end` are UTC seconds."""
        self._rig, self._volumes, self._begin, self._end = rig, volumes, begin, end
        self._paths, self._circles, self._kidney = FlowPaths(rig), circulating(rig), rig.organs.kidney
        self._media = list(rig.media)

    def read(self, journal: JournalReader) -> Iterator[BodyTransfer]:
        """Yield what moved, first what was pumped, then what people did."""
        for each in transfers(row for row in journal.entries(kinds=ROWS)):
            line = self._rig.lines.get(each.line)
            if line is None or line.from_ not in self._rig.vessels or each.ul <= 0.0:
                continue
            if self._begin < each.end < self._end:
                dialysed = self._kidney is not None and each.line == self._kidney.dialyse
                yield from self._dialysed(each, self._kidney) if dialysed and self._kidney else self._pumped(each)
        for row in journal.entries(kinds=HANDLED):
            if self._begin < seconds(row) < self._end:
                yield from self._sampled(row) if row.kind == SAMPLED else self._handled(row)

    def _body(self, vessel: str) -> int | None:
        if vessel in self._circles:
            return LOOP
        return SPENT if self._kidney is not None and vessel == self._kidney.vessel else None

    def _medium(self, vessel: str) -> int | None:
        contains = self._rig.vessels[vessel].contains
        return None if contains is None else BODIES + self._media.index(contains)

    def _middle_s(self, each: BookedTransfer) -> float:
        return max(((each.begin or each.end) + each.end) / 2.0 - self._begin, 0.0)

    def _dialysed(self, each: BookedTransfer, kidney: KidneyConfig) -> Iterator[BodyTransfer]:
        """Yield the replacement of a share of the batch by dialysate, which for small solutes dialysis equals."""
        line, at_s = self._rig.lines[each.line], self._middle_s(each)
        fibres = self._rig.dialysers[line.dialyser or ""]
        koa = koa_at(kidney.dialysate_ul_min, fibres.koa_ul_min, fibres.koa_at_ul_min)
        batch_ul = each.spent_ul or self._volumes[kidney.vessel]
        replaced_ul = exchanged(koa, kidney.dialysate_ul_min, each.ul, batch_ul) * batch_ul
        yield BodyTransfer(at_s, SPENT, OUTSIDE, replaced_ul)
        yield BodyTransfer(at_s, self._medium(line.from_) or OUTSIDE, SPENT, replaced_ul)

    def _pumped(self, each: BookedTransfer) -> Iterator[BodyTransfer]:
        line, at_s = self._rig.lines[each.line], self._middle_s(each)
        source = self._body(line.from_)
        first = source if source is not None else self._medium(line.from_)
        left_ul = each.ul
        for vessel, share in self._paths.full(each.line).items():
            target = self._body(vessel)
            if share <= 0.0 or target is None or target == source:
                continue
            left_ul -= share * each.ul
            if first is not None:
                yield BodyTransfer(at_s, first, target, share * each.ul)
        if source is not None and self._body(line.to) is None and left_ul > 0.0:
            yield BodyTransfer(at_s, source, OUTSIDE, left_ul)

    def _sampled(self, row: Entry) -> Iterator[BodyTransfer]:
        """Yield what a sample for an assay took, at the time at which it was taken."""
        sample = AssaySample.from_json(row.body)
        taken = datetime.fromisoformat(sample.taken_utc).timestamp()
        for vessel, share in sample.missing.items():
            body = self._body(vessel)
            if body is not None and taken > self._begin:
                yield BodyTransfer(taken - self._begin, body, OUTSIDE, share * sample.ul)

    def _handled(self, row: Entry) -> Iterator[BodyTransfer]:
        """Yield a filling, a new bottle, or a volume that a person knew better."""
        vessel, at_s = row.body["vessel"], seconds(row) - self._begin
        target = self._body(vessel)
        if target is None:  # or a vessel of a former rig file
            return
        fill = self._medium(vessel)
        added_ul = float(row.body["ul" if row.kind == "ledger.loaded" else "change_ul"])
        if added_ul < 0.0:
            yield BodyTransfer(at_s, target, OUTSIDE, -added_ul)
            return
        if row.body.get("replaces", False):
            yield BodyTransfer(at_s, target, OUTSIDE, self._volumes[vessel])
        if fill is not None and added_ul > 0.0:
            yield BodyTransfer(at_s, fill, target, added_ul)
