"""What is said to a device and what it says of itself: plain data that anything may import, the safety kernel first.

Inner units throughout: µL, µL/min, mL/min for gas, s. :mod:`drivers.device` hands these on to whoever writes a driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

FLOW_TOLERANCE = 0.02
"""How far the flow of a pump may be from the one commanded, as a share of it: more is another flow."""


class Guarantee(StrEnum):
    """Who brings an actuator to rest if the host dies."""

    DEVICE = "device"
    """The device itself: a finite volume or a finite time was given to it."""
    GUARD = "guard"
    """The guard process, which opens the link and commands the basal state."""
    HOST = "host"
    """Only the controller; the weakest guarantee, and said so on every page."""


class Quality(StrEnum):
    """How far a reading may be trusted. Only `GOOD` may be acted on; the others only ever make the system more careful."""

    GOOD = "good"
    """Read, plausible, and where it jumped confirmed by a second reading."""
    SUSPECT = "suspect"
    """The device itself doubts the value, or physics does not allow it (:mod:`controller.readings.plausibility`)."""
    STALE = "stale"
    """The value stands still as that of a frozen probe, or nothing has come for several periods."""
    MISSING = "missing"
    """No value came, or the device says that it has none to give."""


@dataclass(frozen=True, slots=True)
class Run:
    """Pump continuously at `flow_ul_min` (µL/min, sign = direction). Idempotent."""

    flow_ul_min: float


@dataclass(frozen=True, slots=True)
class Dispense:
    """Deliver `volume_ul` (µL, > 0) at about `flow_ul_min` (µL/min), then stop by itself.

    `dose_id` names the dose: a driver that is given the same id twice delivers once (behaviour A4).
    """

    volume_ul: float
    flow_ul_min: float
    dose_id: str


@dataclass(frozen=True, slots=True)
class Switch:
    """Switch on or off; with `for_s` the device itself falls back to off after that many seconds, where it can.

    Where it cannot (:class:`Guarantee` tells), the gate switches it off then, and the guard if the host dies meanwhile.
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
    """Tell a probe that what it measures now is `value` (its own unit): one place of its calibration is set to that.

    The middle comes first and discards the others. A probe keeps it over a power cut. Setting the same again in the same
    buffer changes nothing. Not a :data:`Command`: it moves nothing, and has a door of its own in the gate.
    """

    place: Literal["mid", "low", "high"]
    value: float


@dataclass(frozen=True, slots=True)
class CalibrationStatus:
    """What a probe says of its calibration: how many places are set, and its slope below and above the middle (1: ideal;
    None where it does not tell).
    """

    places: int
    slope_low: float | None = None
    slope_high: float | None = None


Command = Run | Dispense | Switch | Level | Stop


@dataclass(frozen=True, slots=True)
class PumpStatus:
    """What a pump says of itself. `delivered_ul` is its own running total (µL), zeroed only by a power cycle.

    `resolution_ul` is the step in which that total counts: the volume really counted lies within
    `delivered_ul` ± `resolution_ul`, so a difference of two totals is uncertain by as much. `host_counted`: the driver
    counts for a pump that cannot, from zero in each process.
    """

    running: bool
    flow_ul_min: float
    delivered_ul: float
    resolution_ul: float = 0.0
    host_counted: bool = False


@dataclass(frozen=True, slots=True)
class SwitchStatus:
    """What a switch says of itself."""

    on: bool


@dataclass(frozen=True, slots=True)
class LevelStatus:
    """What a continuous output says of itself: commanded set-point and measured value, in its own unit."""

    setpoint: float
    measured: float


Status = PumpStatus | SwitchStatus | LevelStatus
