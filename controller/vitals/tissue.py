"""The estimate of the tissue on a running rig: collects each hour's look, keeps it in the journal, and restores it.

A row `tissue.look` is written at the end of each hour. The estimate follows from these rows alone, so that it survives a
restart. They are taken in a few at a time: a long history must not delay the control loop.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from statistics import mean, pstdev
from types import MappingProxyType
from typing import Any

from controller.core.clock import Clock
from controller.journal.journal import Journal
from protocols.interval import Interval
from protocols.tissue.estimate import ViabilityEstimate
from protocols.tissue.look import TissueLook
from protocols.tissue.statement import Statement
from protocols.tissue_loss import UNKNOWN, TissueLoss

ROW = "tissue.look"
HOUR_US = 3_600_000_000
RESTORED_H = 24 * 60
"""Maximum number of hours that are restored, and that pass without data: a clock that was years off says nothing more."""
ROWS_AT_ONCE = 3
DIGITS = 6
NOTHING: Mapping[str, str] = MappingProxyType({})
NO_ROWS: Mapping[str, int] = MappingProxyType({})
VALID_H = {"ldh": 24 * 7, "volume": 24 * 7, "lactate_mm": 48, "lactate_umol_d": 48}
"""Hours for which a measurement counts as made; others count while they are read."""
ONCE = frozenset({"ldh", "volume"})
"""Results of one moment: each is evidence once."""
NO_NUMBERS = ("oxygen_at_tissue", "sterility_failed", "rescaled", "renewed")
NUMBERS = tuple(each.name for each in fields(TissueLook) if each.name not in NO_NUMBERS)


class TissueWatch:
    """Collects the looks of a rig and keeps the estimate up to date."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._hour = self._now_h()
        self._estimate = ViabilityEstimate.begun()
        self._estimated_h: int | None = None
        """The hour up to which the estimate has come."""
        self._noted: dict[str, list[Interval]] = {}
        self._rescaled: set[str] = set()
        """Signals whose scale has changed in this hour."""
        self._last = TissueLook()
        self._told: Mapping[str, int] = NO_ROWS
        """What had become evidence by the last note."""
        self._kept_share = 1.0
        """Share of the medium that was not renewed in this hour."""
        self._measured_h: dict[str, int] = {}
        rows = list(journal.entries(kinds=(ROW,), newest_first=True, limit=RESTORED_H))
        self._instruments: Mapping[str, str] = {} if not rows else rows[0].body.get("instruments", {})
        self._to_restore = deque((int(row.body["hour"]), row.body["look"]) for row in reversed(rows))

    def restore_some(self) -> None:
        """Take in a few of the hours that the journal has."""
        for _ in range(min(ROWS_AT_ONCE, len(self._to_restore))):
            hour, look = self._to_restore.popleft()
            self._advance(hour, TissueLook.from_json(look))

    def note(
        self, look: TissueLook, instruments: Mapping[str, str] = NOTHING, told: Mapping[str, int] = NO_ROWS
    ) -> None:
        """Note what is known at this minute; close the hour if it is over.

        Args:
            look: What is known.
            instruments: By signal a text that changes when its scale does (:mod:`controller.vitals.tissue_inputs`).
            told: The last row of each kind of result that has become evidence, this look included.
        """
        hour = self._now_h()
        if hour > self._hour and (self._noted or self._last != TissueLook()):
            self._close(hour, told)
        self._hour = max(hour, self._hour)
        self._last, self._told = look, told
        self._kept_share *= 1.0 - look.renewed
        self._compare(instruments)
        for name in NUMBERS:
            value = getattr(look, name)
            if value is not None:
                self._noted.setdefault(name, []).append(value)

    @property
    def lost(self) -> float:
        """Expected loss of viability (0..1) from the peak of the last weeks, by the last hour; 0 unless a loss is certain."""
        certain = not self._to_restore and self._estimate.harmed
        return self._estimate.past[-1].lost if certain else 0.0

    @property
    def finding(self) -> TissueLoss:
        """What the last whole hour says of a loss; unknown while the journal is restored or before the first hour."""
        if self._to_restore or self._estimated_h is None:
            return UNKNOWN
        return self._estimate.finding(age_h=float(max(self._now_h() - self._estimated_h - 1, 0)))

    def statement(self) -> Statement | None:
        """Return the estimate with the present, unfinished hour; None while it is restored or nothing is known yet."""
        if self._to_restore or not self._noted:
            return None
        look = self._whole()
        recent = {name for name, hour in self._measured_h.items() if self._hour - hour <= VALID_H.get(name, 1)}
        return Statement(self._moved(self._hour, look), look, frozenset(recent | self._noted.keys()))

    # --- inside -----------------------------------------------------------------------------------------

    def _close(self, hour: int, told: Mapping[str, int]) -> None:
        """Take in the hour that is over and write its row; `hour` is the present one. Each hour is taken in once.

        What became evidence since the last note, `told`, belongs to the present hour.
        """
        over, whole, instruments = self._hour, self._whole(), dict(self._instruments)
        self._hour, self._noted, self._rescaled, self._kept_share = hour, {}, set(), 1.0
        if self._to_restore:
            self._to_restore.append((over, whole.to_json()))
        else:
            self._advance(over, whole)
        row = {"hour": over, "look": whole.to_json(), "instruments": instruments}
        self._journal.append(ROW, row | ({"told": {name: self._told.get(name, 0) for name in told}} if told else {}))

    def _compare(self, instruments: Mapping[str, str]) -> None:
        """Note signals whose scale has changed; values from before the change are not mixed with those after it."""
        before = self._instruments
        for name, instrument in instruments.items():
            if before.get(name, instrument) != instrument:
                self._rescaled.add(name)
                self._noted.pop(name, None)
        self._instruments = instruments or before

    def _now_h(self) -> int:
        return self._clock.utc_us() // HOUR_US

    def _advance(self, hour: int, look: TissueLook) -> None:
        self._estimate = self._moved(hour, look)
        self._estimated_h = hour
        for name in NUMBERS:
            if getattr(look, name) is not None:
                self._measured_h[name] = hour

    def _moved(self, hour: int, look: TissueLook) -> ViabilityEstimate:
        """Return the estimate after `look`; what no row tells of, such as a power cut, passes without data."""
        estimate = self._estimate
        missing = 0 if self._estimated_h is None else min(hour - self._estimated_h - 1, RESTORED_H)
        if missing > 0:
            estimate = estimate.after(TissueLook(), hours=float(missing))
        return estimate.after(look)

    def _whole(self) -> TissueLook:
        """Return the mean of the hour so far."""
        found: dict[str, Any] = {name: _mean(values) for name, values in self._noted.items() if name not in ONCE}
        found |= {name: values[-1] for name, values in self._noted.items() if name in ONCE}
        values: dict[str, Any] = {name: found.get(name) for name in NUMBERS}
        renewed = round(1.0 - self._kept_share, DIGITS)
        return replace(self._last, **values, rescaled=tuple(sorted(self._rescaled)), renewed=renewed)


def _mean(values: Iterable[Interval]) -> Interval:
    """Return the mean of an hour; its own scatter widens the interval where that is larger."""
    every = list(values)
    middle = mean(each.value for each in every)
    sd = max(mean(each.sd for each in every), pstdev([each.value for each in every]) / math.sqrt(len(every)))
    return Interval.around(middle, sd)
