"""The safety gate's door to probes: what changes a probe's own calibration goes through here, and nowhere else.

Intent → rules (:mod:`controller.safety.probe_rules`) → journal → probe → readback → journal. What holds afterwards is a
record with a date and an end, like those of `choroid calibrate` (:mod:`controller.memory.calibrations`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.journal.journal import Journal
from controller.memory.calibrations import Calibration, sensor_fit
from controller.safety.probe_rules import ProbeIntent, oldest_s, reasons_against
from controller.safety.terms import Limits
from drivers.commands import CalibrationStatus, Quality
from drivers.device import Calibrator
from drivers.errors import DeviceError

READBACK_OFF = 0.1
"""So near to the buffer must it read afterwards."""
READBACK_READINGS = 2
"""New readings that are waited for: the first may have been under way."""


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """What came of it: refused with reasons, failed with an error, or set: what it read `before` and `after`."""

    reasons: tuple[str, ...] = ()
    error: str | None = None
    before: float | None = None
    after: float | None = None
    status: CalibrationStatus | None = None

    @property
    def accepted(self) -> bool:
        """Whether it was let through."""
        return not self.reasons


@dataclass(frozen=True, slots=True)
class GatedProbe:
    """One probe that can be calibrated, and how often (s) it is read."""

    calibrator: Calibrator
    every_s: float


class Probes:
    """The probes of one rig. `keep` puts a record where `choroid calibrate` does; `alarm(kind, source, detail)` tells."""

    def __init__(
        self,
        probes: Mapping[str, GatedProbe],
        *,
        rig: str,
        limits: Limits,
        store: StateStore,
        journal: Journal,
        clock: Clock,
        keep: Callable[[Calibration], object],
        alarm: Callable[[str, str, str], None],
    ) -> None:
        self._probes = dict(probes)
        self._rig = rig
        self._limits = limits
        self._store = store
        self._journal = journal
        self._clock = clock
        self._keep = keep
        self._alarm = alarm
        self._lock = asyncio.Lock()

    async def calibrate(self, intent: ProbeIntent) -> ProbeOutcome:
        """Take an intent through the door; never raises for what the probe or the rules say. Two take turns.

        A cancelled call may or may not have set the probe; setting the same again changes nothing.
        """
        probe = self._probes.get(intent.point)
        if probe is None:
            return ProbeOutcome((f"{intent.point} cannot be calibrated from here: its model takes no calibration",))
        async with self._lock:
            reading = self._store.readings.get(intent.point)
            reasons = reasons_against(
                intent,
                reading,
                low=probe.calibrator.low,
                high=probe.calibrator.high,
                every_s=probe.every_s,
                limits=self._limits,
                now_s=self._clock.now_s(),
            )
            if reasons or reading is None:
                self._journal.append("calibration.refused", _row(intent) | {"reasons": list(reasons)})
                return ProbeOutcome(reasons)
            before = reading.value
            seq = self._journal.append("calibration.begun", _row(intent) | {"before": before})
            await self._journal.durable(seq)
            try:
                await probe.calibrator.calibrate(intent.command)
                status = await probe.calibrator.state()
            except DeviceError as error:
                return self._failed(intent, seq, str(error))
            after = await self._read_again(intent.point, probe)
            if after is None or abs(after - intent.command.value) > READBACK_OFF:
                told = "cannot be read" if after is None else f"reads {after:.3f}"
                return self._failed(intent, seq, f"readback: it {told} after it was set to {intent.command.value:g}")
            if status.places < 1:
                return self._failed(intent, seq, "readback: it says that it has no calibration")
            self._set(intent, seq, before, after, status)
            return ProbeOutcome((), None, before, after, status)

    # --- inside -----------------------------------------------------------------------------------------

    async def _read_again(self, point: str, probe: GatedProbe) -> float | None:
        """What it reads after the command, once the regular sampling has asked it again."""
        told_s = self._clock.now_s()
        latest_s = told_s + READBACK_READINGS * probe.every_s + oldest_s(probe.every_s)
        while (now_s := self._clock.now_s()) < latest_s:
            reading = self._store.readings.get(point)
            fresh = reading is not None and reading.at_s > told_s + (READBACK_READINGS - 1) * probe.every_s
            if reading is not None and fresh and reading.quality is Quality.GOOD:
                return reading.value
            await asyncio.sleep(min(1.0, latest_s - now_s))
        return None

    def _failed(self, intent: ProbeIntent, seq: int, error: str) -> ProbeOutcome:
        self._journal.append("calibration.failed", {"begun": seq, "point": intent.point, "error": error})
        self._alarm("command_failed", intent.point, f"its calibration was not set for certain: {error}")
        return ProbeOutcome((), error)

    def _set(self, intent: ProbeIntent, seq: int, before: float, after: float, status: CalibrationStatus) -> None:
        """Put on record what holds now: the journal first, then the record with its end."""
        now = self._clock.utc()
        body = _row(intent) | {"begun": seq, "before": before, "after": after, **asdict(status)}
        body |= {"at_utc": self._clock.utc_text(), "expires_utc": _text(now + timedelta(seconds=intent.valid_s))}
        self._journal.append("calibration.set", body)
        pairs = self._pairs(intent.point)
        gain, offset, spread = sensor_fit(pairs)
        self._keep(
            Calibration(
                point=intent.point,
                kind="sensor",
                method="buffers",
                by=intent.requester,
                at_utc=body["at_utc"],
                expires_utc=body["expires_utc"],
                rig=self._rig,
                tubing_mm=None,
                unit=self._probes[intent.point].calibrator.unit,
                measured=pairs,
                gain=gain,
                offset=offset,
                spread=spread,
                note=f"set in the probe itself ({status.places} places); what it reads since is already corrected",
            )
        )

    def _pairs(self, point: str) -> tuple[tuple[float, float], ...]:
        """(reading afterwards, buffer) of every place that is set: the middle, and what was set since."""
        found: dict[str, tuple[float, float]] = {}
        for entry in self._journal.entries(kinds=("calibration.set",), newest_first=True):
            if entry.body["point"] == point:
                found.setdefault(entry.body["place"], (entry.body["after"], entry.body["value"]))
                if entry.body["place"] == "mid":
                    break
        return tuple(sorted(found.values(), key=lambda pair: pair[1]))


def _row(intent: ProbeIntent) -> dict[str, Any]:
    return {
        "point": intent.point,
        "place": intent.command.place,
        "value": intent.command.value,
        "by": intent.requester,
        "why": intent.reason,
    }


def _text(when: Any) -> str:
    return str(when.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
