"""The HTTP API: what is, and what may be asked for. Every acting route records who and why."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from controller.execution.runner import RunnerError
from controller.process import Controller
from controller.rig.quantities import QuantityError
from dashboards.access import Problem, identify, require
from dashboards.auth import COOKIE, Auth, Role, User
from dashboards.views import alarm_view, ledger_view, rig_view, run_view, state_view
from protocols.parameters import ParamError
from protocols.registry import UnknownProtocol

MOST_POINTS = 5000
MONTH_S = 32 * 86_400.0

Viewer = Annotated[User, Depends(require(Role.VIEWER))]
Operator = Annotated[User, Depends(require(Role.OPERATOR))]
Engineer = Annotated[User, Depends(require(Role.ENGINEER))]


async def the_controller(request: Request) -> Controller:
    """The controller behind this page."""
    found: Controller = request.app.state.controller
    return found


Rig = Annotated[Controller, Depends(the_controller)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Start(_Body):
    """Start a protocol; each parameter is text with its unit, such as `{"batch": "18 mL"}`."""

    protocol: str = Field(max_length=100)
    params: dict[str, str] = Field(default_factory=dict, max_length=50)
    reason: str = Field(default="", max_length=1000)


class Why(_Body):
    """The reason for an action, for the record."""

    reason: str = Field(default="", max_length=1000)


class Speed(_Body):
    """Times life."""

    speed: float = Field(ge=1, le=600)


open_routes = APIRouter()
routes = APIRouter(prefix="/api")


@open_routes.get("/health")
async def health(rig: Rig) -> JSONResponse:
    """200 while the control loop ticks, 503 when it does not (D6). The only question that needs no credential."""
    found = rig.health()
    body = {"ok": found.ok, "reasons": list(found.reasons)}
    return JSONResponse(body, status_code=200 if found.ok else 503)


@routes.post("/session")
async def session(request: Request, response: Response) -> dict[str, str]:
    """Exchange a bearer token for a browser's session cookie."""
    user = identify(request)
    if user is None:
        raise Problem(
            401, "this token is not known", cause="it is from an earlier start", action="open the link printed last"
        )
    auth: Auth = request.app.state.auth
    response.set_cookie(COOKIE, auth.open_session(user), httponly=True, samesite="strict")
    return {"name": user.name, "role": user.role.name.lower()}


@routes.get("/rig")
async def rig_description(rig: Rig, user: Viewer) -> dict[str, Any]:
    """The rig and what the schematic is drawn from."""
    return rig_view(rig) | {"user": user.name, "role": user.role.name.lower()}


@routes.get("/state")
async def state(rig: Rig, _: Viewer) -> dict[str, Any]:
    """The latest snapshot."""
    return state_view(rig.store.state)


@routes.get("/history")
async def history(
    rig: Rig,
    _: Viewer,
    point: Annotated[str, Query(max_length=100)],
    seconds: Annotated[float, Query(gt=0, le=MONTH_S)] = 3600.0,
    max_points: Annotated[int, Query(ge=2, le=MOST_POINTS)] = 600,
) -> dict[str, Any]:
    """One series of the last `seconds` of rig time: `[at (UTC, s since 1970), mean, least, most]` rows."""
    series = rig.history.series()
    if point not in series:
        raise Problem(
            404, f"no history of “{point}”", cause="a slip, or it was never read", action=f"one of {', '.join(sorted(series))}"
        )
    end = rig.clock.utc().timestamp()
    rows = rig.history.query(point, end - seconds, end + 1, max_points)
    return {"point": point, "unit": series[point], "rows": [[row.at, row.mean, row.least, row.most] for row in rows]}


@routes.get("/protocols")
async def protocols(rig: Rig, _: Viewer) -> dict[str, Any]:
    """The protocols there are, with parameters, units and ranges."""
    return {
        "protocols": [
            {
                "name": recipe.name,
                "title": recipe.title,
                "params": [
                    {
                        "name": param.name,
                        "unit": param.unit,
                        "default": param.default,
                        "low": param.low,
                        "high": param.high,
                        "help": param.help,
                    }
                    for param in recipe.params
                ],
            }
            for recipe in rig.runs.catalogue.values()
        ]
    }


@routes.get("/runs")
async def runs(rig: Rig, _: Viewer) -> dict[str, Any]:
    """Every run since the start and the unfinished ones from before, oldest first."""
    return {"runs": [run_view(run, steps=20) for run in rig.runs.list()]}


@routes.get("/runs/{run_id}")
async def run(rig: Rig, _: Viewer, run_id: str) -> dict[str, Any]:
    """One run with its steps."""
    return run_view(rig.runs.get(run_id))


@routes.post("/runs", status_code=201)
async def start(rig: Rig, user: Operator, body: Start) -> dict[str, Any]:
    """Start a protocol."""
    run_id = await rig.runs.start(body.protocol, body.params, user=user.name, reason=body.reason)
    return run_view(rig.runs.get(run_id))


@routes.post("/runs/{run_id}/pause")
async def pause(rig: Rig, user: Operator, run_id: str, body: Why) -> dict[str, Any]:
    """Bring what the run moves to rest and hold it."""
    await rig.runs.pause(run_id, user.name, body.reason)
    return run_view(rig.runs.get(run_id))


@routes.post("/runs/{run_id}/resume")
async def resume(rig: Rig, user: Operator, run_id: str, body: Why) -> dict[str, Any]:
    """Let a held run go on with what remains."""
    await rig.runs.resume(run_id, user.name, body.reason)
    return run_view(rig.runs.get(run_id))


@routes.post("/runs/{run_id}/abort")
async def abort(rig: Rig, user: Operator, run_id: str, body: Why) -> dict[str, Any]:
    """End the run for good."""
    await rig.runs.abort(run_id, user.name, body.reason)
    return run_view(rig.runs.get(run_id))


@routes.get("/alarms")
async def alarms(rig: Rig, _: Viewer) -> dict[str, Any]:
    """Every alarm that is not normal, the most urgent first."""
    return {"alarms": [alarm_view(alarm) for alarm in rig.alarms.active()]}


@routes.post("/alarms/{alarm_id}/acknowledge")
async def acknowledge(rig: Rig, user: Operator, alarm_id: str, body: Why) -> dict[str, Any]:
    """Say that somebody has seen it."""
    try:
        return alarm_view(rig.alarms.acknowledge(alarm_id, user.name))
    except KeyError:
        raise Problem(
            404, f"no alarm “{alarm_id}” is active", cause="it has gone already", action="look at the list again"
        ) from None


@routes.post("/estop")
async def estop(rig: Rig, user: Operator, body: Why) -> dict[str, Any]:
    """Stop everything but the basal circulation; it latches."""
    await rig.gate.estop(user.name, body.reason or "from the page")
    return {"emergency": rig.gate.emergency}


@routes.post("/estop/reset")
async def reset(rig: Rig, user: Operator, body: Why) -> dict[str, Any]:
    """End an emergency stop; the reason is required (I5)."""
    if not body.reason.strip():
        raise Problem(422, "a reset needs a reason", cause="it was left empty", action="say why it is safe again")
    rig.gate.reset(user.name, body.reason)
    return {"emergency": rig.gate.emergency}


@routes.get("/ledger")
async def ledger(rig: Rig, _: Viewer) -> dict[str, Any]:
    """Where the medium went (mL)."""
    return ledger_view(rig)


@routes.get("/grade")
async def grade(rig: Rig, _: Viewer) -> dict[str, Any]:
    """The last grade, with inputs, limits, reasons and the limiting variable."""
    return {"grade": rig.last_grade()}


@routes.get("/viability")
async def viability(rig: Rig, _: Viewer) -> dict[str, Any]:
    """The viability score with its parts: a care-quality proxy, not evidence of feeling."""
    return {"viability": rig.viability}


@routes.get("/audit")
async def audit(rig: Rig, _: Viewer, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> dict[str, Any]:
    """The journal's newest rows."""
    rows = rig.journal.entries(newest_first=True, limit=limit)
    return {
        "entries": [{"seq": row.seq, "utc": row.utc, "kind": row.kind, "run": row.run, "body": dict(row.body)} for row in rows]
    }


@routes.get("/speed")
async def speed(request: Request, _: Viewer) -> dict[str, Any]:
    """How fast a simulated rig lives; a real one has no such control."""
    control = request.app.state.speed
    if control is None:
        raise Problem(404, "a real rig has no speed", cause="only simulated time can be hurried", action="be patient")
    return {"speed": control.speed}


@routes.put("/speed")
async def set_speed(request: Request, _: Operator, body: Speed) -> dict[str, Any]:
    """Hurry or slow a simulated rig."""
    control = request.app.state.speed
    if control is None:
        raise Problem(404, "a real rig has no speed", cause="only simulated time can be hurried", action="be patient")
    control.set_speed(body.speed)
    return {"speed": control.speed}


PROBLEMS: dict[type[Exception], int] = {RunnerError: 409, UnknownProtocol: 404, ParamError: 422, QuantityError: 422}
"""What the layers below raise in words of their own, as answers."""
