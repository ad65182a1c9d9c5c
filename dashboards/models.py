"""The shapes of requests and answers; every quantity has its unit in its name or in a `unit` beside it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class Start(_Body):
    """Start a protocol; each parameter is text with its unit, such as `{"batch": "18 mL"}`."""

    protocol: str = Field(max_length=100)
    params: dict[str, str] = Field(default_factory=dict, max_length=50)
    reason: str = Field(default="", max_length=1000)


class Why(_Body):
    """The reason for an action, for the record."""

    reason: str = Field(default="", max_length=1000)


class Shelved(_Body):
    """For how long an alarm is not announced (`for`, with its unit), and why."""

    for_: str = Field(alias="for", max_length=40)
    reason: str = Field(max_length=1000)


class Invite(_Body):
    """A new token for somebody."""

    name: str = Field(min_length=1, max_length=60, pattern=r"^[^\x00-\x1f/]+$")
    role: Literal["viewer", "operator", "engineer", "admin"]
    reason: str = Field(default="", max_length=1000)


class EnterAssay(_Body):
    """What the laboratory found; `value` and `sd` with their units, `taken` a time of day or an ISO 8601 time."""

    analyte: str = Field(max_length=40)
    value: str = Field(max_length=64)
    vessel: str = Field(max_length=100)
    taken: str = Field(max_length=40)
    sd: str = Field(default="", max_length=64)
    method: str = Field(default="", max_length=200)
    zone: str = Field(default="", max_length=64)
    sure: bool = False
    reason: str = Field(default="", max_length=1000)


class SetSpeed(_Body):
    """How fast a simulated rig is to live (times life)."""

    speed: float = Field(ge=1, le=600, allow_inf_nan=False)
    reason: str = Field(default="", max_length=1000)


class MakeFault(_Body):
    """Let something go wrong in a simulated lab, for `for_s` seconds of its time (0: until it is mended)."""

    kind: str = Field(max_length=60)
    target: str = Field(max_length=200)
    for_s: float = Field(default=0.0, ge=0, le=1e8, allow_inf_nan=False)
    reason: str = Field(default="", max_length=1000)


class FaultKind(BaseModel):
    """One thing that can go wrong, and on what."""

    kind: str
    group: str
    meaning: str
    targets: list[str]
    momentary: bool


class LastingFault(BaseModel):
    """One thing that is wrong; `left_s` is how long it still lasts, None until it is mended."""

    number: int
    kind: str
    target: str
    meaning: str
    left_s: float | None


class FaultsView(BaseModel):
    """What can go wrong, and what is wrong now."""

    kinds: list[FaultKind]
    lasting: list[LastingFault]


class Error(BaseModel):
    """What went wrong, for people."""

    what: str
    where: str
    cause: str
    action: str


class Errored(BaseModel):
    """The body of every answer that is not a success."""

    error: Error


class HealthView(BaseModel):
    """Whether the control loop ticks."""

    ok: bool
    reasons: list[str]
    tick_age_s: float | None


class LoadView(BaseModel):
    """What the controller's process takes: lag of its loop over ten minutes, tasks, descriptors, memory."""

    lag_p99_ms: float
    lag_max_ms: float
    tasks: int
    descriptors: int | None
    rss_mb: float | None


class Session(BaseModel):
    """Who one is."""

    name: str
    role: str


class OrganoidView(BaseModel):
    """The living tissue."""

    count: int
    diameter_mm: float
    age_d: float
    chamber: str


class Goal(BaseModel):
    """What a reading ought to be, and the limits that its interlock keeps (all in `unit`)."""

    point: str
    unit: str
    setpoint: float | None
    low: float | None
    high: float | None


class HeartView(BaseModel):
    """Which pump circulates, and at what flow."""

    pump: str | None
    flow_ul_min: float


class RigView(BaseModel):
    """The rig; `schematic` is what :func:`controller.rig.schematic.describe` gives.

    `periods_s` tells how often each device is read.
    """

    name: str
    time_zone: str
    """IANA name of the laboratory's time zone."""
    description: str
    simulated: bool
    mixed: bool
    faults: bool
    """Whether faults can be made by hand: only in the demo."""
    organoid: OrganoidView
    electrodes: int
    goals: list[Goal]
    heart: HeartView
    mass_point: str
    periods_s: dict[str, float]
    return_valve: str | None
    schematic: dict[str, Any]
    user: str
    role: str


class ReadingView(BaseModel):
    """One reading; `value` is null when there is none. `stable` is false while its device says that the value moves."""

    value: float | None
    unit: str
    quality: Literal["good", "suspect", "stale", "missing"]
    stable: bool
    at_s: float | None
    detail: str


class VolumeView(BaseModel):
    """An estimated volume with its standard deviation."""

    ul: float
    sd_ul: float


class TripView(BaseModel):
    """An interlock that holds actuators at rest."""

    interlock: str
    point: str
    detail: str
    since_s: float | None
    actuators: list[str]
    latched: bool


class ActuatorState(BaseModel):
    """One actuator; `status`, `commanded` and `basal` name their own units.

    `fault` says why it does not answer (else it is empty); `status` is then what it said last.
    """

    status: dict[str, Any] | None
    commanded: dict[str, Any] | None
    basal: dict[str, Any]
    guarantee: Literal["device", "guard", "host"]
    at_s: float | None
    lease_until_s: float | None
    fault: str


class StateView(BaseModel):
    """A whole snapshot at rig time `at_s`."""

    at_s: float
    utc: str
    readings: dict[str, ReadingView]
    actuators: dict[str, ActuatorState]
    volumes: dict[str, VolumeView]
    trips: list[TripView]
    links: dict[str, str]


class HistoryView(BaseModel):
    """One series; each row is `[at_utc_s, mean, least, most]`, the last three in `unit`."""

    point: str
    unit: str
    begin_utc_s: float
    end_utc_s: float
    rows: list[tuple[float, float, float, float]]


class ParamView(BaseModel):
    """One parameter; `default`, `low` and `high` in `unit` (none for a count)."""

    name: str
    unit: str
    default: float
    low: float
    high: float
    help: str


class ProtocolView(BaseModel):
    """One protocol."""

    name: str
    title: str
    params: list[ParamView]


class ProtocolsView(BaseModel):
    """The protocols there are."""

    protocols: list[ProtocolView]


class StepModel(BaseModel):
    """One step; an amount as `{ul, low_ul, high_ul}`, a measurement as `{value, low, high, unit}`."""

    n: int
    verb: str
    args: dict[str, Any]
    state: str
    result: dict[str, Any] | None


class RunModel(BaseModel):
    """One run; `params` carry their unit in their names."""

    id: str
    protocol: str
    state: str
    ended: bool
    step: int
    started_utc: str
    params: dict[str, float]
    progress: list[StepModel]
    messages: list[str]


class RunsModel(BaseModel):
    """The runs, oldest first."""

    runs: list[RunModel]


class AlarmModel(BaseModel):
    """One alarm: what it is, what happens if nobody acts, what to do, and how long there is."""

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
    aside_by: str
    aside_reason: str
    until_utc: str


class AlarmsModel(BaseModel):
    """The alarms that are announced, the most urgent first, and those that are shelved, suppressed or out of service."""

    alarms: list[AlarmModel]
    set_aside: list[AlarmModel]


class ChannelModel(BaseModel):
    """One channel over which people are told of alarms."""

    name: str
    step: int
    min_priority: str
    quiet: bool
    ok: bool
    problem: str
    delivered: int
    waiting: int
    tested: str
    """The local day of the last test; empty before the first."""
    last_s_ago: float | None


class ChannelsModel(BaseModel):
    """Every channel."""

    channels: list[ChannelModel]


class ChannelTest(BaseModel):
    """Whether one channel confirmed the test message."""

    name: str
    ok: bool
    detail: str


class ChannelTests(BaseModel):
    """The result of a test of every channel."""

    channels: list[ChannelTest]


class BypassModel(BaseModel):
    """An interlock that is set aside: by whom, why, until when."""

    interlock: str
    user: str
    reason: str
    until_utc: str


class BypassesModel(BaseModel):
    """Every interlock that is set aside."""

    bypasses: list[BypassModel]


class SetAside(_Body):
    """Why an interlock is set aside, and for how long (min)."""

    reason: str = Field(min_length=1, max_length=500)
    minutes: float = Field(gt=0, allow_inf_nan=False)


class EmergencyModel(BaseModel):
    """Who stopped everything and why; null when nobody did.

    `confirmed` is false while the stop is in force and some output, or the stimulation, has not confirmed it yet.
    """

    emergency: str | None
    confirmed: bool


class SpeedModel(BaseModel):
    """Times life."""

    speed: float


class VesselContent(BaseModel):
    """What one vessel holds."""

    name: str
    ml: float
    sd_ml: float


class LedgerModel(BaseModel):
    """Where the medium went since the journal began (mL; the fraction 0 to 1)."""

    fresh_ml: float
    drawn_ml: float
    given_back_ml: float
    recycled_ml: float
    discarded_ml: float
    glucose_ml: float
    base_ml: float
    evaporated_ml: float
    mass_balance_error_ml: float
    mass_balance_bound_ml: float
    recycled_fraction: float
    vessels: list[VesselContent]


class Bounds(BaseModel):
    """A value and the bounds between which it is believed to lie (95 %)."""

    value: float
    low: float
    high: float


class AssayRow(BaseModel):
    """One assay as it stands in the journal; `off_sd` is how far it lay from `expected`, in standard deviations."""

    id: int
    entered_utc: str
    analyte: str
    vessel: str
    where: Literal["loop", "spent"]
    taken_utc: str
    value: float
    sd: float
    unit: str
    used: bool
    sure: bool
    text: str
    method: str
    user: str
    reason: str
    off_sd: float
    expected: Bounds


class AssayTaken(BaseModel):
    """What an assay did to the estimate: when it was taken, `before` and `after`, and `now`."""

    id: int
    analyte: str
    vessel: str
    taken_utc: str
    value: float
    sd: float
    unit: str
    used: bool
    off_sd: float
    before: Bounds
    after: Bounds
    now: Bounds


class AssaysModel(BaseModel):
    """The latest assays, newest first."""

    assays: list[AssayRow]


class MediumModel(BaseModel):
    """What is believed of the medium now: species → bounds (mM, osmolality mOsm/kg)."""

    utc: str
    loop: dict[str, Bounds]
    spent: dict[str, Bounds]
    lactate_umol_d: float


class GradeModel(BaseModel):
    """The last grade with its inputs, limits and reasons; null before the first."""

    grade: dict[str, Any] | None


class ViabilityModel(BaseModel):
    """Viability (0 to 1) with its interval, coverage, parts, weights and gates; within it the same of `welfare`, the
    `happiness` rating made of both, `stimulation` (load, rest, tier and level, null while unknown) and the organoid's own
    `baseline`. Null before the first.
    """

    viability: dict[str, Any] | None


class WeighedUp(BaseModel):
    """A treatment that was not chosen: what it would have cost (EUR), why it may not be (`refused`), and the variable by
    which the loop would still be bad after it (`still`).
    """

    action: str
    eur: float
    refused: str
    still: str


class DecisionModel(BaseModel):
    """What was done with a batch and why; `reason` is the line that the cost model wrote into the journal (row `seq`).

    `of` tells what was graded (`loop` or `batch`), `risk` the probability (0 to 1) that the loop leaves grade B by `worst`.
    """

    seq: int
    utc: str
    run: str | None
    cycle: int
    of: Literal["loop", "batch"]
    grade: str
    limiting: str
    grade_reasons: list[str]
    action: str
    eur: float
    risk: float
    worst: str
    reason: str
    others: list[WeighedUp]
    drawn_ml: float
    fresh_ml: float
    given_back_ml: float
    discarded_ml: float
    dialysate_ml: float


class DecisionsModel(BaseModel):
    """The latest decisions, newest first."""

    decisions: list[DecisionModel]


class EntryModel(BaseModel):
    """One row of the journal."""

    seq: int
    utc: str
    kind: str
    run: str | None
    body: dict[str, Any]
    sha256: str


class AuditModel(BaseModel):
    """The journal's newest rows, newest first."""

    entries: list[EntryModel]


class IssuedToken(BaseModel):
    """The only time that a token is shown."""

    name: str
    role: str
    token: str


class UserModel(BaseModel):
    """Somebody who may come in, and with how many tokens and sessions."""

    name: str
    role: str
    tokens: int
    sessions: int


class UsersModel(BaseModel):
    """Everybody who may come in."""

    users: list[UserModel]
