"""Agents of the electrode engine."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasPath, BaseModel, Field

from dashboards.models.base import Projection, RequestBody


class AgentInvite(RequestBody):
    """A new agent. Without `electrodes` it may stimulate all, without a budget as much as the envelope allows."""

    name: str = Field(min_length=1, max_length=60)
    role: Literal["reader", "agent", "auditor"] = "agent"
    electrodes: list[int] | None = Field(default=None, max_length=65_536)
    nc_s: float | None = Field(default=None, gt=0.0)
    pulses_min: float | None = Field(default=None, gt=0.0)
    reason: str = Field(default="", max_length=1000)


class AgentToken(BaseModel):
    """The only time that an agent's token is shown."""

    name: str
    role: str
    token: str


class AgentModel(Projection):
    """An agent; `revoked_utc` is empty while its token is valid."""

    name: str
    role: str
    issued_utc: str
    revoked_utc: str
    electrodes: list[int] | None
    nc_s: float | None = Field(validation_alias=AliasPath("budget", "nc_s"))
    pulses_min: float | None = Field(validation_alias=AliasPath("budget", "pulses_min"))


class AgentsModel(BaseModel):
    """Every agent, the revoked too: their names stay in the stimulation ledger."""

    agents: list[AgentModel]
