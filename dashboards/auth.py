"""Who may do what: roles, tokens and browser sessions.

Tokens are made anew at each start, from the system's randomness, and are kept in memory only: nothing to steal from a disk
but the endpoint file, which its owner alone can read. In the demo, where only simulated devices can be reached, opening
the page from this machine makes one its operator; a program without token or session is refused there too.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from enum import IntEnum

COOKIE = "choroid_session"


class Role(IntEnum):
    """Each may do what those before it may."""

    VIEWER = 1
    OPERATOR = 2
    ENGINEER = 3
    ADMIN = 4


@dataclass(frozen=True, slots=True)
class User:
    """Somebody with a role."""

    name: str
    role: Role


class Auth:
    """The credentials of one running page."""

    def __init__(self, *, demo: bool) -> None:
        self.demo = demo
        self._tokens: dict[str, User] = {}
        self._sessions: dict[str, User] = {}
        self._link_token = self.issue("page link", Role.ENGINEER)
        self._command_line_token = self.issue("command line", Role.OPERATOR)

    def issue(self, name: str, role: Role) -> str:
        """A new token for `name`."""
        token = secrets.token_urlsafe(32)
        self._tokens[token] = User(name, role)
        return token

    def link(self, host: str, port: int) -> str:
        """The address that lets a browser in: the token stands behind the #, which is never sent to a server."""
        return f"http://{host}:{port}/#token={self._link_token}"

    def command_line_token(self) -> str:
        """The token for `choroid protocol …` on this machine."""
        return self._command_line_token

    def by_token(self, token: str) -> User | None:
        """Who carries `token`; compared in constant time."""
        found = None
        for known, user in self._tokens.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                found = user
        return found

    def open_session(self, user: User) -> str:
        """A session cookie's value for `user`."""
        value = secrets.token_urlsafe(32)
        self._sessions[value] = user
        if len(self._sessions) > 1000:
            self._sessions.pop(next(iter(self._sessions)))
        return value

    def demo_session(self) -> str:
        """A session for whoever opens the demo's page on this machine."""
        return self.open_session(User("demo", Role.OPERATOR))

    def by_session(self, value: str) -> User | None:
        """Who has this session."""
        return self._sessions.get(value)
