"""The tissue record: what lives in each chamber, its history, and what people put in, move and take out."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from controller.rig.quantities import parse_quantity
from dashboards.access import ApiProblem, Controlled, Operator, Viewer
from dashboards.auth import Role, User
from dashboards.models.base import RequestBody

routes = APIRouter(prefix="/api/tissue")


class TissueChange(RequestBody):
    """Why, for the record; `sure` enters a change that the rig does not protect (role engineer)."""

    reason: str = Field(min_length=1, max_length=1000)
    sure: bool = False


class TissueMove(TissueChange):
    """The tissue of a chamber goes into another, empty one."""

    target: str = Field(min_length=1, max_length=40)


class TissuePlaced(TissueChange):
    """Tissue put into an empty chamber; `diameter` and `age` with their units."""

    count: int = Field(ge=1, le=10_000)
    diameter: str = Field(max_length=40)
    age: str = Field(max_length=40)
    batch: str = Field(default="", max_length=100)
    cell_line: str = Field(default="", max_length=100)


class TissueRemoved(TissueChange):
    """`count` organoids taken out of a chamber; all of them by default."""

    count: int | None = Field(default=None, ge=1, le=10_000)


class ChamberTissue(BaseModel):
    """One chamber: its tissue now (None without), and what people did with it, oldest first."""

    chamber: str
    tissue: dict[str, Any] | None
    history: list[dict[str, Any]]


class TissueModel(BaseModel):
    """The tissue of every chamber."""

    chambers: list[ChamberTissue]


@routes.get("", response_model=TissueModel)
async def tissue(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return the tissue of every chamber with its history."""
    return {"chambers": rig.tissue.record.to_json()}


@routes.post("/{chamber}/place", response_model=TissueModel)
async def place(rig: Controlled, user: Operator, chamber: str, body: TissuePlaced) -> dict[str, Any]:
    """Record tissue that was put into an empty chamber."""
    _require_engineer(user, body)
    rig.tissue.place(
        chamber,
        count=body.count,
        diameter_mm=parse_quantity(body.diameter, "mm"),
        age_d=parse_quantity(body.age, "day"),
        batch=body.batch,
        cell_line=body.cell_line,
        user=user.name,
        role=user.role.word,
        reason=body.reason,
        sure=body.sure,
    )
    return {"chambers": rig.tissue.record.to_json()}


@routes.post("/{chamber}/move", response_model=TissueModel)
async def move(rig: Controlled, user: Operator, chamber: str, body: TissueMove) -> dict[str, Any]:
    """Record that the tissue of a chamber was moved into another one; it keeps its identity and its age."""
    _require_engineer(user, body)
    rig.tissue.move(chamber, body.target, user=user.name, role=user.role.word, reason=body.reason, sure=body.sure)
    return {"chambers": rig.tissue.record.to_json()}


@routes.post("/{chamber}/remove", response_model=TissueModel)
async def remove(rig: Controlled, user: Operator, chamber: str, body: TissueRemoved) -> dict[str, Any]:
    """Record that tissue was taken out of a chamber."""
    rig.tissue.remove(chamber, user=user.name, role=user.role.word, reason=body.reason, count=body.count)
    return {"chambers": rig.tissue.record.to_json()}


def _require_engineer(user: User, body: TissueChange) -> None:
    if body.sure and user.role < Role.ENGINEER:
        raise ApiProblem(
            403,
            f"{user.name} may not enter tissue in a chamber that the rig does not protect",
            where="sure",
            cause="it takes the role engineer",
            action="ask a person with that role, or choose another chamber",
        )
