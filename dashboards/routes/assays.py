"""Off-line assays, and the estimate of the medium between them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from dashboards.access import Controlled, Operator, Viewer
from dashboards.models.books import AssaysModel, AssayTaken, EnterAssay, MediumModel

routes = APIRouter(prefix="/api")


@routes.get("/medium", response_model=MediumModel)
async def medium(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return the present estimate, with bounds."""
    return rig.assays.medium()


@routes.get("/assays", response_model=AssaysModel)
async def assays(rig: Controlled, _: Viewer, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> dict[str, Any]:
    """Return the latest assays, used or not, newest first, and those that are requested and not entered yet."""
    return {"assays": rig.assays.recent(limit), "wanted": [each.to_json() for each in rig.runs.requests.open()]}


@routes.post("/assays", status_code=201, response_model=AssayTaken)
async def enter(rig: Controlled, user: Operator, body: EnterAssay) -> dict[str, Any]:
    """Enter an assay; it counts at the time when it was taken, and answers a run that waits for it.

    Answers 409 when it was entered before or was not used.
    """
    return rig.runs.enter_assay(
        body.analyte,
        body.value,
        vessel=body.vessel,
        taken=body.taken,
        sd=body.sd,
        volume=body.volume,
        method=body.method,
        zone=body.zone,
        sure=body.sure,
        user=user.name,
        reason=body.reason,
    )
