"""Recordings of the electrode array: anyone lists them, an operator begins and ends them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from dashboards.access import ApiProblem, Controlled, Operator, Viewer
from dashboards.models.base import Why
from dashboards.models.recordings import RecordingsModel, RecordingStart, RecordingStatusModel
from nerves.recording.access import RecordingAccess

routes = APIRouter(prefix="/api")


async def _access(request: Request) -> RecordingAccess:
    access: RecordingAccess | None = request.app.state.recordings
    if access is None:
        raise ApiProblem(
            404,
            "this rig has no electrode engine",
            where="the rig file",
            cause="it has no part `nerves:`, or its array has no driver",
            action="add an electrode array to the rig file",
        )
    return access


Recordings = Annotated[RecordingAccess, Depends(_access)]


@routes.get("/recordings", response_model=RecordingsModel)
async def recordings(_: Viewer, access: Recordings) -> dict[str, Any]:
    """Return every recording and what is recorded now."""
    found = await asyncio.to_thread(access.every)
    plan = access.plan
    return {
        "recordings": found,
        "status": await access.status(),
        "folder": "" if plan is None else plan.folder,
        "automatic": "never" if plan is None else plan.automatic,
        "quota_gb": 0.0 if plan is None else plan.quota_bytes / 1e9,
        "used_gb": sum(entry.bytes for entry in found) / 1e9,
    }


@routes.post("/recordings", response_model=RecordingStatusModel, status_code=201)
async def start(rig: Controlled, user: Operator, access: Recordings, body: RecordingStart) -> dict[str, Any]:
    """Begin a recording."""
    status = await access.start(body.name, user.name, body.reason)
    rig.journal.append("recording.started", {"user": user.name, "name": status["name"], "reason": body.reason})
    return status


@routes.post("/recordings/stop", response_model=RecordingStatusModel)
async def stop(rig: Controlled, user: Operator, access: Recordings, body: Why) -> dict[str, Any]:
    """End the recording; its file is complete when this answers."""
    status = await access.stop(f"{user.name}: {body.reason}" if body.reason else f"ended by {user.name}")
    rig.journal.append("recording.stopped", {"user": user.name, "last": status["last"], "reason": body.reason})
    return status
