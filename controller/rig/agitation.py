"""Agitation in the rig description: stirrers, shakers and rockers, and the vessels that they keep in motion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from controller.rig.part import RigPart
from controller.rig.quantities import SpeedRpm, TimeS

MIN_SHARE = 0.5
"""Share of the speed below which a stirrer counts as standing, if the file names no minimum."""
MAX_RPM = 5000.0


class Agitator(RigPart):
    """Keeps medium in motion: a stirrer in a vessel, a shaker or rocker under vessels, plates or a whole zone.

    With `switch` or `setpoint` the controller drives it; without one a person does, and the entry is a statement.
    """

    kind: Literal["stirrer", "shaker", "rocker"]
    at: tuple[str, ...] = Field(min_length=1)
    """The vessels, plates or zones that it keeps in motion."""
    speed_rpm: SpeedRpm = Field(alias="speed", gt=0, le=MAX_RPM)
    """Of a rocker, its strokes per minute."""
    switch: str | None = None
    """The relay that switches its motor."""
    setpoint: str | None = None
    """The output that sets its speed in rpm."""
    measured: str | None = None
    """The point that tells its speed in rpm."""
    min_speed_rpm: SpeedRpm | None = Field(default=None, alias="min_speed", gt=0, le=MAX_RPM)
    """Measured speed below which it counts as standing. Left out, half of `speed`."""
    stale_s: TimeS = Field(default=30.0, alias="stale", gt=0, le=3600)

    @model_validator(mode="after")
    def _one_drive(self) -> Self:
        if self.switch is not None and self.setpoint is not None:
            raise ValueError("one of switch and setpoint drives it, not both")
        if self.min_speed_rpm is not None and self.min_speed_rpm >= self.speed_rpm:
            raise ValueError("min_speed must be below speed")
        return self

    @property
    def drive(self) -> str | None:
        """The output that drives it; None if a person does."""
        return self.switch or self.setpoint

    @property
    def stands_below_rpm(self) -> float:
        """The measured speed below which it counts as standing."""
        return MIN_SHARE * self.speed_rpm if self.min_speed_rpm is None else self.min_speed_rpm


def agitated(agitator: Agitator, zones: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the vessels that an agitator keeps in motion.

    Args:
        agitator: The agitator. A plate in its `at` is replaced by its wells when the file is loaded.
        zones: Every vessel with its zone.
    """
    return tuple(dict.fromkeys(vessel for place in agitator.at for vessel in _vessels(place, zones)))


def _vessels(place: str, zones: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the vessels that a place stands for: itself, or those that stand in this zone."""
    for vessel, zone in zones.items():
        if place in (vessel, zone):
            yield vessel
