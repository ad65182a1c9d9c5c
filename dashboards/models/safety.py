"""Alarms, notification channels, the emergency stop, and bypasses of interlocks."""

from __future__ import annotations

from pydantic import BaseModel, Field

from dashboards.models.base import Projection, RequestBody


class Shelved(RequestBody):
    """For how long an alarm is not announced (`for`, with its unit), and why."""

    for_: str = Field(alias="for", max_length=40)
    reason: str = Field(max_length=1000)


class AlarmModel(Projection):
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


class AlarmsModel(Projection):
    """Alarms that are announced, the most urgent first, and those that are shelved, suppressed or out of service."""

    alarms: list[AlarmModel]
    suppressed: list[AlarmModel]


class ChannelModel(BaseModel):
    """One channel over which alarms are sent to people."""

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


class BypassModel(Projection):
    """A bypass of an interlock: by whom, why, until when."""

    interlock: str
    user: str
    reason: str
    until_utc: str


class BypassesModel(BaseModel):
    """Every bypass of an interlock."""

    bypasses: list[BypassModel]


class BypassRequest(RequestBody):
    """Why an interlock is bypassed, and for how long (min)."""

    reason: str = Field(min_length=1, max_length=500)
    minutes: float = Field(gt=0, allow_inf_nan=False)


class EmergencyModel(BaseModel):
    """Who stopped everything and why; null while no emergency stop stands.

    `confirmed` is false while the stop is in force and some output, or the stimulation, has not confirmed it yet.
    """

    emergency: str | None
    confirmed: bool
