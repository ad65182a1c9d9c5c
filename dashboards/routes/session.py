"""Sign-in, health, and the speed of a simulated rig."""

from __future__ import annotations

import logging

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from controller.journal.terms import JournalUnwritten
from controller.process.controller import Controller
from dashboards.access import ApiProblem, Controlled, Operator, Viewer, bearer, cookie_name, unknown_caller
from dashboards.auth import SESSION_AGE, Auth
from dashboards.health import body
from dashboards.models.rig import HealthView, SetSpeed, SpeedModel
from dashboards.models.users import Session
from dashboards.simulated import SpeedControl

logger = logging.getLogger(__name__)

open_routes = APIRouter()
routes = APIRouter(prefix="/api")
speed_routes = APIRouter(prefix="/api")


@open_routes.get("/health", response_model=HealthView, responses={503: {"model": HealthView}})
async def health(request: Request) -> JSONResponse:
    """Return 200 while the control loop ticks, 503 when it does not (D6). Only this request needs no credential."""
    controller: Controller = request.app.state.controller
    found = controller.health()
    return JSONResponse(body(found), status_code=200 if found.ok else 503)


@routes.post("/session", response_model=Session)
async def sign_in(request: Request, response: Response, rig: Controlled) -> dict[str, str]:
    """Exchange a bearer token for a browser's session cookie; a journal that cannot be written does not prevent it.

    A link's token is good for this alone, once.
    """
    auth: Auth = request.app.state.auth
    signed_in = auth.sign_in(bearer(request))
    if signed_in is None:
        raise unknown_caller(request)
    user, value = signed_in
    give_session(response, request, value)
    try:
        rig.journal.append("page.signed_in", {"user": user.name, "role": user.role.word})
    except JournalUnwritten as error:
        logger.warning("%s (%s) signed in, and no row tells of it: %s", user.name, user.role.word, error)
    return {"name": user.name, "role": user.role.word}


@routes.delete("/session", status_code=204)
async def sign_out(request: Request, response: Response, user: Viewer) -> None:
    """End the session of this browser."""
    auth: Auth = request.app.state.auth
    auth.close_session(request.cookies.get(cookie_name(request), ""))
    response.delete_cookie(cookie_name(request))


def give_session(response: Response, request: Request, value: str) -> None:
    """Set the session cookie on an answer: scripts cannot read it, and other sites cannot send it."""
    response.set_cookie(
        cookie_name(request),
        value,
        max_age=int(SESSION_AGE.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


@speed_routes.get("/speed", response_model=SpeedModel)
async def speed(request: Request, _: Viewer) -> dict[str, float]:
    """Return the speed of this simulated rig; a real rig has no such route."""
    control: SpeedControl = request.app.state.speed
    return {"speed": control.speed}


@speed_routes.put("/speed", response_model=SpeedModel)
async def set_speed(request: Request, rig: Controlled, user: Operator, body: SetSpeed) -> dict[str, float]:
    """Change the speed of this simulated rig."""
    control: SpeedControl = request.app.state.speed
    before = control.speed
    try:
        control.set_speed(body.speed)
    except ValueError as error:
        raise ApiProblem(
            422, str(error), where="speed", cause="the machine keeps up only so far", action="choose another speed"
        ) from None
    rig.journal.append("speed.set", {"user": user.name, "old": before, "new": control.speed, "reason": body.reason})
    request.app.state.feed.send_soon()
    return {"speed": control.speed}
