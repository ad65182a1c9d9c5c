"""Agents of the electrode engine: an admin issues, renews and revokes their credentials."""

from __future__ import annotations

import logging
import math
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from controller.journal.terms import JournalUnwritten
from controller.process.controller import Controller
from dashboards.access import ApiProblem, Controlled, require
from dashboards.auth import Role, User
from dashboards.models.agents import AgentInvite, AgentsModel, AgentToken
from dashboards.models.base import Why
from nerves.access import AgentAccess
from nerves.credentials import AgentRole
from nerves.envelope import AgentBudget

logger = logging.getLogger(__name__)

routes = APIRouter(prefix="/api")

Admin = Annotated[User, Depends(require(Role.ADMIN))]


def _access(request: Request) -> AgentAccess:
    access: AgentAccess | None = request.app.state.agents
    if access is None:
        raise ApiProblem(
            404,
            "this rig has no electrode engine",
            where="the rig file",
            cause="it has no part `nerves:`, or its array has no driver",
            action="add an electrode array to the rig file",
        )
    return access


Agents = Annotated[AgentAccess, Depends(_access)]


@routes.get("/agents", response_model=AgentsModel)
async def agents(_: Admin, access: Agents) -> dict[str, Any]:
    """Return every agent, the revoked too, with its role; never a secret."""
    return {"agents": list(access.every())}


@routes.post("/agents", response_model=AgentToken, status_code=201)
async def issue(rig: Controlled, admin: Admin, access: Agents, body: AgentInvite) -> dict[str, str]:
    """Add an agent. Its token is shown only in this answer."""
    budget = AgentBudget(body.nc_s or math.inf, body.pulses_min or math.inf)
    electrodes = None if body.electrodes is None else tuple(body.electrodes)
    token = await access.issue(body.name, AgentRole(body.role), electrodes, budget)
    await _record(access, rig, "issued", admin, body.name, body.reason)
    return {"name": body.name, "role": body.role, "token": token}


@routes.post("/agents/{name}/renew", response_model=AgentToken)
async def renew(rig: Controlled, admin: Admin, access: Agents, name: str, body: Why) -> dict[str, str]:
    """Replace an agent's token; the old one and its leases end at once. The new one is shown only in this answer."""
    token = await access.renew(name)
    await _record(access, rig, "renewed", admin, name, body.reason)
    role = next(each.role for each in access.every() if each.name == name)
    return {"name": name, "role": role, "token": token}


@routes.post("/agents/{name}/revoke", response_model=AgentsModel)
async def revoke(rig: Controlled, admin: Admin, access: Agents, name: str, body: Why) -> dict[str, Any]:
    """Revoke an agent's token; its leases and waiting pulses end at once."""
    await access.revoke(name)
    try:
        rig.journal.append("agents.revoked", {"user": admin.name, "name": name, "reason": body.reason})
    except JournalUnwritten as error:
        logger.warning("%s revoked the agent %s, and no row tells of it: %s", admin.name, name, error)
    return {"agents": list(access.every())}


async def _record(access: AgentAccess, rig: Controller, what: str, admin: User, name: str, reason: str) -> None:
    """Write the row of a token; without it the token is revoked: no access without a record."""
    try:
        rig.journal.append(f"agents.{what}", {"user": admin.name, "name": name, "reason": reason})
        await rig.journal.commit()
    except JournalUnwritten:
        await access.revoke(name)
        raise
