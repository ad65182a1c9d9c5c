"""Which instrument each signal of the tissue comes from: after another one, or another calibration, its scale is new."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from controller.journal.journal import Journal
from controller.rig.description import Rig
from controller.tissue.record import MOVED, PLACED, REMOVED
from protocols.tissue.look import EVIDENCE, TISSUE

PROBE_SET, TUBING = "calibration.set", "tubing.installed"
KINDS = (PROBE_SET, TUBING, PLACED, MOVED, REMOVED)


class Instruments:
    """Follows the rows of the journal that change the scale of a signal."""

    def __init__(self, rig: Rig, journal: Journal, *, oxygen: Sequence[str], pumps: Sequence[str]) -> None:
        """Begin; `oxygen` are the points and `pumps` the outputs from which oxygen uptake follows."""
        self._journal = journal
        self._oxygen = frozenset(oxygen) | frozenset(pumps)
        self._read_to = 0
        self._changed: dict[str, list[int]] = {name: [] for name in (*EVIDENCE, TISSUE)}
        """By signal the rows that changed its scale."""
        devices = sorted({point.partition(".")[0] for point in self._oxygen} & rig.devices.keys())
        described = {name: rig.devices[name].model_dump(mode="json", exclude={"every_s"}) for name in devices}
        nerves = None if rig.nerves is None else rig.nerves.model_dump(mode="json", exclude={"recording"})
        self._described = {"oxygen_uptake": _digest(described), "firing_hz": _digest(nerves)}

    def now(self) -> dict[str, str]:
        """Return a text for each signal that changes when its scale does."""
        for row in self._journal.entries(kinds=KINDS, after=self._read_to):
            self._read_to = row.seq
            if row.kind in (PROBE_SET, TUBING):
                signals: Sequence[str] = ("oxygen_uptake",) if self._concerns(row.body) else ()
            else:
                signals = (*EVIDENCE, TISSUE) if row.kind == PLACED else EVIDENCE
            for signal in signals:
                self._changed[signal].append(row.seq)
        return {name: _digest([self._described.get(name), rows]) for name, rows in self._changed.items()}

    def _concerns(self, body: Mapping[str, Any]) -> bool:
        return body.get("point") in self._oxygen or body.get("pump") in self._oxygen


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:12]
