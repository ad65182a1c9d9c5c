"""The safety gate's door to probes: what changes a probe's own calibration goes through here, and nowhere else.

Intent → rules → journal → probe → readback → journal. The rules (:func:`reasons_against`) are pure and only ever refuse: a
probe that an interlock or a regulator goes by cannot be taken out of the medium while they do, and a probe that reads far
from the buffer it is said to stand in is in another one. What holds afterwards is a record with a date and an end, like those
of `choroid calibrate` (:mod:`controller.calibrations`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Protocol

from controller.calibrations import Calibration, sensor_fit
from controller.clock import Clock
from controller.safety.terms import Limits, ReadingView
from controller.state import StateStore
from drivers.commands import Calibrate, CalibrationStatus, Quality
from drivers.device import Calibrator, DeviceError

MOST_OFF = 1.0
"""A probe that is further (in its unit, pH) from a buffer before it is calibrated is broken, or in another buffer."""
READBACK_OFF = 0.1
"""So near to the buffer must it read afterwards."""
READBACK_READINGS = 2
"""New readings that are waited for: the first may have been under way."""
STALE_PERIODS, STALE_GRACE_S = 3, 5.0


class Record(Protocol):
    """What is needed of the journal."""

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        """Write one row, committed on return."""

    def entries(self, *, kinds: Sequence[str] = ..., newest_first: bool = ...) -> Any:
        """Rows of some kinds."""


@dataclass(frozen=True, slots=True)
class ProbeIntent:
    """What somebody wants of a probe, for how long it is to be trusted (s), who, and why."""

    point: str
    command: Calibrate
    valid_s: float
    requester: str
    reason: str


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
class Probe:
    """One probe that can be calibrated, and how often (s) it is read."""

    calibrator: Calibrator
    every_s: float


def reasons_against(
    intent: ProbeIntent, reading: ReadingView | None, probe: Probe, limits: Limits, now_s: float
) -> tuple[str, ...]:
    """Why a calibration may not be set; nothing: it may. Missing, stale and doubtful readings count as unsafe (I2)."""
    value, found = intent.command.value, []
    guarded = [interlock.name for interlock in limits.interlocks if interlock.point == intent.point]
    if limits.mixture is not None and limits.mixture.ph == intent.point:
        guarded.append("the gas mixture")
    if guarded:
        found.append(f"in use: {', '.join(guarded)} goes by it; calibrate it at the bench, with the rig at rest")
    if not (math.isfinite(value) and probe.calibrator.low <= value <= probe.calibrator.high):
        found.append(f"range: {value:g} is outside {probe.calibrator.low:g} to {probe.calibrator.high:g}")
    if not (math.isfinite(intent.valid_s) and intent.valid_s > 0.0):
        found.append("validity: it must be trusted for some time, and not for ever")
    if reading is None:
        return (*found, "it was never read")
    age_s = now_s - reading.at_s
    if age_s > STALE_PERIODS * probe.every_s + STALE_GRACE_S:
        found.append(f"its reading is {age_s:.0f} s old")
    elif reading.quality is not Quality.GOOD or not math.isfinite(reading.value):
        found.append("its reading failed")
    elif abs(reading.value - value) > MOST_OFF:
        found.append(
            f"it reads {reading.value:.2f}, too far from {value:.2f}: another buffer, or the probe is worn out"
        )
    return tuple(found)


class Probes:
    """The probes of one rig. `keep` puts a record where `choroid calibrate` does; `alarm(kind, source, detail)` tells."""

    def __init__(
        self,
        probes: Mapping[str, Probe],
        *,
        rig: str,
        limits: Limits,
        store: StateStore,
        journal: Record,
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
            reasons = reasons_against(intent, reading, probe, self._limits, self._clock.now_s())
            if reasons or reading is None:
                self._journal.append("calibration.refused", _row(intent) | {"reasons": list(reasons)})
                return ProbeOutcome(reasons)
            before = reading.value
            seq = self._journal.append("calibration.begun", _row(intent) | {"before": before})
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

    async def _read_again(self, point: str, probe: Probe) -> float | None:
        """What it reads after the command, once the regular sampling has asked it again."""
        told_s = self._clock.now_s()
        latest_s = told_s + (READBACK_READINGS + STALE_PERIODS) * probe.every_s + STALE_GRACE_S
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
