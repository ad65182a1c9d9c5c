"""The doorman: every request is somebody's, comes from this page, and was addressed to this host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from fastapi import Request, WebSocket
from starlette.requests import HTTPConnection

from dashboards.auth import COOKIE, Auth, Role, User

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


class Problem(Exception):
    """An answer that is not what was hoped for: what happened, the likely cause, the next action."""

    def __init__(self, status: int, what: str, *, cause: str, action: str) -> None:
        super().__init__(what)
        self.status = status
        self.what = what
        self.cause = cause
        self.action = action

    def body(self) -> dict[str, dict[str, str]]:
        """As JSON."""
        return {"error": {"what": self.what, "cause": self.cause, "action": self.action}}


def identify(connection: HTTPConnection) -> User | None:
    """Whose request this is: by bearer token, else by session cookie."""
    auth: Auth = connection.app.state.auth
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return auth.by_token(token.strip())
    cookie = connection.cookies.get(COOKIE)
    return auth.by_session(cookie) if cookie else None


def foreign(connection: HTTPConnection) -> str | None:
    """Why a request does not come from this page or was not meant for this host (DNS rebinding, CSRF); None when fine."""
    hosts: frozenset[str] = connection.app.state.hosts
    host = urlsplit(f"//{connection.headers.get('host', '')}").hostname or ""
    if host not in hosts:
        return f"the host “{host}” is not this page's"
    origin = connection.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != connection.headers.get("host"):
        return f"the request comes from another page, {origin}"
    return None


def require(role: Role) -> Callable[[Request], Awaitable[User]]:
    """A dependency: the user of this request, who must have at least `role`."""

    async def check(request: Request) -> User:
        user = identify(request)
        if user is None:
            raise Problem(
                401,
                "who are you?",
                cause="the request carries neither a session cookie nor a bearer token, or one that is not known",
                action="open the link that `choroid run` printed, or send “Authorization: Bearer …”",
            )
        if user.role < role:
            raise Problem(
                403,
                f"a {user.role.name.lower()} may not do this",
                cause=f"it takes the role {role.name.lower()}",
                action=f"ask somebody who is {role.name.lower()}",
            )
        return user

    return check


async def admit(socket: WebSocket) -> User | None:
    """Accept a WebSocket of a known user; close it with a reason otherwise."""
    wrong = foreign(socket)
    user = None if wrong else identify(socket)
    if user is not None:
        await socket.accept()
        return user
    await socket.accept()
    await socket.send_json(
        Problem(
            401,
            wrong or "who are you?",
            cause="the connection carries no session cookie or bearer token that is known here",
            action="open the page first, or send “Authorization: Bearer …”",
        ).body()
    )
    await socket.close(code=4403 if wrong else 4401)
    return None

