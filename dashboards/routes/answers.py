"""Answers to the questions of runs: values, uploads, decisions; and the uploads themselves."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse

from controller.process.controller import Controller
from controller.runs.people import Person
from controller.runs.views import RunView
from dashboards.access import ApiProblem, Controlled, Operator, Viewer
from dashboards.auth import User
from dashboards.models.runs import AttachmentsModel, GivenAnswer, GivenDecision, RunModel
from dashboards.routes.runs import the_run
from protocols.answers import UPLOADED

INLINE = frozenset(("image/jpeg", "image/png", "image/webp"))
"""Media types that the page shows; anything else is only downloaded."""

routes = APIRouter(prefix="/api")


def person(user: User) -> Person:
    """Return the user as the runner knows people."""
    return Person(user.name, user.role.word)


@routes.post("/runs/{run_id}/answer", response_model=RunModel)
async def answer(rig: Controlled, user: Operator, run_id: str, body: GivenAnswer) -> RunView:
    """Answer the open question of a held run; the run goes on if nothing else holds it."""
    await rig.runs.answer(
        the_run(rig, run_id), body.answer, person(user), body.reason, step=body.step, taken=body.taken, sure=body.sure
    )
    return rig.runs.get(run_id)


@routes.post("/runs/{run_id}/decision", response_model=RunModel)
async def decide(rig: Controlled, user: Operator, run_id: str, body: GivenDecision) -> RunView:
    """Approve or reject what a held run asks for; the run tells which role it takes."""
    await rig.runs.answer(the_run(rig, run_id), body.approve, person(user), body.reason, step=body.step)
    return rig.runs.get(run_id)


@routes.post(
    "/runs/{run_id}/upload",
    response_model=RunModel,
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {}}}},
)
async def upload(
    rig: Controlled,
    user: Operator,
    run_id: str,
    request: Request,
    name: Annotated[str, Query(max_length=500)],
    step: int | None = None,
    reason: Annotated[str, Query(max_length=1000)] = "",
) -> RunView:
    """Answer the open question with a photo or a file: the request's body is its content."""
    question = rig.runs.get(the_run(rig, run_id)).question
    form = None if question is None else question.answer
    if form is None or form.kind not in UPLOADED:
        raise ApiProblem(
            409,
            f"run {run_id} asks for no photo or file",
            where=f"POST {request.url.path}",
            cause="the question was answered meanwhile",
            action="read the present question",
        )
    kept = await rig.attachments.take(form, await request.body(), name)
    await rig.runs.answer(run_id, kept, person(user), reason, step=step)
    return rig.runs.get(run_id)


@routes.get("/attachments", response_model=AttachmentsModel)
async def attachments(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return the uploads, oldest first."""
    return {"attachments": list(rig.attachments.manifest())}


@routes.get("/attachments/{sha256}", response_class=FileResponse)
async def attachment(rig: Controlled, _: Viewer, sha256: str) -> FileResponse:
    """Return the content of one upload."""
    return _content(rig, sha256)


def _content(rig: Controller, sha256: str) -> FileResponse:
    path, found = rig.attachments.path(sha256), rig.attachments.find(sha256)
    if path is None or found is None:
        raise ApiProblem(
            404,
            "there is no such upload",
            where="the sha256",
            cause="a slip, or the file was moved out of the data folder",
            action="see GET /api/attachments",
        )
    disposition = "inline" if found.media_type in INLINE else "attachment"
    return FileResponse(path, media_type=found.media_type, filename=found.name, content_disposition_type=disposition)
