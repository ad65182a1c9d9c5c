"""Sign-in, health, and the speed of a simulated rig."""

from __future__ import annotations

import logging

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from controller.journal.terms import JournalUnwritten
from controller.process.controller import Controller
from controller.runs.people import is_shared
from dashboards.access import (
    ApiProblem,
    Controlled,
    Operator,
    Viewer,
    bearer,
    client_source,
    cookie_name,
    identify,
    unknown_caller,
)
from dashboards.auth import SESSION_AGE, Auth, OpenSession, User
from dashboards.health import body
from dashboards.models.rig import HealthView, SetSpeed, SpeedModel
from dashboards.models.users import NewPassword, OwnAccount, PasswordSignIn, Session, SessionModel
from dashboards.passwords import TooManyAttempts, require_strong
from dashboards.simulated import SpeedControl

logger = logging.getLogger(__name__)

MAX_DEVICE = 200
"""Maximum number of characters that are kept of what a browser says of itself."""

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
    return _signed_in(request, response, rig, auth.sign_in(bearer(request), **_client(request)))


@routes.post("/session/password", response_model=Session)
async def sign_in_with_password(
    request: Request, response: Response, rig: Controlled, body: PasswordSignIn
) -> dict[str, str]:
    """Exchange a name and a password for a browser's session cookie."""
    auth: Auth = request.app.state.auth
    try:
        signed_in = await auth.sign_in_with_password(body.name, body.password, **_client(request))
    except TooManyAttempts:
        request.app.state.failures.add(client_source(request))
        raise _too_many() from None
    return _signed_in(request, response, rig, signed_in, "the name or the password is not right")


@routes.put("/session/password", status_code=204)
async def set_password(request: Request, rig: Controlled, user: Viewer, body: NewPassword) -> None:
    """Set one's own password; other sessions that the former one opened end. It ends with one's access."""
    auth: Auth = request.app.state.auth
    if is_shared(user.name):
        raise ApiProblem(
            409,
            f"the account “{user.name}” has no password",
            where="the account",
            cause="several people may act under this name",
            action="use an account of your own; `choroid user add NAME` makes one",
        )
    require_strong(body.password, user.name)
    former = auth.password_of(user.name)
    try:
        if former is not None and not await auth.passwords.matches(
            body.current, former.hashed, name=user.name, address=client_source(request)
        ):
            raise ApiProblem(
                409,
                "the present password is not right",
                where="the present password",
                cause="a slip, or it was changed",
                action="write it again; an admin can revoke it, and then a token sets a new one",
            )
        hashed = await auth.passwords.hashed(body.password)
    except TooManyAttempts:
        raise _too_many() from None
    if identify(request) != user:  # revoked meanwhile
        raise unknown_caller(request)
    secret = bearer(request) or request.cookies.get(cookie_name(request), "")
    given = auth.set_password(user, hashed, secret=secret)
    await auth.kept(f"the new password of {user.name} holds until this controller is restarted, and no longer")
    rig.journal.append("users.password_set", {"user": user.name, "id": given.id, "until_utc": given.until.isoformat()})


@routes.get("/session", response_model=OwnAccount)
async def own_account(request: Request, user: Viewer) -> OwnAccount:
    """Return who one is, and one's open sessions."""
    auth: Auth = request.app.state.auth
    password = auth.password_of(user.name)
    return OwnAccount(
        name=user.name,
        role=user.role.word,
        shared=is_shared(user.name),
        session=auth.session_id(request.cookies.get(cookie_name(request), "")),
        password_until_utc=password and password.until.isoformat(),
        sessions=[session_model(each) for each in auth.sessions(user.name)],
    )


@routes.delete("/session/{session_id}", status_code=204)
async def end_session(request: Request, user: Viewer, session_id: str) -> None:
    """End one of one's own sessions, such as that of a lost tablet."""
    auth: Auth = request.app.state.auth
    if auth.session_id(request.cookies.get(cookie_name(request), "")) != session_id:
        if auth.revoke_session(session_id, user.name) is None:
            raise ApiProblem(
                404,
                f"you have no session “{session_id[:100]}”",
                where="the session's id",
                cause="a slip, or it has ended",
                action="see GET /api/session",
            )
        await auth.kept(f"the session {session_id} is kept out until this controller is restarted, and no longer")
        return
    auth.close_session(request.cookies.get(cookie_name(request), ""))


def session_model(session: OpenSession) -> SessionModel:
    """Return a session as the API shows it."""
    return SessionModel(
        id=session.id,
        name=session.user.name,
        role=session.user.role.word,
        until_utc=session.until.isoformat(),
        opened_utc=session.opened and session.opened.isoformat(),
        used_utc=session.used and session.used.isoformat(),
        opened_with=session.token,
        device=session.device,
        source=session.source,
    )


def device_of(request: Request) -> str:
    """Return what a browser says of itself, for the list of sessions."""
    return "".join(letter for letter in request.headers.get("user-agent", "") if letter.isprintable())[:MAX_DEVICE]


def _client(request: Request) -> dict[str, str]:
    return {"device": device_of(request), "source": client_source(request)}


def _too_many() -> ApiProblem:
    return ApiProblem(
        429,
        "too many passwords were tried; this one was not looked at",
        where="the sign-in",
        cause="several wrong passwords from here or for this account",
        action="wait a minute, or sign in with a token",
    )


def _signed_in(
    request: Request, response: Response, rig: Controller, signed_in: tuple[User, str] | None, wrong: str = ""
) -> dict[str, str]:
    """Give the cookie and record it; a journal that cannot be written does not prevent it."""
    if signed_in is None:
        raise unknown_caller(request, wrong)
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
