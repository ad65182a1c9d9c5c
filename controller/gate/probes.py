"""The gate for probes: the only path to a probe's own calibration.

Intent → rules (:mod:`controller.safety.probe_rules`) → journal → probe → readback → journal. The result is a record with a
date and an expiry, like those of `choroid device calibrate-sensor` (:mod:`controller.memory.calibrations`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

from controller.journal.context import RigContext
from controller.memory.calibrations import Calibration, sensor_fit
from controller.safety.probe_rules import ProbeIntent, max_age_s, reasons_against
from controller.safety.terms import Limits
from drivers.commands import CalibrationStatus, Quality
from drivers.device import Calibrator
from drivers.errors import DeviceError

READBACK_OFF = 0.1
"""Maximum deviation of the readback from the buffer (pH)."""
READBACK_READINGS = 2
"""Number of new readings to wait for: the first may have been underway before the command."""


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """The result: refused with reasons, failed with an error, or set, with the readings `before` and `after`."""

    reasons: tuple[str, ...] = ()
    error: str | None = None
    before: float | None = None
    after: float | None = None
    status: CalibrationStatus | None = None
    worn: bool = False
    """Whether the error is the probe's own health."""

    @property
    def accepted(self) -> bool:
        """Whether the rules accepted it."""
        return not self.reasons


@dataclass(frozen=True, slots=True)
class GatedProbe:
    """A probe that can be calibrated, with its sampling period (s)."""

    calibrator: Calibrator
    every_s: float


class Probes:
    """The probes of one rig.

    `keep` stores a record where `choroid device calibrate-sensor` does. `examine(device)` reads the health of a probe and
    returns what is wrong with it.
    """

    def __init__(
        self,
        context: RigContext,
        probes: Mapping[str, GatedProbe],
        *,
        limits: Limits,
        keep: Callable[[Calibration], object],
        examine: Callable[[str], Awaitable[tuple[str, ...]]],
    ) -> None:
        self._examine = examine
        self._probes = dict(probes)
        self._rig = context.rig.name
        self._limits = limits
        self._store = context.store
        self._journal = context.journal
        self._clock = context.clock
        self._keep = keep
        self._alarm = context.alarm
        self._lock = asyncio.Lock()

    async def calibrate(self, intent: ProbeIntent) -> ProbeOutcome:
        """Carry out an intent; two at a time take turns. Never raises for an error of the probe or a refusal.

        A cancelled call may or may not have set the probe; setting the same value again changes nothing.
        """
        probe = self._probes.get(intent.point)
        if probe is None:
            return ProbeOutcome((f"{intent.point} cannot be calibrated from here: its model takes no calibration",))
        async with self._lock:
            reading = self._store.readings.get(intent.point)
            reasons = reasons_against(
                intent,
                reading,
                min_value=probe.calibrator.low,
                max_value=probe.calibrator.high,
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
            with self._store.awaited():
                after = await self._read_again(intent.point, probe)
            if after is None or abs(after - intent.command.value) > READBACK_OFF:
                text = "cannot be read" if after is None else f"reads {after:.3f}"
                return self._failed(intent, seq, f"readback: it {text} after it was set to {intent.command.value:g}")
            if status.places < 1:
                return self._failed(intent, seq, "readback: it says that it has no calibration")
            try:
                worn = await self._examine(intent.point.partition(".")[0])
            except DeviceError as error:
                return self._failed(intent, seq, f"its health cannot be read: {error}")
            if worn:
                return replace(self._failed(intent, seq, f"the probe is not fit for use: {'; '.join(worn)}"), worn=True)
            self._set(intent, seq, before, after, status)
            return ProbeOutcome((), None, before, after, status)

    # --- inside -----------------------------------------------------------------------------------------

    async def _read_again(self, point: str, probe: GatedProbe) -> float | None:
        """Return the first good reading that regular sampling takes after the command, or None."""
        sent_s = self._clock.now_s()
        latest_s = sent_s + READBACK_READINGS * probe.every_s + max_age_s(probe.every_s)
        while (now_s := self._clock.now_s()) < latest_s:
            reading = self._store.readings.get(point)
            fresh = reading is not None and reading.at_s > sent_s + (READBACK_READINGS - 1) * probe.every_s
            if reading is not None and fresh and reading.quality is Quality.GOOD:
                return reading.value
            await asyncio.sleep(min(1.0, latest_s - now_s))
        return None

    def _failed(self, intent: ProbeIntent, seq: int, error: str) -> ProbeOutcome:
        self._journal.append("calibration.failed", {"begun": seq, "point": intent.point, "error": error})
        self._alarm("command_failed", intent.point, f"its calibration was not set for certain: {error}")
        return ProbeOutcome((), error)

    def _set(self, intent: ProbeIntent, seq: int, before: float, after: float, status: CalibrationStatus) -> None:
        """Record what is now set: in the journal first, then as a calibration with its expiry."""
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
        """Return (reading afterwards, buffer) of each calibrated place: the middle, and those set after it."""
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
