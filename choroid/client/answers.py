"""Answers of the controller's HTTP API as plain data; every quantity has its unit in its name or a field `unit`.

Generated from dashboards/models by `make types`; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class HealthInfo:
    """Whether the control loop runs; `reasons` says why it does not.

    `tick_age_s` is the time since its last tick (s); None in the live feed, which is sent by that loop.
    """

    ok: bool
    reasons: list[str]
    tick_age_s: float | None


@dataclass(frozen=True, slots=True)
class ReadingInfo:
    """One reading. `value` is None where there is none; `at_s` is rig time, on the scale of the state's own `at_s`.

    `stable` is false while the device says that the value moves, as a balance does.
    """

    value: float | None
    unit: str
    quality: Literal["good", "suspect", "stale", "missing"]
    stable: bool
    at_s: float | None
    detail: str


@dataclass(frozen=True, slots=True)
class VolumeInfo:
    """An estimated volume with its standard deviation (µL)."""

    ul: float
    sd_ul: float


@dataclass(frozen=True, slots=True)
class TripInfo:
    """An interlock that holds actuators in their basal state."""

    interlock: str
    point: str
    detail: str
    since_s: float | None
    actuators: list[str]
    latched: bool


@dataclass(frozen=True, slots=True)
class ActuatorInfo:
    """One actuator: its own status, the last command, its basal state, and who enforces that (device, guard or host).

    `status`, `commanded` and `basal` name their own units. `fault` says why it does not answer; it is empty while it does.
    With a fault, `status` is the last report, of `at_s`.
    """

    status: dict[str, Any] | None
    commanded: dict[str, Any] | None
    basal: dict[str, Any]
    guarantee: Literal["device", "guard", "host"]
    at_s: float | None
    lease_until_s: float | None
    fault: str


@dataclass(frozen=True, slots=True)
class StateInfo:
    """One snapshot of the rig. `at_s` is monotonic rig time, `utc` ISO 8601."""

    at_s: float
    utc: str
    readings: dict[str, ReadingInfo]
    actuators: dict[str, ActuatorInfo]
    volumes: dict[str, VolumeInfo]
    trips: list[TripInfo]
    links: dict[str, str]


@dataclass(frozen=True, slots=True)
class TissueInfo:
    """The living tissue of one chamber."""

    chamber: str
    count: int
    diameter_mm: float
    age_d: float
    """Age as the rig file gives it."""
    batch: str
    cell_line: str
    capacity: Literal["ordinary", "advanced"]


@dataclass(frozen=True, slots=True)
class GoalInfo:
    """What a reading ought to be, and the limits that its interlock keeps (all in `unit`)."""

    point: str
    unit: str
    setpoint: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class HeartInfo:
    """A heart: its line and pump, its usual flow, and by chamber the estimated share of the flow that passes it (0 to 1)."""

    name: str
    line: str
    pump: str | None
    flow_ul_min: float
    chambers: dict[str, float]


@dataclass(frozen=True, slots=True)
class CapabilityInfo:
    """A function of the rig: what it lacks for it (empty if it has the function), and what holds without it."""

    function: str
    title: str
    available: bool
    lacks: list[str]
    without: str


@dataclass(frozen=True, slots=True)
class RigInfo:
    """The rig that the controller runs, and who the client is there (`user`, `role`).

    `schematic` is the rig as a graph. `periods_s` is the longest time between two readings of each device, that at rest.
    """

    name: str
    time_zone: str
    """IANA name of the laboratory's time zone."""
    description: str
    simulated: bool
    mixed: bool
    faults: bool
    """Whether faults can be made by hand: only in the demo."""
    tissue: list[TissueInfo]
    electrodes: int
    cameras: list[str]
    goals: list[GoalInfo]
    hearts: list[HeartInfo]
    mass_point: str | None
    """The reading by which drawn medium is weighed; None on a rig without a kidney."""
    periods_s: dict[str, float]
    return_valve: str | None
    shared_lines: dict[str, list[str]]
    """Devices on one line, by the source of the alarm that none of them answers."""
    schematic: dict[str, Any]
    capabilities: list[CapabilityInfo]
    user: str
    role: str


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """One parameter of a recipe; `default`, `low` and `high` in `unit` (none for a count)."""

    name: str
    unit: str
    default: float
    low: float
    high: float
    help: str


@dataclass(frozen=True, slots=True)
class RecipeInfo:
    """One recipe that can be started."""

    name: str
    title: str
    params: list[ParameterInfo]


@dataclass(frozen=True, slots=True)
class StepInfo:
    """One step of a run. `result` is what people read of it: an amount `{ul, low_ul, high_ul}`, a measurement
    `{value, low, high, unit}`, an answer `{answer}`, or None; other results are in the journal.
    """

    n: int
    verb: str
    args: dict[str, Any]
    state: str
    result: dict[str, Any] | None
    branch: str = ""
    """Name of the branch that it belongs to; empty for the protocol itself."""


@dataclass(frozen=True, slots=True)
class QuestionInfo:
    """The question that a held run waits for. `kind` is number, choice, text, photo, file, assay, approval, or empty where
    the run is only to be resumed.

    `wants` says what is a valid answer; `default` is the declared default as text, or empty; `accept` are the media types of
    an upload.
    """

    step: int
    message: str
    kind: str
    wants: str
    unit: str
    choices: list[str]
    default: str
    accept: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run of a recipe. `state` is an ISA-88 state; `params` carry their unit in their names; `progress` holds the latest
    steps; `question` is the one that it waits for.
    """

    id: str
    protocol: str
    state: str
    ended: bool
    step: int
    started_utc: str
    params: dict[str, float]
    progress: list[StepInfo]
    messages: list[str]
    question: QuestionInfo | None = None


@dataclass(frozen=True, slots=True)
class AlarmInfo:
    """One alarm: what it is, the consequence if no operator acts, what to do, and how long there is.

    `suppressed_by`, `suppression_reason` and `until_utc` tell who shelved it or took it out of service, why and until when.
    """

    id: str
    kind: str
    source: str
    state: str
    priority: str
    detail: str
    raised_utc: str
    consequence: str
    response: str
    respond_within: str
    acknowledged_by: str
    suppressed_by: str
    suppression_reason: str
    until_utc: str


@dataclass(frozen=True, slots=True)
class AlarmsInfo:
    """Alarms that are announced, the most urgent first, and those that are shelved, suppressed or out of service."""

    alarms: list[AlarmInfo]
    suppressed: list[AlarmInfo]


@dataclass(frozen=True, slots=True)
class VesselInfo:
    """What one vessel holds, with its standard deviation (mL)."""

    name: str
    ml: float
    sd_ml: float


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """Where the medium went in the `days` since the journal began (mL).

    `scheduled_ml` is the fresh medium that the daily exchange would have used, `saved_fraction` the share of it that was not
    used (negative if more was used, None in the first day). `bound_ml` is the mass-balance bound: the least fresh medium that
    keeps lactate within grade B without a dialyser, by the estimates; `bound_ratio` the fresh medium by it. Both are None in
    the first day and without estimates, the ratio also while the bound is 0. `mass_balance_error_ml` is the balance error and
    `mass_balance_uncertainty_ml` three standard deviations of it.
    """

    fresh_ml: float
    drawn_ml: float
    given_back_ml: float
    recycled_ml: float
    discarded_ml: float
    glucose_ml: float
    base_ml: float
    evaporated_ml: float
    mass_balance_error_ml: float
    mass_balance_uncertainty_ml: float
    days: float
    scheduled_ml: float
    saved_fraction: float | None
    bound_ml: float | None
    bound_ratio: float | None
    vessels: list[VesselInfo]


@dataclass(frozen=True, slots=True)
class EntryInfo:
    """One row of the journal."""

    seq: int
    utc: str
    kind: str
    run: str | None
    body: dict[str, Any]
    sha256: str
