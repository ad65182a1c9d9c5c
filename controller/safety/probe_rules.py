"""Whether a probe's own calibration may be set: pure, and only ever a refusal with its reasons.

A probe that an interlock or a regulator goes by cannot be taken out of the medium while they do, and a probe that reads
far from the buffer it is said to stand in is in another one. The door is :mod:`controller.gate.probes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from controller.safety.terms import KernelReading, Limits
from drivers.commands import Calibrate, Quality

MOST_OFF = 0.5
"""30 mV of a glass electrode. A probe that is further (in its unit, pH) from a buffer is broken, or in another buffer."""
STALE_PERIODS, STALE_GRACE_S = 3, 5.0


@dataclass(frozen=True, slots=True)
class ProbeIntent:
    """What somebody wants of a probe, for how long it is to be trusted (s), who, and why."""

    point: str
    command: Calibrate
    valid_s: float
    requester: str
    reason: str


def oldest_s(every_s: float) -> float:
    """How old (s) the reading of a probe that is read every `every_s` may be."""
    return STALE_PERIODS * every_s + STALE_GRACE_S


def reasons_against(
    intent: ProbeIntent,
    reading: KernelReading | None,
    *,
    low: float,
    high: float,
    every_s: float,
    limits: Limits,
    now_s: float,
) -> tuple[str, ...]:
    """Why a calibration may not be set; nothing: it may. Missing, stale and doubtful readings count as unsafe (I2).

    The probe takes buffers from `low` to `high` (its unit) and is read every `every_s` (s).
    """
    value, found = intent.command.value, []
    guarded = [interlock.name for interlock in limits.interlocks if interlock.point == intent.point]
    if limits.mixture is not None and limits.mixture.ph == intent.point:
        guarded.append("the gas mixture")
    if guarded:
        found.append(f"in use: {', '.join(guarded)} goes by it; calibrate it at the bench, with the rig at rest")
    if not (isfinite(value) and low <= value <= high):
        found.append(f"range: {value:g} is outside {low:g} to {high:g}")
    if not (isfinite(intent.valid_s) and intent.valid_s > 0.0):
        found.append("validity: it must be trusted for some time, and not for ever")
    if reading is None:
        return (*found, "it was never read")
    age_s = now_s - reading.at_s
    if age_s > oldest_s(every_s):
        found.append(f"its reading is {age_s:.0f} s old")
    elif reading.quality is not Quality.GOOD or not isfinite(reading.value):
        found.append("its reading failed")
    elif abs(reading.value - value) > MOST_OFF:
        found.append(
            f"it reads {reading.value:.2f}, too far from {value:.2f}: another buffer, or the probe is worn out"
        )
    return tuple(found)
