"""Rules that refuse the calibration of a probe, each with its reason. Pure.

A probe that an interlock or a regulator uses must not leave the medium while they use it. A probe that reads far from the
stated buffer stands in another one. The commands go through :mod:`controller.gate.probes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from controller.safety.terms import KernelReading, Limits
from drivers.commands import Calibrate, Quality

MAX_OFFSET = 0.5
"""Maximum deviation from a buffer (the probe's unit, pH): 30 mV of a glass electrode. A probe further off is broken, or in
another buffer."""
STALE_PERIODS, STALE_GRACE_S = 3, 5.0


@dataclass(frozen=True, slots=True)
class ProbeIntent:
    """A requested calibration of a probe, its validity (s), the requester and the reason."""

    point: str
    command: Calibrate
    valid_s: float
    requester: str
    reason: str


def max_age_s(every_s: float) -> float:
    """Return the maximum age (s) of the reading of a probe that is read every `every_s`."""
    return STALE_PERIODS * every_s + STALE_GRACE_S


def reasons_against(
    intent: ProbeIntent,
    reading: KernelReading | None,
    *,
    min_value: float,
    max_value: float,
    every_s: float,
    limits: Limits,
    now_s: float,
) -> tuple[str, ...]:
    """Return why a calibration may not be set; empty if it may. Missing, stale and suspect readings count as unsafe (I2).

    Args:
        intent: the requested calibration.
        reading: the newest reading of the probe.
        min_value: lowest buffer that the probe takes (its unit).
        max_value: highest buffer that the probe takes (its unit).
        every_s: sampling period of the probe (s).
        limits: the kernel's limits.
        now_s: loop time (s).
    """
    value, found = intent.command.value, []
    if users := _users(intent.point, limits):
        found.append(f"in use: {', '.join(users)} depends on it; calibrate it at the bench, with the rig at rest")
    if not (isfinite(value) and min_value <= value <= max_value):
        found.append(f"range: {value:g} is outside {min_value:g} to {max_value:g}")
    if not (isfinite(intent.valid_s) and intent.valid_s > 0.0):
        found.append("validity: it must be trusted for some time, and not for ever")
    if (fault := _reading_fault(reading, value, every_s, now_s)) is not None:
        found.append(fault)
    return tuple(found)


def _users(point: str, limits: Limits) -> list[str]:
    """Return the interlocks and regulators that use a probe."""
    users = [interlock.name for interlock in limits.interlocks if interlock.point == point]
    if limits.mixture is not None and limits.mixture.ph == point:
        users.append("the gas mixture")
    return users


def _reading_fault(reading: KernelReading | None, value: float, every_s: float, now_s: float) -> str | None:
    """Return why the probe's reading does not allow a calibration at `value`, or None."""
    if reading is None:
        return "it was never read"
    age_s = now_s - reading.at_s
    if age_s > max_age_s(every_s):
        return f"its reading is {age_s:.0f} s old"
    if reading.quality is not Quality.GOOD or not isfinite(reading.value):
        return "its reading failed"
    if abs(reading.value - value) > MAX_OFFSET:
        return f"it reads {reading.value:.2f}, too far from {value:.2f}: another buffer, or the probe is worn out"
    return None
