"""Protocols and runs."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from dashboards.models.base import RequestBody


class Start(RequestBody):
    """Start a protocol; each parameter is text with its unit, such as `{"batch": "18 mL"}`."""

    protocol: str = Field(max_length=100)
    params: dict[str, str] = Field(default_factory=dict, max_length=50)
    reason: str = Field(default="", max_length=1000)


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
