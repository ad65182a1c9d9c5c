"""The words of the safety kernel: what is wanted, what is known, what bounds it, and what was decided.

Plain immutable data, no input or output, nothing third-party.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Literal, Protocol

from drivers.commands import Command, Quality

# --- what is wanted, and what was decided -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Intent:
    """What somebody wants of an actuator, who, and why."""

    actuator: str
    command: Command
    requester: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision: the command as it may go out (perhaps tightened), every reason, and the most limiting one."""

    accepted: bool
    command: Command | None
    reasons: tuple[str, ...] = ()
    limiting: str | None = None


class Cause(StrEnum):
    """Why an interlock is not content."""

    HIGH = "high"
    LOW = "low"
    DOUBT = "doubt"
    """Its input is missing, stale, flat, from the future or out of range (I2)."""


class Response(StrEnum):
    """How far an interlock goes."""

    OFF = "off"
    """Its actuators come to rest, and nothing else is let through."""
    BASAL = "basal"
    """Its actuators fall back to their basal state; a flow may not exceed it."""
    TELL = "tell"
    """Only an alarm: acting would do more harm than the cause."""


@dataclass(frozen=True, slots=True)
class Trip:
    """An interlock that is not content: what it looks at, what it saw, since when, whom it bounds, and how far.

    A trip may outlast its cause (`Interlock.hold_s`, `latched`): `present` is False then, `seen_s` when it was last there.
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
    """Air is not heard, and CO2 had to be shut meanwhile: it is taken for closed until it is heard again.

    Or until the medium has been too alkaline for `wait_s`, since `alkaline_since_s`: then air seems to flow all the same,
    and is `trusted` until CO2 has to be shut once more; then the next such trial waits twice as long.
    """

    wait_s: float
    alkaline_since_s: float | None = None
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class Crossing:
    """A level that one reading has left (`cause`), or come back inside (None), and that no second one has confirmed yet.

    `since_s` is when that was first seen, `reading_s` when the reading was taken that said so, `detail` what it said.
    """

    interlock: str
    cause: Cause | None
    since_s: float
    reading_s: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """What the interlocks remember from one tick to the next.

    A strike is (interlock, when its level was left). `rich_since_s` is since when the gas has held too much CO2.
    """

    trips: tuple[Trip, ...] = ()
    strikes: tuple[tuple[str, float], ...] = ()
    rich_since_s: float | None = None
    airless: Airless | None = None
    crossings: tuple[Crossing, ...] = ()

    @property
    def no_air(self) -> bool:
        """Whether air is taken for closed."""
        return self.airless is not None and not self.airless.trusted

    def reset(self) -> Watch:
        """A person has looked: nothing stays latched but what is wrong at this moment (I5)."""
        return Watch(tuple(trip for trip in self.trips if not trip.latched), airless=self.airless)


# --- what bounds a rig ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Interlock:
    """A level on one point, and what it means for its actuators (`trips`) when the level is left or cannot be trusted.

    Once tripped by a level it clears only `deadband` inside it (L2), and `hold_s` later. `strikes` such trips within
    half an hour latch it until a person resets it (I5); 0: it never latches. With `hold_most_s` above 0 they do not:
    from that trip on `hold_s` doubles each time, up to so long, and after each hold the actuators may for
    `probation_s` do no more than their basal state.

    With `debounce_s` above 0 one reading neither trips nor clears it. It trips when a second reading confirms the first,
    and at the latest `debounce_s` after the first, unless a good reading inside the level came meanwhile. It clears when
    two good readings in a row are inside. `stale_s` is the time of a lost sensor: input older than that trips it.

    With `rise_per_s` above 0 (the point's unit a second, at full power) a pulse of its actuators ends before it could raise
    the point above `ceiling`, counted from the last change of the reading: a probe that is stuck shows none of the rise.
    """

    name: str
    point: str
    trips: tuple[str, ...]
    stale_s: float
    high: float = inf
    low: float = -inf
    valid_low: float = -inf
    valid_high: float = inf
    flat_s: float = 0.0
    deadband: float = 0.0
    on_high: Response = Response.OFF
    on_low: Response = Response.TELL
    on_doubt: Response = Response.OFF
    hold_s: float = 0.0
    strikes: int = 0
    hold_most_s: float = 0.0
    probation_s: float = 0.0
    debounce_s: float = 0.0
    ceiling: float = inf
    rise_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class VesselLimits:
    """Bounds of a vessel (µL)."""

    floor_ul: float
    ceiling_ul: float


@dataclass(frozen=True, slots=True)
class PumpLimits:
    """A pump: continuous (the heart) or finite transfers from `source` to `target`, perhaps through a `valve`.

    It never runs together with one of `excludes`. Flows in µL/min.
    """

    role: Literal["heart", "transfer"]
    source: str
    target: str
    min_ul_min: float
    max_ul_min: float
    valve: str | None = None
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mixture:
    """The three gases over the loop: CO2 may make up at most `most_co2` (0..1) of what is commanded.

    When what is measured has more than `trip_co2` for `delay_s` (flows take a while to settle and are not read all
    at once), air has failed and CO2 is shut for at least `hold_s`.

    While air is not heard nobody can tell a controller that is only cut off, and keeps its flow, from one without power.
    Then pH decides: CO2 is shut below `ph_shut`, and from then on air counts as none. CO2 may make up `airless_co2` (0..1)
    of the oxygen that is heard, and no more; with none, none. With air closed that is carbogen, in which tissue is kept for
    hours. With air that flows unheard it is too little: a pH above `ph_alkaline` for `trial_s` tells, see :class:`Airless`.
    """

    air: str
    co2: str
    o2: str
    most_co2: float
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
    trial_most_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything that bounds one rig. `basal` names every actuator there is, with the state it falls back to."""

    basal: Mapping[str, Command]
    pumps: Mapping[str, PumpLimits]
    vessels: Mapping[str, VesselLimits]
    heaters: tuple[str, ...]
    switches: tuple[str, ...]
    levels: Mapping[str, tuple[float, float]]
    interlocks: tuple[Interlock, ...]
    heart: str
    heart_stale_s: float
    switch_stale_s: Mapping[str, float] = field(default_factory=dict)
    draw: str | None = None
    mixture: Mixture | None = None


# --- what is known ----------------------------------------------------------------------------------------


class KernelReading(Protocol):
    """What the kernel needs of a reading."""

    @property
    def value(self) -> float:
        """The value in its point's unit."""

    @property
    def quality(self) -> Quality:
        """How far it may be trusted."""

    @property
    def at_s(self) -> float:
        """When it was taken (loop seconds)."""

    @property
    def same_since_s(self) -> float:
        """Since when it has been exactly the same."""

    @property
    def good(self) -> KernelReading | None:
        """The newest good reading: this one, or the last before it."""


class KernelVolume(Protocol):
    """What the kernel needs of a volume."""

    @property
    def ul(self) -> float:
        """Estimate (µL)."""

    @property
    def sd_ul(self) -> float:
        """Standard deviation (µL)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An actuator by its own word: whether it moves or lets through, how much (its unit), and when it said so."""

    on: bool
    level: float
    at_s: float


@dataclass(frozen=True, slots=True)
class Underway:
    """A transfer that may still move `remaining_ul`, or has moved it and is not in the volumes yet (`running` False)."""

    actuator: str
    remaining_ul: float
    dose_id: str = ""
    running: bool = True


@dataclass(frozen=True, slots=True)
class PumpTrust:
    """What a pump's calibration is good for: why it may give no volumes (None: it may), and true over asked volume."""

    refusal: str | None = None
    gain: float = 1.0


@dataclass(frozen=True, slots=True)
class View:
    """What the kernel looks at when it decides."""

    now_s: float
    readings: Mapping[str, KernelReading]
    volumes: Mapping[str, KernelVolume]
    seen: Mapping[str, Seen] = field(default_factory=dict)
    underway: tuple[Underway, ...] = ()
    emergency: str | None = None
    watch: Watch = field(default_factory=Watch)
    pumps: Mapping[str, PumpTrust] = field(default_factory=dict)
    """What is known of pumps' calibrations; one that is not named is taken at its word."""
    bypassed: frozenset[str] = frozenset()
    """Interlocks that a person has set aside for a while (I6)."""
