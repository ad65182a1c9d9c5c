"""Who may do what: roles, tokens, and browser sessions.

A token is 256 bits of the system's randomness, so its plain SHA-256 is kept and nothing slower is needed. Hashes of tokens
and sessions live in `credentials.json` in the data directory, readable by its owner alone; a plain token is shown once,
when it is made. In the demo, where nothing but simulated devices can be reached, opening the page from this machine makes
one its operator, and nothing is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
import os
import secrets
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from pathlib import Path
from typing import Any

from controller.core.disk import remedy
from controller.runs.people import COMMAND_LINE, FIRST_ADMIN, PAGE_LINK

logger = logging.getLogger(__name__)

FILE = "credentials.json"
VERSION = 1
SESSION_AGE = timedelta(days=30)
MAX_SESSIONS = 20
"""Maximum number of sessions of one user; a further one ends the oldest of this user, and of no other."""
LONGEST_SECRET = 200
"""Maximum number of characters; longer tokens are not hashed."""


class Role(IntEnum):
    """Each role includes the roles before it."""

    VIEWER = 1
    OPERATOR = 2
    ENGINEER = 3
    ADMIN = 4

    @property
    def word(self) -> str:
        """Return the name used in files and on the page."""
        return self.name.lower()


class CredentialsError(Exception):
    """The credentials cannot be used: what, where, likely cause, next action."""


class Unkept(Exception):
    """The credentials cannot be written: what of it holds, likely cause, next action."""


class LastAdmin(Exception):
    """This user is the only one who can issue and revoke tokens."""


@dataclass(frozen=True, slots=True)
class User:
    """A user with a role."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True)
class _Session:
    user: User
    until: datetime


class Auth:
    """The credentials of one rig's page, kept in `data_dir`; without one, and in the demo, in memory only."""

    def __init__(self, data_dir: Path | None = None, *, demo: bool, threaded: bool = False) -> None:
        """With `threaded`, a thread waits for the disk from now on, and the control loop does not (R2)."""
        self.demo = demo
        self._path = None if demo or data_dir is None else data_dir / FILE
        self._tokens: dict[str, User] = {}
        self._sessions: dict[str, _Session] = {}
        self._passing: dict[str, User] = {}
        self._tickets: set[str] = set()
        self._writer: ThreadPoolExecutor | None = None
        """One thread, so that the file gets the changes in their order."""
        self._written: Future[None] | None = None
        self.problem = ""
        """Reason why the credentials are in memory only, for people; empty when the file is written."""
        if demo:
            self._link = ""
        elif self._path is not None and os.path.lexists(self._path):
            self._link = self._restored(self._path)
        else:
            self._link = self._first_link()
        if threaded:
            self._writer = ThreadPoolExecutor(1, "credentials")

    # --- tokens -----------------------------------------------------------------------------------------

    def issue(self, name: str, role: Role) -> str:
        """A new token for `name`, which stays valid over restarts; shown now and never again.

        Raises :class:`Unkept` when it could not be kept; then there is none. With a thread, :meth:`kept` tells.
        """
        token = secrets.token_urlsafe(32)
        self._tokens[_hash(token)] = User(name, role)
        try:
            self._save()
        except OSError as error:
            del self._tokens[_hash(token)]
            raise self._unkept(f"no token was given to {name}", error) from error
        return token

    async def kept(self, what: str) -> None:
        """Wait until every change so far is in the file.

        Raises:
            Unkept: the last change could not be written; `what` says what holds then.
        """
        if self._written is None:
            return
        try:
            await asyncio.shield(asyncio.wrap_future(self._written))
        except OSError as error:
            raise self._unkept(what, error) from error

    def take_back(self, token: str) -> None:
        """Delete a token that :meth:`issue` has just made and that was not shown yet."""
        del self._tokens[_hash(token)]
        with contextlib.suppress(OSError):  # the text of what a full disk kept of it is not known to anyone
            self._save()

    def users(self) -> list[dict[str, str | int]]:
        """Return the users with tokens or sessions: name, highest role, and numbers of each."""
        found: dict[str, dict[str, Any]] = {}
        held = [("tokens", user) for user in self._tokens.values()]
        held += [("sessions", session.user) for session in self._sessions.values()]
        for kind, user in held:
            row = found.setdefault(user.name, {"name": user.name, "role": user.role, "tokens": 0, "sessions": 0})
            row[kind] += 1
            row["role"] = max(row["role"], user.role)
        return [{**row, "role": row["role"].word} for _, row in sorted(found.items())]

    def revoke(self, name: str) -> int:
        """Forget every token and session of `name`; returns how many there were.

        Raises :class:`LastAdmin` when no other user has an admin's token, and :class:`Unkept` when it holds only until this
        process ends.
        """
        admins = {user.name for user in self._tokens.values() if user.role is Role.ADMIN}
        if admins == {name}:
            raise LastAdmin(f"{name} is the only admin")
        before = len(self._tokens) + len(self._sessions)
        self._tokens = {key: user for key, user in self._tokens.items() if user.name != name}
        self._sessions = {key: session for key, session in self._sessions.items() if session.user.name != name}
        try:
            self._save()
        except OSError as error:
            raise self._unkept(
                f"{name} is kept out until this controller is restarted, and no longer", error
            ) from error
        return before - len(self._tokens) - len(self._sessions)

    def link(self, host: str, port: int) -> str:
        """The address that lets a browser in; the token stands behind the #, which never reaches a server or a log.

        At the first start it carries the new admin's token; later a ticket for one sign-in as engineer.
        """
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{port}/" + (f"#token={self._link}" if self._link else "")

    def command_line_token(self) -> str:
        """An admin's token for commands on this machine, valid until this process ends.

        A user who can read the data directory could make a token from its credentials anyway.
        """
        token = secrets.token_urlsafe(32)
        self._passing[_hash(token)] = User(COMMAND_LINE, Role.ADMIN)
        return token

    def by_token(self, token: str) -> User | None:
        """Return the user of `token`."""
        if not token or len(token) > LONGEST_SECRET:
            return None
        digest = _hash(token)
        return _find(self._tokens, digest) or _find(self._passing, digest)

    def _ticket(self, name: str, role: Role) -> str:
        ticket = secrets.token_urlsafe(32)
        digest = _hash(ticket)
        self._passing[digest] = User(name, role)
        self._tickets.add(digest)
        return ticket

    # --- sessions ---------------------------------------------------------------------------------------

    def open_session(self, user: User, now: datetime, *, token: str = "") -> str:
        """A session cookie's value for `user`; a ticket that was used for it is spent.

        On a full disk, which a user must be able to see, the session lasts until this process ends.
        """
        digest = _hash(token)
        if digest in self._tickets:
            self._tickets.remove(digest)
            del self._passing[digest]
        self._sessions = {key: kept for key, kept in self._sessions.items() if kept.until > now}
        own = [key for key, kept in self._sessions.items() if kept.user.name == user.name]
        for oldest in own[: max(0, len(own) - MAX_SESSIONS + 1)]:
            del self._sessions[oldest]
        value = secrets.token_urlsafe(32)
        self._sessions[_hash(value)] = _Session(user, now + SESSION_AGE)
        try:
            self._save()
        except OSError as error:
            logger.warning("%s", self._unkept(f"the session of {user.name} is not kept over a restart", error))
        return value

    def demo_session(self, now: datetime) -> str:
        """Return a session for the user who opens the demo's page on this machine. Refused outside the demo."""
        if not self.demo:
            raise CredentialsError("only the demo gives sessions away")
        return self.open_session(User("demo", Role.OPERATOR), now)

    def by_session(self, value: str, now: datetime) -> User | None:
        """Return the user of a session that has not expired."""
        if not value or len(value) > LONGEST_SECRET:
            return None
        session = self._sessions.get(_hash(value))
        return session.user if session is not None and session.until > now else None

    def close_session(self, value: str) -> None:
        """End a session."""
        session = self._sessions.pop(_hash(value), None)
        if session is None:
            return
        try:
            self._save()
        except OSError as error:
            logger.warning("%s", self._unkept(f"{session.user.name} signed out until the next restart only", error))

    # --- the file ---------------------------------------------------------------------------------------

    def _restored(self, path: Path) -> str:
        """Read the file and return the secret of the page link.

        A file that cannot be read stays unchanged: it is evidence.
        """
        try:
            self._load(path)
        except CredentialsError as error:
            self._tokens.clear()
            self._sessions.clear()
            self._keep_in_memory(str(error))
            return self._ticket(PAGE_LINK, Role.ADMIN)
        return self._ticket(PAGE_LINK, Role.ENGINEER)

    def _first_link(self) -> str:
        """Return the first admin's token; one that ends with this process where it cannot be kept."""
        try:
            return self.issue(FIRST_ADMIN, Role.ADMIN)
        except Unkept as error:
            self._keep_in_memory(str(error))
            return self._ticket(PAGE_LINK, Role.ADMIN)

    def _keep_in_memory(self, why: str) -> None:
        self._path = None
        self.problem = (
            f"{why}. Until then tokens and sessions end with this controller, and the page link lets an admin in"
        )
        logger.error("%s", self.problem)

    def _unkept(self, what: str, error: OSError) -> Unkept:
        return Unkept(
            f"{what}: {self._path} cannot be written ({error.strerror or error}). {remedy(error)}; the next change of tokens"
            " or sessions writes all of them"
        )

    def _save(self) -> None:
        """Write the file; with a thread, have it written and return at once."""
        if self._path is None:
            return
        text = self._text()
        if self._writer is None:
            _write(self._path, text)
            return
        self._written = self._writer.submit(_write, self._path, text)
        self._written.add_done_callback(self._look)

    def _look(self, written: Future[None]) -> None:
        """Log a change that was not kept; called in the thread."""
        error = written.exception()
        if isinstance(error, OSError):
            logger.warning("%s", self._unkept("the last change holds until the next restart only", error))
        elif error is not None:
            logger.error("the credentials could not be written", exc_info=error)

    def _text(self) -> str:
        body = {
            "version": VERSION,
            "tokens": [
                {"sha256": digest, "name": user.name, "role": user.role.word} for digest, user in self._tokens.items()
            ],
            "sessions": [
                {
                    "sha256": digest,
                    "name": session.user.name,
                    "role": session.user.role.word,
                    "until": session.until.isoformat(),
                }
                for digest, session in self._sessions.items()
            ],
        }
        return json.dumps(body, indent=1)

    def _load(self, path: Path) -> None:
        try:
            body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if body["version"] != VERSION:
                raise ValueError(f"format {body['version']}, this Choroid reads {VERSION}")
            for row in body["tokens"]:
                self._tokens[row["sha256"]] = _user(row)
            for row in body["sessions"]:
                self._sessions[row["sha256"]] = _Session(_user(row), datetime.fromisoformat(row["until"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
            raise CredentialsError(
                f"{path} cannot be read ({error}). Likely cause: it was edited or damaged."
                " Next: restore it, or remove it to be given a new admin token at the next start"
            ) from None
        with contextlib.suppress(OSError):  # a file system that is read-only
            path.chmod(0o600)


def _write(path: Path, text: str) -> None:
    """Replace the file, whole or not at all; it is on the disk on return. Raises OSError."""
    partial = path.with_suffix(".new")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    partial.replace(path)


def _user(row: dict[str, Any]) -> User:
    return User(str(row["name"]), Role[str(row["role"]).upper()])


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _find(users: dict[str, User], digest: str) -> User | None:
    """Return the entry whose hash matches. Every entry is compared, so that the time reveals nothing."""
    found = None
    for known, user in users.items():
        if hmac.compare_digest(known, digest):
            found = user
    return found
