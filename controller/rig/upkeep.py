"""The parts of `upkeep` in the rig file: tubing in pump heads, and manual tasks with their due times."""

from __future__ import annotations

from datetime import date, time, timedelta
from itertools import pairwise
from typing import Literal, Self

from pydantic import Field, model_validator

from controller.rig.notify import DAYS, ClockTime, Day
from controller.rig.part import RigPart
from controller.rig.quantities import LengthMm, TimeD, TimeS

Material = Literal["silicone", "tygon", "pharmed-bpt", "santoprene", "other"]
"""What pump tubing is made of; its life follows from it (controller/upkeep/tubing.py)."""

DAY_S, WEEK_D = 86_400.0, 7
DAYLIGHT_SAVING_S = 3600.0
"""A local day may be longer than 24 h by this."""


class TubingSpec(RigPart):
    """The tubing in one pump head. `life` is in revolutions; without it, the usual of the material."""

    material: Material = "other"
    bore_mm: LengthMm | None = Field(default=None, alias="bore", gt=0, le=20)
    life_revolutions: float | None = Field(default=None, alias="life", gt=0, le=1e10)


class Disposable(RigPart):
    """A part that is used for a time and then replaced: a tubing set, a filter, a cassette, an electrode array."""

    what: str = Field(min_length=2, max_length=200)
    at: str | None = None
    """The line, vessel, filter, dialyser or device that it belongs to."""
    lot: str = Field(default="", max_length=100)
    opened: date | None = None
    """The day on which it was opened and fitted."""
    life_d: TimeD | None = Field(default=None, alias="life", gt=0, le=3650)
    """How long it may be used after that."""
    expires: date | None = None
    """The last day by its label."""
    count: int = Field(default=1, ge=1, le=10_000)
    """How many of them are fitted."""

    @model_validator(mode="after")
    def _life_since(self) -> Self:
        if self.life_d is not None and self.opened is None:
            raise ValueError("the life of a part counts from a day: add opened")
        return self

    @property
    def last_day(self) -> date | None:
        """The last day on which it may be used; None if the file does not say."""
        ends = [] if self.expires is None else [self.expires]
        if self.opened is not None and self.life_d is not None:
            ends.append(self.opened + timedelta(days=self.life_d))
        return min(ends, default=None)


class ManualTask(RigPart):
    """A task of a person that recurs: the alarm `task_due` asks for it, `task_overdue` calls for it, a person confirms it.

    It is due `every` time after its last confirmation, or `at` a local time on `days`.
    """

    text: str = Field(min_length=3, max_length=500)
    """What to do."""
    every_s: TimeS | None = Field(default=None, alias="every", ge=600, le=366 * DAY_S)
    at: ClockTime | None = None
    days: tuple[Day, ...] = DAYS
    grace_s: TimeS = Field(default=7200.0, alias="grace", ge=60, le=7 * DAY_S)
    """Time from when it is due to when it is overdue."""
    feeds: tuple[str, ...] = ()
    """The vessels or plates whose medium it changes."""

    @model_validator(mode="after")
    def _one_schedule(self) -> Self:
        if (self.every_s is None) == (self.at is None):
            raise ValueError("a task needs exactly one of every and at")
        if not self.days:
            raise ValueError("a task needs at least one day; leave days out for every day")
        return self

    @property
    def longest_s(self) -> float:
        """The maximum time from a confirmation to the alarm `task_overdue` (s); it may come early on the local day."""
        if self.every_s is not None:
            return self.every_s + self.grace_s
        numbers = sorted(DAYS.index(day) for day in set(self.days))
        gap_d = max(after - before for before, after in pairwise([*numbers, numbers[0] + WEEK_D]))
        at = self.at or time()
        early_s = 3600.0 * at.hour + 60.0 * at.minute
        return gap_d * DAY_S + early_s + DAYLIGHT_SAVING_S + self.grace_s
