"""Commands to devices and their statuses: plain data that every package may import, including the safety kernel.

Units: µL, µL/min, mL/min for gas, s.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

FLOW_TOLERANCE = 0.02
"""Allowed relative difference between commanded and actual pump flow; a larger one counts as another flow."""


class Guarantee(StrEnum):
    """Names what brings an actuator to rest if the host dies."""

    DEVICE = "device"
    """The device itself: it was given a finite volume or a finite time."""
    GUARD = "guard"
    """The guard process, which opens the link and commands the basal state."""
    HOST = "host"
    """The controller only: the weakest guarantee, and shown as such on every page."""


class Quality(StrEnum):
    """Says how far a reading may be trusted. Only `GOOD` may be acted on; the others can only make the system more
    careful.
    """

    GOOD = "good"
    """Measured, plausible, and after a jump confirmed by a second reading."""
    SUSPECT = "suspect"
    """The device reports doubt, or the value is physically impossible (:mod:`controller.readings.plausibility`)."""
    STALE = "stale"
    """The value does not change, as with a frozen probe, or no value has arrived for several periods."""
    MISSING = "missing"
    """No value arrived, or the device reports that it has none."""


@dataclass(frozen=True, slots=True)
class Run:
    """Pump continuously at `flow_ul_min` (µL/min, sign = direction). Idempotent."""

    flow_ul_min: float


@dataclass(frozen=True, slots=True)
class Dispense:
    """Deliver `volume_ul` (µL, > 0) at about `flow_ul_min` (µL/min), then stop without a further command.

    `dose_id` names the dose: a driver that receives the same id twice delivers once (A4).
    """

    volume_ul: float
    flow_ul_min: float
    dose_id: str


@dataclass(frozen=True, slots=True)
class Switch:
    """Switch on or off; with `for_s` the device itself returns to off after that many seconds, where it can.

    Where it cannot (see :class:`Guarantee`), the gate switches it off, or the guard if the host has died.
    """

    on: bool
    for_s: float | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """Bring a continuous output (a gas flow, mL/min) to `value`. Idempotent."""

    value: float


@dataclass(frozen=True, slots=True)
class Stop:
    """Come to rest: a pump halts, a switch opens, a level goes to zero. Idempotent."""


@dataclass(frozen=True, slots=True)
class Calibrate:
    """Set one point of a probe's calibration: what it measures now is `value`, in its own unit.

    The middle point comes first and deletes the others. A probe keeps its points without power. Setting the same
    point again in the same buffer changes nothing. This is not a :data:`Command`: it moves nothing, and the gate
    has a separate method for it.
    """

    place: Literal["mid", "low", "high"]
    value: float


@dataclass(frozen=True, slots=True)
class CalibrationStatus:
    """Reports the calibration of a probe: number of points, slope below and above the middle (1: ideal), and zero offset.

    None stands for what it does not report.
    """

    places: int
    slope_low: float | None = None
    slope_high: float | None = None
    offset_mv: float | None = None


Command = Run | Dispense | Switch | Level | Stop


@dataclass(frozen=True, slots=True)
class PumpStatus:
    """Reports the state of a pump. `delivered_ul` is its own running total (µL), zeroed only by a power cycle.

    `resolution_ul` is the step of that total: the true count lies within `delivered_ul` ± `resolution_ul`, so the
    difference of two totals is uncertain by the same amount. `host_counted`: the driver counts for a pump that
    cannot, from zero in each process.
    """

    running: bool
    flow_ul_min: float
    delivered_ul: float
    resolution_ul: float = 0.0
    host_counted: bool = False


@dataclass(frozen=True, slots=True)
class SwitchStatus:
    """Reports the state of a switch."""

    on: bool


@dataclass(frozen=True, slots=True)
class LevelStatus:
    """Reports the state of a continuous output: set-point and measured value, in its own unit."""

    setpoint: float
    measured: float


Status = PumpStatus | SwitchStatus | LevelStatus
