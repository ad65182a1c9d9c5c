"""Protocols and their runs. The runner records user and reason of each command."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from controller.process.controller import Controller
from controller.runs.views import RunView
from dashboards.access import ApiProblem, Controlled, Operator, Viewer
from dashboards.models.base import Why
from dashboards.models.runs import ProtocolsView, RunModel, RunsModel, Start

SHOWN_STEPS = 20

routes = APIRouter(prefix="/api")


def the_run(rig: Controller, run_id: str) -> str:
    """Return `run_id` if such a run exists."""
    known = [run.id for run in rig.runs.list()]
    if run_id not in known:
        raise ApiProblem(
            404,
            f"there is no run “{run_id}”",
            where="the run's id",
            cause="a slip, or it ended before the controller was restarted",
            action=f"choose among {', '.join(known)}" if known else "start one",
        )
    return run_id


@routes.get("/protocols", response_model=ProtocolsView)
async def protocols(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return the protocols with parameters, units and ranges."""
    return {"protocols": list(rig.runs.catalogue.values())}


@routes.get("/runs", response_model=RunsModel)
async def runs(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return every run since the start and the earlier unfinished ones, oldest first, with the latest steps."""
    return {"runs": [run.shortened(SHOWN_STEPS) for run in rig.runs.list()]}


@routes.get("/runs/{run_id}", response_model=RunModel)
async def run(rig: Controlled, _: Viewer, run_id: str) -> RunView:
    """Return one run with its steps."""
    return rig.runs.get(the_run(rig, run_id))


@routes.post("/runs", status_code=201, response_model=RunModel)
async def start(rig: Controlled, user: Operator, body: Start) -> RunView:
    """Start a protocol."""
    run_id = await rig.runs.start(body.protocol, body.params, user=user.name, reason=body.reason)
    return rig.runs.get(run_id)


@routes.post("/runs/{run_id}/pause", response_model=RunModel)
async def pause(rig: Controlled, user: Operator, run_id: str, body: Why) -> RunView:
    """Stop the transfers of a run in a safe way, and hold it."""
    await rig.runs.pause(the_run(rig, run_id), user.name, body.reason)
    return rig.runs.get(run_id)


@routes.post("/runs/{run_id}/resume", response_model=RunModel)
async def resume(rig: Controlled, user: Operator, run_id: str, body: Why) -> RunView:
    """Resume a held run with the remaining steps."""
    await rig.runs.resume(the_run(rig, run_id), user.name, body.reason)
    return rig.runs.get(run_id)


@routes.post("/runs/{run_id}/abort", response_model=RunModel)
async def abort(rig: Controlled, user: Operator, run_id: str, body: Why) -> RunView:
    """Abort a run."""
    await rig.runs.abort(the_run(rig, run_id), user.name, body.reason)
    return rig.runs.get(run_id)
