"""Find the user of a request, and check the user's role."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from controller.process.controller import Controller
from dashboards.admission import AdmittedConnection
from dashboards.auth import Auth, Role, User
from dashboards.sign_ins import FailedSignIns, source_of

CONNECTION = "connection"
"""Key of the connection (:class:`dashboards.admission.AdmittedConnection`) in the state of a request."""
UNKNOWN = "this request has no known user"
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
    """Return the user of a request: by bearer token, else by local socket, else by session cookie."""
    auth: Auth = connection.app.state.auth
    token = bearer(connection)
    if token:
        return auth.by_token(token)
    local = local_person(connection)
    if local is not None:
        return local
    return auth.by_session(connection.cookies.get(cookie_name(connection), ""))


def local_person(connection: HTTPConnection) -> User | None:
    """Return the user of this machine who sends a request through the local socket."""
    admitted: AdmittedConnection | None = connection.scope.get("state", {}).get(CONNECTION)
    return None if admitted is None else admitted.person


def signs_in(connection: HTTPConnection) -> bool:
    """Return whether a request carries the ticket of the page link, with which one may sign in."""
    auth: Auth = connection.app.state.auth
    return auth.is_ticket(bearer(connection))


def client_source(connection: HTTPConnection) -> str:
    """Return the source for which limits and counts take the client of a request."""
    return source_of(connection.client.host if connection.client is not None else "")


def unknown_caller(connection: HTTPConnection, wrong: str = "") -> ApiProblem:
    """Return the error for a request without a known user; one with a credential counts as a failed sign-in.

    Args:
        connection: The request.
        wrong: What is wrong with a name and a password; empty where the request has none.
    """
    if wrong or bearer(connection) or cookie_name(connection) in connection.cookies:
        failures: FailedSignIns = connection.app.state.failures
        failures.add(client_source(connection))
    if wrong:
        return ApiProblem(
            401,
            wrong,
            where="the sign-in",
            cause="a slip, or the password has ended or was revoked",
            action="write both again, or sign in with a token and set a new password",
        )
    return ApiProblem(
        401,
        UNKNOWN,
        where="the API",
        cause="it carries neither a session cookie nor a bearer token, or one that is unknown, revoked or expired",
        action="sign in with a token; `choroid user add NAME` on the controller's machine makes one",
    )


def require(role: Role) -> Callable[[Request], Awaitable[User]]:
    """Return a dependency: the user of this request, who must have at least `role`."""

    async def check(request: Request) -> User:
        user = identify(request)
        if user is None:
            raise unknown_caller(request)
        by_cookie = not bearer(request) and local_person(request) is None
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
