"""Faults that are made by hand in the demo."""

from __future__ import annotations

from pydantic import BaseModel, Field

from dashboards.models.base import RequestBody


class MakeFault(RequestBody):
    """Inject a fault into a simulated lab, for `for_s` seconds of its time (0: until it is removed)."""

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
    """One fault; `left_s` is how long it still lasts, None until it is removed."""

    number: int
    kind: str
    target: str
    meaning: str
    left_s: float | None


class FaultsView(BaseModel):
    """What can go wrong, and what is wrong now."""

    kinds: list[FaultKind]
    lasting: list[LastingFault]
