"""Find the user of a request, and check the user's role."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from controller.process.controller import Controller
from dashboards.auth import Auth, Role, User

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class ApiProblem(Exception):
    """Answer with an error: what happened, where, the likely cause, the next action."""

    def __init__(self, status: int, what: str, *, cause: str, action: str, where: str = "") -> None:
        super().__init__(what)
        self.status = status
        self.what = what
        self.where = where
        self.cause = cause
        self.action = action

    def body(self) -> dict[str, dict[str, str]]:
        """Return the error as JSON."""
        return {"error": {"what": self.what, "where": self.where, "cause": self.cause, "action": self.action}}


def cookie_name(connection: HTTPConnection) -> str:
    """Return the name of the session cookie.

    Cookies ignore ports, so the name contains the port: two rigs on one machine stay apart.
    """
    return f"choroid_session_{connection.url.port or 80}"


def bearer(connection: HTTPConnection) -> str:
    """Return the bearer token of a request, or nothing."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def identify(connection: HTTPConnection) -> User | None:
    """Return the user of a request: by bearer token, else by session cookie."""
    auth: Auth = connection.app.state.auth
    token = bearer(connection)
    if token:
        return auth.by_token(token)
    controller: Controller = connection.app.state.controller
    return auth.by_session(connection.cookies.get(cookie_name(connection), ""), controller.clock.utc())


def unknown_caller() -> ApiProblem:
    """Return the error for a request without a known user."""
    return ApiProblem(
        401,
        "this request has no known user",
        where="the API",
        cause="it carries neither a session cookie nor a bearer token, or one that is not known here",
        action="open the link that `choroid run` printed, or send “Authorization: Bearer …”",
    )


def require(role: Role) -> Callable[[Request], Awaitable[User]]:
    """Return a dependency: the user of this request, who must have at least `role`."""

    async def check(request: Request) -> User:
        user = identify(request)
        if user is None:
            raise unknown_caller()
        by_cookie = not bearer(request)
        if by_cookie and request.method not in SAFE_METHODS and "origin" not in request.headers:
            # A browser says where an acting request comes from, and the request filter has checked that. A request
            # without it does not come from a browser.
            raise ApiProblem(
                403,
                "an acting request by cookie must say where it comes from",
                where="the API",
                cause="it has no Origin header, so it is not from this page",
                action="use the page, or a bearer token",
            )
        if user.role < role:
            raise ApiProblem(
                403,
                f"a {user.role.word} may not do this",
                where=f"{request.method} {request.url.path}",
                cause=f"it takes the role {role.word}",
                action=f"ask a user with the role {role.word}, or sign in with their token",
            )
        return user

    return check


async def the_controller(request: Request) -> Controller:
    """Return the controller of this page, once it has started."""
    found: Controller = request.app.state.controller
    if not found.started:
        raise ApiProblem(
            503,
            "the controller is starting",
            where="the controller",
            cause="it is still connecting to the devices",
            action="wait a few seconds",
        )
    return found


Viewer = Annotated[User, Depends(require(Role.VIEWER))]
Operator = Annotated[User, Depends(require(Role.OPERATOR))]
Engineer = Annotated[User, Depends(require(Role.ENGINEER))]
Controlled = Annotated[Controller, Depends(the_controller)]
