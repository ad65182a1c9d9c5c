"""Faults that users inject and clear in a simulated laboratory: only in the demo, which has no real device."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from dashboards.access import ApiProblem, Controlled, Operator, Viewer
from dashboards.models.faults import FaultsView, MakeFault
from dashboards.simulated import FaultsControl

simulated_routes = APIRouter(prefix="/api")


@simulated_routes.get("/faults", response_model=FaultsView)
async def faults(request: Request, _: Viewer) -> dict[str, Any]:
    """Return the kinds of faults, their targets, and the present faults."""
    control: FaultsControl = request.app.state.faults
    return {"kinds": control.kinds(), "lasting": control.lasting()}


@simulated_routes.post("/faults", response_model=FaultsView)
async def make(request: Request, rig: Controlled, user: Operator, body: MakeFault) -> dict[str, Any]:
    """Inject a fault now."""
    control: FaultsControl = request.app.state.faults
    try:
        control.make(body.kind, body.target, body.for_s)
    except ValueError as error:
        raise ApiProblem(
            422,
            str(error),
            where="the fault",
            cause="a slip in its kind or target",
            action="choose among GET /api/faults",
        ) from None
    row = {"user": user.name, "fault": body.kind, "on": body.target, "for_s": body.for_s, "reason": body.reason}
    rig.journal.append("fault.made", row)
    return {"kinds": control.kinds(), "lasting": control.lasting()}


@simulated_routes.delete("/faults/{number}", response_model=FaultsView)
async def end(request: Request, rig: Controlled, user: Operator, number: int) -> dict[str, Any]:
    """End a fault; its effects until now remain."""
    control: FaultsControl = request.app.state.faults
    try:
        what = control.end(number)
    except KeyError:
        raise ApiProblem(
            404,
            f"no fault has number {number}",
            where="the fault's number",
            cause="it is over",
            action="look at the list again",
        ) from None
    rig.journal.append("fault.ended", {"user": user.name, "fault": what})
    return {"kinds": control.kinds(), "lasting": control.lasting()}
