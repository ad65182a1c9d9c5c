"""Data types of the safety kernel: intents and verdicts, limits, and the view it decides on.

Plain immutable data: no input or output, no third-party imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import Literal, Protocol

from drivers.commands import Command, Quality

# --- what is wanted, and what was decided -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Intent:
    """A requested command for an actuator, with its requester and reason.

    `positions` are the levels at which the selectors on the way of a dose must stand, by valve.
    """

    actuator: str
    command: Command
    requester: str
    reason: str
    positions: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The kernel's decision: the command that may be sent (perhaps tightened), all reasons, and the most limiting one."""

    accepted: bool
    command: Command | None
    reasons: tuple[str, ...] = ()
    limiting: str | None = None


class Cause(StrEnum):
    """Says why an interlock has tripped."""

    HIGH = "high"
    LOW = "low"
    DOUBT = "doubt"
    """Its input is missing, stale, flat, future-dated or out of range (I2)."""


class Response(StrEnum):
    """Says what an interlock does to its actuators."""

    OFF = "off"
    """They come to rest, and nothing else is permitted."""
    BASAL = "basal"
    """They go to their basal state, and a flow may not exceed it."""
    ALARM = "tell"
    """Only an alarm: an action would do more harm than the cause."""


@dataclass(frozen=True, slots=True)
class Trip:
    """A tripped interlock: its point, the detail that tripped it, since when, the actuators it bounds, and how.

    A trip may outlast its cause (`Interlock.hold_s`, `latched`): `present` is False then, and `seen_s` is when the cause
    was last present.
    """

    interlock: str
    point: str
    detail: str
    since_s: float
    actuators: tuple[str, ...]
    latched: bool = False
    cause: Cause = Cause.DOUBT
    response: Response = Response.OFF
    seen_s: float = 0.0
    present: bool = True


@dataclass(frozen=True, slots=True)
class Airless:
    """State of a lost air flow during which CO2 had to be shut: air counts as closed until its flow is read again.

    If the medium has been too alkaline for `wait_s` (since `alkaline_since_s`), air seems to flow unread, and is `trusted`
    until CO2 has to be shut once more. The next such trial lasts twice as long.
    """

    wait_s: float
    alkaline_since_s: float | None = None
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class Crossing:
    """A limit that one reading has crossed and that no second reading has confirmed yet.

    `cause` is the side that was left; None means that the value came back inside. `since_s` is when the crossing was first
    seen, `reading_s` when the reading was taken, `detail` what it read.
    """

    interlock: str
    cause: Cause | None
    since_s: float
    reading_s: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """The memory of the interlocks from one tick to the next.

    A strike is (interlock, time of the trip). `rich_since_s` is since when the gas has held too much CO2.
    """

    trips: tuple[Trip, ...] = ()
    strikes: tuple[tuple[str, float], ...] = ()
    rich_since_s: float | None = None
    airless: Airless | None = None
    crossings: tuple[Crossing, ...] = ()

    @property
    def no_air(self) -> bool:
        """Whether air counts as closed."""
        return self.airless is not None and not self.airless.trusted

    def reset(self) -> Watch:
        """Return the memory after a person's reset: only what is wrong at this moment trips again (I5)."""
        return Watch(tuple(trip for trip in self.trips if not trip.latched), airless=self.airless)


# --- what bounds a rig ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Interlock:
    """Limits on one point, and the response of its actuators (`trips`) when a limit is passed or the reading is in doubt.

    `trips` clear only `deadband` inside the limit (L2), and `hold_s` later. The number `strikes` of such trips within half an
    hour latches the interlock until a person resets it (I5); 0 means never. With `max_hold_s` above 0 it does not latch:
    from that trip on `hold_s` doubles each time, up to `max_hold_s`, and after each hold the actuators are limited to their
    basal state for `probation_s`.

    With `debounce_s` above 0 a single reading neither trips nor clears. It trips when a second reading confirms the first,
    and at the latest `debounce_s` after the first, unless a good reading inside the limit came meanwhile. It clears after
    two good readings in a row inside the limit. Input older than `stale_s` trips: the sensor is lost.

    With `rise_per_s` above 0 (the point's unit a second, at full power) a pulse of its actuators ends before it could raise
    the point above `ceiling`, counted from the last change of the reading: a stuck probe shows none of the rise.
    """

    name: str
    point: str
    trips: tuple[str, ...]
    stale_s: float
    high: float = inf
    low: float = -inf
    valid_min: float = -inf
    valid_max: float = inf
    flat_s: float = 0.0
    deadband: float = 0.0
    on_high: Response = Response.OFF
    on_low: Response = Response.ALARM
    on_doubt: Response = Response.OFF
    hold_s: float = 0.0
    strikes: int = 0
    max_hold_s: float = 0.0
    probation_s: float = 0.0
    debounce_s: float = 0.0
    ceiling: float = inf
    rise_per_s: float = 0.0
    unit: str = ""
    """Unit of all limits. A reading in another unit counts as unsafe input."""


@dataclass(frozen=True, slots=True)
class VesselLimits:
    """Bounds of a vessel (µL)."""

    floor_ul: float
    ceiling_ul: float


@dataclass(frozen=True, slots=True)
class SelectedWay:
    """Names source and target of a pump at one setting of the selectors on its line (levels, by valve)."""

    positions: Mapping[str, float]
    source: str
    target: str
    draws_above_ul: float = 0.0


@dataclass(frozen=True, slots=True)
class SelectorLimits:
    """A selector: the levels that its valve may be set to, and the pumps that must stand while it moves.

    A status older than `stale_s` is unknown.
    """

    levels: frozenset[float]
    pumps: tuple[str, ...]
    stale_s: float


@dataclass(frozen=True, slots=True)
class PumpLimits:
    """A pump: continuous (a heart), or for finite transfers from `source` to `target`, perhaps through a `valve`.

    It never runs together with a pump in `excludes`. Flows are in µL/min. What it moves enters each vessel of `fills` with at
    most that share (0..1); without them, `target` alone. Below `draws_above_ul` of the source it draws air. With `ways`,
    selectors or junctions determine source and target, and a dose must name one of them.
    """

    role: Literal["heart", "transfer"]
    source: str
    target: str
    min_ul_min: float
    max_ul_min: float
    valve: str | None = None
    excludes: tuple[str, ...] = ()
    fills: Mapping[str, float] = field(default_factory=dict)
    draws_above_ul: float = 0.0
    ways: tuple[SelectedWay, ...] = ()

    def share_into(self, vessel: str) -> float:
        """Return the largest share of what it moves that may enter a vessel (0..1)."""
        return self.fills.get(vessel, 0.0) if self.fills else float(vessel == self.target)

    def on_way(self, positions: Mapping[str, float]) -> PumpLimits | None:
        """Return the limits on the way with these positions; None if there is no such way."""
        if not self.ways:
            return self
        way = next((way for way in self.ways if way.positions == positions), None)
        if way is None:
            return None
        return replace(self, source=way.source, target=way.target, fills={}, draws_above_ul=way.draws_above_ul, ways=())


@dataclass(frozen=True, slots=True)
class HeartLimits:
    """A heart: its pump, and what happens while the pump is not known to run.

    `interlock` trips then, and the pumps of `draws` stand, because they draw from chambers that this heart perfuses. While no
    heart of the same `loop` runs, the pumps of `loop_draws` stand as well: nothing mixes it. `title` names it in texts.
    A status older than `stale_s` is unknown. Without renewal within `lease_s` the heart returns to its basal flow.
    """

    title: str
    interlock: str
    pump: str
    stale_s: float
    lease_s: float
    draws: tuple[str, ...] = ()
    loop: str = ""
    loop_draws: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mixture:
    """The three gases over the loop: CO2 may make up at most `max_co2` (0..1) of the commanded flow.

    If the measured share exceeds `trip_co2` for `delay_s` (flows take a while to settle and are not read all at once), air
    has failed and CO2 is shut for at least `hold_s`.

    While the air flow cannot be read, a controller that is only cut off and keeps its flow looks the same as one without
    power. Then pH decides: CO2 is shut below `ph_shut`, and from then on air counts as closed. CO2 may then make up at most
    `airless_co2` (0..1) of the measured oxygen. With air closed that is carbogen, in which tissue is kept for hours. With
    air that flows unread it is too little CO2: a pH above `ph_alkaline` for `trial_s` reveals this, see :class:`Airless`.
    """

    air: str
    co2: str
    o2: str
    max_co2: float
    trip_co2: float
    stale_s: float
    ph: str
    ph_shut: float
    ph_alkaline: float
    ph_stale_s: float
    airless_co2: float
    delay_s: float = 20.0
    hold_s: float = 120.0
    airless_hold_s: float = 30.0
    trial_s: float = 600.0
    max_trial_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything that bounds one rig. `basal` maps every actuator to its basal state."""

    basal: Mapping[str, Command]
    pumps: Mapping[str, PumpLimits]
    vessels: Mapping[str, VesselLimits]
    heaters: tuple[str, ...]
    switches: tuple[str, ...]
    levels: Mapping[str, tuple[float, float]]
    interlocks: tuple[Interlock, ...]
    hearts: tuple[HeartLimits, ...] = ()
    switch_stale_s: Mapping[str, float] = field(default_factory=dict)
    mixture: Mixture | None = None
    selectors: Mapping[str, SelectorLimits] = field(default_factory=dict)
    """By the valve."""
    compared: bool = True
    """Whether probes are compared and heat is limited by its balance; campaigns take it away (docs/campaign.md)."""


# --- what is known ----------------------------------------------------------------------------------------


class KernelReading(Protocol):
    """Declares the fields of a reading that the kernel uses."""

    @property
    def value(self) -> float:
        """The value in its point's unit."""

    @property
    def unit(self) -> str:
        """The unit of the value."""

    @property
    def quality(self) -> Quality:
        """Its quality."""

    @property
    def at_s(self) -> float:
        """When it was taken (loop seconds)."""

    @property
    def same_since_s(self) -> float:
        """Since when its value has not changed (loop seconds)."""

    @property
    def good(self) -> KernelReading | None:
        """The newest good reading: this one, or the last one before it."""


class KernelVolume(Protocol):
    """Declares the fields of a vessel's volume that the kernel uses."""

    @property
    def ul(self) -> float:
        """Estimate (µL)."""

    @property
    def sd_ul(self) -> float:
        """Standard deviation (µL)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Reported state of an actuator: whether it moves or is open, its level (its unit), and when it was read (loop s)."""

    on: bool
    level: float
    at_s: float


@dataclass(frozen=True, slots=True)
class Underway:
    """A transfer that may still move `remaining_ul`, or has ended and is not booked in the volumes yet (`running` False)."""

    actuator: str
    remaining_ul: float
    dose_id: str = ""
    running: bool = True
    positions: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PumpTrust:
    """Trust in a pump's calibration: why it may not dose (None: it may), and the ratio of moved to commanded volume."""

    refusal: str | None = None
    gain: float = 1.0


@dataclass(frozen=True, slots=True)
class View:
    """Holds everything on which the kernel decides, as of one moment."""

    now_s: float
    readings: Mapping[str, KernelReading]
    volumes: Mapping[str, KernelVolume]
    seen: Mapping[str, Seen] = field(default_factory=dict)
    underway: tuple[Underway, ...] = ()
    emergency: str | None = None
    watch: Watch = field(default_factory=Watch)
    pumps: Mapping[str, PumpTrust] = field(default_factory=dict)
    """Trust in the calibrations of pumps; a pump without an entry moves the commanded volume."""
    bypassed: frozenset[str] = frozenset()
    """Interlocks that a person has bypassed for a limited time (I6)."""
    emergency_known: bool = True
    """Whether the emergency stop is known to stand; otherwise it holds only what moves fluid."""
