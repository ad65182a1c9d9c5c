"""The rig and its state: organoid, readings, volumes, actuators, history, speed, health."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field, field_validator

from dashboards.models.actuators import ActuatorState
from dashboards.models.base import Projection, RequestBody


class SetSpeed(RequestBody):
    """The speed of a simulated rig, as a multiple of real time."""

    speed: float = Field(ge=1, le=600, allow_inf_nan=False)
    reason: str = Field(default="", max_length=1000)


class HealthView(BaseModel):
    """Whether the control loop runs; `reasons` says why it does not.

    `tick_age_s` is the time since its last tick (s); null in the live feed, which is sent by that loop.
    """

    ok: bool
    reasons: list[str]
    tick_age_s: float | None


class LoadView(Projection):
    """What the controller's process takes: lag of its loop over ten minutes, tasks, descriptors, memory."""

    lag_p99_ms: float
    lag_max_ms: float
    tasks: int
    descriptors: int | None
    rss_mb: float | None


class TissueView(Projection):
    """The living tissue of one chamber."""

    chamber: str
    count: int
    diameter_mm: float
    age_d: float
    """Age as the rig file gives it."""
    batch: str
    cell_line: str
    capacity: Literal["ordinary", "advanced"]


class Goal(BaseModel):
    """What a reading ought to be, and the limits that its interlock keeps (all in `unit`)."""

    point: str
    unit: str
    setpoint: float | None
    low: float | None
    high: float | None


class HeartView(BaseModel):
    """A heart: its line and pump, its usual flow, and by chamber the estimated share of the flow that passes it (0 to 1)."""

    name: str
    line: str
    pump: str | None
    flow_ul_min: float
    chambers: dict[str, float]


class CapabilityView(Projection):
    """A function of the rig: what it lacks for it (empty if it has the function), and what holds without it."""

    function: str
    title: str
    available: bool
    lacks: list[str]
    without: str


class RigView(BaseModel):
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
    tissue: list[TissueView]
    electrodes: int
    cameras: list[str]
    goals: list[Goal]
    hearts: list[HeartView]
    mass_point: str | None
    """The reading by which drawn medium is weighed; null on a rig without a kidney."""
    periods_s: dict[str, float]
    return_valve: str | None
    shared_lines: dict[str, list[str]]
    """Devices on one line, by the source of the alarm that none of them answers."""
    schematic: dict[str, Any]
    capabilities: list[CapabilityView]
    user: str
    role: str


class ReadingView(Projection):
    """One reading. `value` is null where there is none; `at_s` is rig time, on the scale of the state's own `at_s`.

    `stable` is false while the device says that the value moves, as a balance does.
    """

    value: float | None
    unit: str
    quality: Literal["good", "suspect", "stale", "missing"]
    stable: bool
    at_s: float | None
    detail: str


class VolumeView(Projection):
    """An estimated volume with its standard deviation (µL)."""

    ul: float
    sd_ul: float

    @field_validator("ul", "sd_ul")
    @classmethod
    def _tenths(cls, ul: float) -> float:
        return round(ul, 1)


class TripView(Projection):
    """An interlock that holds actuators in their basal state."""

    interlock: str
    point: str
    detail: str
    since_s: float | None
    actuators: list[str]
    latched: bool


class StateView(Projection):
    """One snapshot of the rig. `at_s` is monotonic rig time, `utc` ISO 8601."""

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


class DiscardedModel(Projection):
    """A count of discarded data; `lost` says whether they are gone, or kept as doubtful."""

    where: str
    what: str
    count: int
    lost: bool


class RecordsView(BaseModel):
    """The identity of the rig's data folder (empty if it has none), and what was discarded."""

    rig_id: str
    discarded: list[DiscardedModel]


class PartView(BaseModel):
    """A part of the controller: its stage within a tick, and what it says of itself."""

    name: str
    stage: str
    state: Any


class PartsView(BaseModel):
    """The parts of the controller, in their order."""

    parts: list[PartView]


class SpeedModel(BaseModel):
    """The speed as a multiple of real time."""

    speed: float
