"""The library of uploaded protocols: submit, review, release, withdraw. The library checks the role of each."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from controller.runs.library import ProtocolVersion
from dashboards.access import Controlled, Engineer, Operator, Viewer
from dashboards.models.base import Why
from dashboards.models.runs import GivenReview, LibraryModel, SubmittedText, VersionModel, VersionText
from dashboards.routes.answers import person

routes = APIRouter(prefix="/api/library")


@routes.get("", response_model=LibraryModel)
async def versions(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return every version, oldest first."""
    return {"versions": rig.library.versions()}


@routes.get("/{sha256}", response_model=VersionText)
async def text(rig: Controlled, _: Viewer, sha256: str) -> dict[str, Any]:
    """Return the text of a version, to be read before a review."""
    return {"text": rig.library.text(rig.library.version(sha256)).decode("utf-8", errors="replace")}


@routes.post("", status_code=201, response_model=VersionModel)
async def submit(rig: Controlled, user: Operator, body: SubmittedText) -> ProtocolVersion:
    """Submit a recipe or a Python protocol; nothing of it runs before a review."""
    return rig.library.submit(body.file, body.text.encode(), person(user), body.reason)


@routes.post("/{sha256}/review", response_model=VersionModel)
async def review(rig: Controlled, user: Engineer, sha256: str, body: GivenReview) -> ProtocolVersion:
    """Accept or reject a submitted version, as another person than the one who submitted it."""
    return rig.library.review(sha256, accept=body.accept, by=person(user), reason=body.reason)


@routes.post("/{sha256}/release", response_model=VersionModel)
async def release(rig: Controlled, user: Engineer, sha256: str, body: Why) -> ProtocolVersion:
    """Let a reviewed version start."""
    return await rig.library.release(sha256, person(user), body.reason)


@routes.post("/{sha256}/withdraw", response_model=VersionModel)
async def withdraw(rig: Controlled, user: Engineer, sha256: str, body: Why) -> ProtocolVersion:
    """Let a version start no more."""
    return rig.library.withdraw(sha256, person(user), body.reason)
