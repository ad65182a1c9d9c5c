"""The part `alarms` of the rig file: who receives alarms, over which channels, and when.

The rig file contains no secret: the address of a channel (an Apprise URL, which contains a password or token) is read from a
separate file or from the environment (S4).
"""

from __future__ import annotations

from datetime import time
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from controller.rig.part import RigPart
from controller.rig.quantities import TimeS

ChannelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,39}$")]
AlarmPriority = Literal["critical", "high", "medium", "low"]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"“{name}” is no IANA time zone; write one such as Europe/Berlin or UTC") from None
    return name


def _clock_time(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):  # YAML 1.1 reads 09:30 without quotes as 570 minutes
        raise ValueError('write the time in quotes, such as "09:30"')
    return value


ZoneName = Annotated[str, AfterValidator(_zone)]
ClockTime = Annotated[time, BeforeValidator(_clock_time)]


class _Secret(RigPart):
    """An address with a secret in it, by reference."""

    url_file: str | None = Field(default=None, min_length=1)
    url_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")


class Quiet(RigPart):
    """Hours, in the laboratory's time, in which a channel is used for critical alarms alone."""

    begin: ClockTime = Field(alias="from")
    end: ClockTime = Field(alias="to")
    days: tuple[Day, ...] = DAYS
    """The days on which it begins."""


class ChannelSpec(_Secret):
    """One way to reach people: an Apprise URL by reference, or the MQTT broker of `telemetry`."""

    mqtt: bool = False
    min_priority: AlarmPriority = "medium"
    quiet: Quiet | None = None

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if sum((self.url_file is not None, self.url_env is not None, self.mqtt)) != 1:
            raise ValueError("a channel needs exactly one of url_file, url_env and mqtt: true")
        return self


class MonitorSpec(_Secret):
    """An external monitor that is called while the control loop ticks, and raises the alarm when the calls stop (L6)."""

    every_s: TimeS = Field(default=60.0, alias="every", ge=10, le=3600)

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if (self.url_file is None) == (self.url_env is None):
            raise ValueError("a monitor needs exactly one of url_file and url_env")
        return self


class Waits(RigPart):
    """A time for each priority; left out, it follows from the time that the alarm gives to respond."""

    critical_s: TimeS | None = Field(default=None, alias="critical", ge=10, le=3600)
    high_s: TimeS | None = Field(default=None, alias="high", ge=10, le=86_400)
    medium_s: TimeS | None = Field(default=None, alias="medium", ge=10, le=7 * 86_400)
    low_s: TimeS | None = Field(default=None, alias="low", ge=10, le=7 * 86_400)

    def of(self, priority: AlarmPriority) -> float | None:
        """Return the time (s) for one priority, if the file gives one."""
        value: float | None = getattr(self, f"{priority}_s")
        return value


class NotifySpec(RigPart):
    """Channels, the order of escalation, the daily test and the external monitor."""

    channels: dict[ChannelName, ChannelSpec] = Field(min_length=1, max_length=20)
    escalation: tuple[tuple[ChannelName, ...], ...] = ()
    """Steps: each has one or more channels, which are notified together. Left out, all channels form the only step."""
    escalate_after: Waits = Waits()
    repeat: Waits = Waits()
    test_at: ClockTime = time(9, 0)
    """Local time of the daily test of every channel."""
    monitor: MonitorSpec | None = None

    @model_validator(mode="after")
    def _known_channels(self) -> Self:
        named = [name for step in self.escalation for name in step]
        for name in named:
            if name not in self.channels:
                raise ValueError(f"escalation names the channel “{name}”, which is not among channels")
        if self.escalation and (missing := sorted(set(self.channels) - set(named))):
            raise ValueError(f"escalation leaves out {', '.join(missing)}, which would never be notified")
        if any(not step for step in self.escalation):
            raise ValueError("a step of escalation needs at least one channel")
        return self

    @property
    def steps(self) -> tuple[tuple[str, ...], ...]:
        """The steps of escalation."""
        return self.escalation or (tuple(self.channels),)


class AlarmSpec(RigPart):
    """How alarms reach people."""

    notify: NotifySpec | None = None
