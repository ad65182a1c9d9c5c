"""The health that probes report of themselves."""

from __future__ import annotations

from pydantic import BaseModel


class ProbeFigure(BaseModel):
    """One figure of health, and the range in which the probe is fit for use; null as long as it is not known."""

    name: str
    meaning: str
    unit: str
    value: float | None
    low: float
    high: float
    sound: bool


class ProbeModel(BaseModel):
    """What a probe last reported of itself: by point, when, and what is wrong with it (empty if nothing is)."""

    point: str
    at_utc: str | None
    problem: str
    figures: list[ProbeFigure]


class ProbesModel(BaseModel):
    """Each probe that reports its health."""

    probes: list[ProbeModel]
