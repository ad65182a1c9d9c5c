"""Who may do what: roles, tokens, and browser sessions.

A token is 256 bits of the system's randomness, so its plain SHA-256 is kept and nothing slower is needed. Hashes of tokens
and sessions live in `credentials.json` in the data directory, readable by its owner alone; a plain token is shown once,
when it is made. Each token has a role and an end, and can be revoked alone, with the sessions that were opened with it. A
password (:mod:`dashboards.passwords`) is a credential like a token, one for each user, that opens sessions only. The
link that is printed at a start carries a ticket: it opens one session, within an hour. In the demo, where nothing but
simulated devices can be reached, opening the page from this machine makes one its operator, and nothing is written.
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
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import IntEnum
from pathlib import Path
from typing import Any

from controller.core.disk import remedy
from controller.runs.people import COMMAND_LINE, FIRST_ADMIN, PAGE_LINK, plain_name
from dashboards.passwords import Passwords

logger = logging.getLogger(__name__)

FILE = "credentials.json"
VERSION = 1
SESSION_AGE = timedelta(days=30)
TICKET_AGE = timedelta(hours=1)
TOKEN_DAYS, MAX_TOKEN_DAYS = 90, 400
"""How long a token is valid (days), by default and at most."""
USE_KEPT_EVERY = timedelta(hours=1)
"""Minimum time between two writes of the file for nothing but the last uses of tokens."""
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


@dataclass(slots=True)
class Token:
    """A token of the page and the API, or a password; its text is not kept, `id` is the begin of a hash."""

    id: str
    user: User
    purpose: str
    issued: datetime
    until: datetime
    used: datetime | None = None
    hashed: str = ""
    """Hash of a password; empty for a token."""
    set_with: str = ""
    """Id of the token with which a password was set first."""


@dataclass(slots=True)
class OpenSession:
    """A session of a browser; `id` is the begin of the hash of its cookie."""

    id: str
    user: User
    until: datetime
    token: str
    """Id of the token or password that opened it; empty for a link's ticket."""
    opened: datetime | None = None
    used: datetime | None = None
    device: str = ""
    """Browser and system, as the browser states them."""
    source: str = ""
    """Address of the client that opened it."""


@dataclass(frozen=True, slots=True)
class _Ticket:
    digest: str
    user: User
    until: datetime


class Auth:
    """The credentials of one rig's page, kept in `data_dir`; without one, and in the demo, in memory only."""

    def __init__(
        self, data_dir: Path | None = None, *, demo: bool, utc: Callable[[], datetime], threaded: bool = False
    ) -> None:
        """With `threaded`, a thread waits for the disk from now on, and the control loop does not (R2)."""
        self.demo = demo
        self._utc = utc
        self._path = None if demo or data_dir is None else data_dir / FILE
        self.passwords = Passwords(threaded=threaded)
        self._tokens: dict[str, Token] = {}
        """By SHA-256 of the token, or by argon2id hash of the password."""
        self._sessions: dict[str, OpenSession] = {}
        self._ticket: _Ticket | None = None
        self._command_line = secrets.token_urlsafe(32)
        self._link_user = User(FIRST_ADMIN, Role.ADMIN)
        """The account of the page link: the first admin, until there has been one."""
        self._uses_kept = utc()
        self._writer: ThreadPoolExecutor | None = None
        """One thread, so that the file gets the changes in their order."""
        self._written: Future[None] | None = None
        self.problem = ""
        """Reason why the credentials are in memory only, for people; empty when the file is written."""
        if self._path is not None and os.path.lexists(self._path):
            self._restore(self._path)
        else:
            self._begin()
        if threaded:
            self._writer = ThreadPoolExecutor(1, "credentials")

    # --- tokens -----------------------------------------------------------------------------------------

    def issue(self, name: str, role: Role, *, days: int = TOKEN_DAYS, purpose: str = "") -> str:
        """A new token for `name`, valid for `days`, also over restarts; shown now and never again.

        Raises :class:`Unkept` when it could not be kept; then there is none. With a thread, :meth:`kept` tells.
        """
        self._forget_expired()
        token = secrets.token_urlsafe(32)
        digest, now = _hash(token), self._utc()
        self._tokens[digest] = Token(digest[:12], User(name, role), purpose, now, now + timedelta(days=days))
        before = self._link_user
        self._has_admin(role)
        try:
            self._save()
        except OSError as error:
            del self._tokens[digest]
            self._link_user = before
            raise self._unkept(f"no token was given to {name}", error) from error
        return token

    def set_password(self, user: User, hashed: str, *, secret: str) -> Token:
        """Replace the password of a user; sessions that the former one opened end, but for the present one.

        It lasts as long as the latest token of the user with this role, or as the former password, so that it prolongs no
        access; and it is revoked with the token whose session has set it.

        Args:
            user: The user, with the role that the password gives.
            hashed: The argon2id hash.
            secret: The token or the session's cookie of the request.

        Raises:
            Unkept: It could not be kept, and the former one holds.
        """
        former, own = self.password_of(user.name), _hash(secret[:LONGEST_SECRET])
        session, given = self._sessions.get(own), self._tokens.get(own)
        opener = given.id if given is not None else session.token if session is not None else ""
        ends = [
            each.until for each in self._tokens.values() if each.user.name == user.name and each.user.role >= user.role
        ]
        token = Token(
            _hash(hashed)[:12],
            user,
            "password",
            self._utc(),
            max(ends, default=self._utc() + SESSION_AGE),
            hashed=hashed,
        )
        token.set_with = former.set_with if former is not None and opener == former.id else opener
        tokens, sessions = self._tokens, self._sessions
        self._tokens = {key: each for key, each in tokens.items() if former is None or each is not former}
        self._tokens[hashed] = token
        if former is not None:
            self._sessions = {
                key: replace(each, token=token.id) if key == own and each.token == former.id else each
                for key, each in sessions.items()
                if key == own or each.token != former.id
            }
        try:
            self._save()
        except OSError as error:
            self._tokens, self._sessions = tokens, sessions
            raise self._unkept(f"{user.name} has no new password", error) from error
        return token

    def password_of(self, name: str) -> Token | None:
        """Return the password of a user that is valid now; names are compared as people read them."""
        now, plain = self._utc(), plain_name(name)
        valid = (each for each in self._tokens.values() if each.hashed and each.until > now)
        return next((each for each in valid if plain_name(each.user.name) == plain), None)

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
        """Return the users with tokens, passwords or sessions: name, highest role, and numbers of tokens and sessions."""
        self._forget_expired()
        found: dict[str, dict[str, Any]] = {}
        held = [("" if token.hashed else "tokens", token.user) for token in self._tokens.values()]
        held += [("sessions", session.user) for session in self._sessions.values()]
        for kind, user in held:
            row = found.setdefault(user.name, {"name": user.name, "role": user.role, "tokens": 0, "sessions": 0})
            if kind:
                row[kind] += 1
            row["role"] = max(row["role"], user.role)
        return [{**row, "role": row["role"].word} for _, row in sorted(found.items())]

    def tokens(self) -> list[Token]:
        """Return the tokens and passwords that are valid now, by user."""
        self._forget_expired()
        return sorted(self._tokens.values(), key=lambda token: (token.user.name, token.issued))

    def sessions(self, name: str = "") -> list[OpenSession]:
        """Return the open sessions of a user, or of all, by user; the latest first."""
        self._forget_expired()
        found = [each for each in self._sessions.values() if name in ("", each.user.name)]
        found.sort(key=lambda each: each.until, reverse=True)
        return sorted(found, key=lambda each: each.user.name)

    def revoke(self, name: str) -> int:
        """Forget every token, password and session of `name`; returns how many there were.

        Raises :class:`LastAdmin` when no admin would be left, and :class:`Unkept` when it holds only until this process ends.
        """
        tokens = [key for key, token in self._tokens.items() if token.user.name == name]
        sessions = [key for key, session in self._sessions.items() if session.user.name == name]
        return self._remove(tokens, sessions, name)

    def revoke_token(self, id_: str) -> Token | None:
        """Forget one token or password, with the password that was set with it and the sessions that they opened; returns it.

        Raises as :meth:`revoke` does.
        """
        digest = next((key for key, token in self._tokens.items() if token.id == id_), None)
        if digest is None:
            return None
        token = self._tokens[digest]
        ended = [key for key, each in self._tokens.items() if id_ in (each.id, each.set_with)]
        ids = {self._tokens[key].id for key in ended}
        sessions = [key for key, session in self._sessions.items() if session.token in ids]
        self._remove(ended, sessions, f"the token {id_} of {token.user.name}")
        return token

    def revoke_session(self, id_: str, name: str = "") -> OpenSession | None:
        """End one session, if it is one of the user `name` or `name` is empty; returns it. Raises as :meth:`revoke` does."""
        digest = next((key for key, each in self._sessions.items() if each.id == id_), None)
        if digest is None or name not in ("", self._sessions[digest].user.name):
            return None
        session = self._sessions[digest]
        self._remove([], [digest], f"the session {id_} of {session.user.name}")
        return session

    def _remove(self, tokens: list[str], sessions: list[str], what: str) -> int:
        self._forget_expired()
        left = {key: token for key, token in self._tokens.items() if key not in tokens}
        open_ = {key: session for key, session in self._sessions.items() if key not in sessions}
        if _any_admin((*self._tokens.values(), *self._sessions.values())) and not _any_admin(
            (*left.values(), *open_.values())
        ):
            raise LastAdmin(f"{what} is the only admin")
        self._tokens, self._sessions = left, open_
        try:
            self._save()
        except OSError as error:
            raise self._unkept(
                f"{what} is kept out until this controller is restarted, and no longer", error
            ) from error
        return len(tokens) + len(sessions)

    def link(self, url: str) -> str:
        """The address that lets a browser in; its ticket stands behind the #, which never reaches a server or a log.

        The ticket opens one session, within an hour; a new link ends the one before. Until there has been an admin it lets
        in the first one, later an engineer.
        """
        if self.demo:
            return f"{url}/"
        ticket = secrets.token_urlsafe(32)
        self._ticket = _Ticket(_hash(ticket), self._link_user, self._utc() + TICKET_AGE)
        return f"{url}/#token={ticket}"

    def command_line_token(self) -> str:
        """An admin's token for commands on this machine, valid until this process ends.

        A user who can read the data directory could make a token from its credentials anyway.
        """
        return self._command_line

    def by_token(self, token: str) -> User | None:
        """Return the user of `token`, and note its use."""
        found = self.find(token)
        if found is None:
            own = hmac.compare_digest(token.encode(), self._command_line.encode())
            return User(COMMAND_LINE, Role.ADMIN) if own else None
        found.used = now = self._utc()
        if now - self._uses_kept >= USE_KEPT_EVERY:
            self._uses_kept = now
            with contextlib.suppress(OSError):  # the next change of tokens writes it
                self._save()
        return found.user

    def find(self, token: str) -> Token | None:
        """Return a token that is valid now by its text. Every entry is compared, so that the time reveals nothing."""
        if not token or len(token) > LONGEST_SECRET:
            return None
        digest = _hash(token)
        found = None
        for known, kept in self._tokens.items():
            if hmac.compare_digest(known, digest):
                found = kept
        return found if found is not None and found.until > self._utc() else None

    def _has_admin(self, role: Role) -> None:
        """Note that an account with `role` exists: after an admin, the page link lets in an engineer only."""
        if role is Role.ADMIN and not self.problem:
            self._link_user = User(PAGE_LINK, Role.ENGINEER)

    # --- sessions ---------------------------------------------------------------------------------------

    def sign_in(self, token: str, *, device: str = "", source: str = "") -> tuple[User, str] | None:
        """Exchange a token or the ticket of the page link for a session: its user and the cookie's value.

        A ticket ends with it. Arguments as of :meth:`open_session`.
        """
        ticket = self._ticket
        if ticket is not None and self.is_ticket(token):
            self._ticket = None
            if ticket.until <= self._utc():
                return None
            self._has_admin(ticket.user.role)
            return ticket.user, self.open_session(ticket.user, device=device, source=source)
        user = self.by_token(token)
        if user is None:
            return None
        return user, self.open_session(user, token=self.find(token), device=device, source=source)

    def is_ticket(self, token: str) -> bool:
        """Return whether `token` is the ticket of the page link, which :meth:`sign_in` takes once."""
        ticket = self._ticket
        return ticket is not None and hmac.compare_digest(ticket.digest, _hash(token[:LONGEST_SECRET]))

    async def sign_in_with_password(
        self, name: str, password: str, *, device: str = "", source: str = ""
    ) -> tuple[User, str] | None:
        """Exchange a name and a password for a session: its user and the cookie's value.

        Args:
            name: The user.
            password: What was written.
            device: Browser and system, as the browser states them.
            source: Address of the client.

        Raises:
            TooManyAttempts: It is beyond a limit, and was not judged.
        """
        held = self.password_of(name)
        right = await self.passwords.matches(password, held.hashed if held else "", name=name, address=source)
        if held is None or not right or self._tokens.get(held.hashed) is not held:  # it may have been revoked meanwhile
            return None
        held.used = self._utc()
        return held.user, self.open_session(held.user, token=held, device=device, source=source)

    def open_session(self, user: User, *, token: Token | None = None, device: str = "", source: str = "") -> str:
        """A session cookie's value for `user`; it ends with the token or password that opened it.

        `device` is what the browser says of itself, and `source` the address of the client, for the list of sessions. On a
        full disk, which a user must be able to see, the session lasts until this process ends.
        """
        self._forget_expired()
        own = [key for key, kept in self._sessions.items() if kept.user.name == user.name]
        for oldest in own[: max(0, len(own) - MAX_SESSIONS + 1)]:
            del self._sessions[oldest]
        value = secrets.token_urlsafe(32)
        digest, now = _hash(value), self._utc()
        until = now + SESSION_AGE if token is None else min(now + SESSION_AGE, token.until)
        self._sessions[digest] = OpenSession(
            digest[:12], user, until, "" if token is None else token.id, now, now, device, source
        )
        try:
            self._save()
        except OSError as error:
            logger.warning("%s", self._unkept(f"the session of {user.name} is not kept over a restart", error))
        return value

    def demo_session(self, device: str = "") -> str:
        """Return a session for the user who opens the demo's page on this machine. Refused outside the demo."""
        if not self.demo:
            raise CredentialsError("only the demo gives sessions away")
        return self.open_session(User("demo", Role.OPERATOR), device=device)

    def by_session(self, value: str) -> User | None:
        """Return the user of a session that has not expired."""
        if not value or len(value) > LONGEST_SECRET:
            return None
        session, now = self._sessions.get(_hash(value)), self._utc()
        if session is None or session.until <= now:
            return None
        session.used = now
        return session.user

    def session_id(self, value: str) -> str:
        """Return the id of a session that is open, or nothing."""
        session = self._sessions.get(_hash(value[:LONGEST_SECRET]))
        return "" if session is None else session.id

    def close_session(self, value: str) -> None:
        """End a session."""
        session = self._sessions.pop(_hash(value), None)
        if session is None:
            return
        try:
            self._save()
        except OSError as error:
            logger.warning("%s", self._unkept(f"{session.user.name} signed out until the next restart only", error))

    def _forget_expired(self) -> None:
        now = self._utc()
        self._tokens = {key: kept for key, kept in self._tokens.items() if kept.until > now}
        self._sessions = {key: kept for key, kept in self._sessions.items() if kept.until > now}

    # --- the file ---------------------------------------------------------------------------------------

    def _restore(self, path: Path) -> None:
        """Read the file. A file that cannot be read stays unchanged: it is evidence."""
        try:
            self._load(path)
        except CredentialsError as error:
            self._tokens.clear()
            self._sessions.clear()
            self._keep_in_memory(str(error))

    def _begin(self) -> None:
        """Write the first file, so that it is known whether it can be kept."""
        try:
            self._save()
        except OSError as error:
            self._keep_in_memory(str(self._unkept("there are no credentials yet", error)))

    def _keep_in_memory(self, why: str) -> None:
        self._path = None
        self._link_user = User(PAGE_LINK, Role.ADMIN)
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
            "first_link": self._link_user.name == FIRST_ADMIN,
            "tokens": [
                {
                    "sha256": digest,
                    "name": token.user.name,
                    "role": token.user.role.word,
                    "purpose": token.purpose,
                    "issued": token.issued.isoformat(),
                    "until": token.until.isoformat(),
                    "used": token.used and token.used.isoformat(),
                }
                for digest, token in self._tokens.items()
                if not token.hashed
            ],
            "passwords": [
                {
                    "argon2id": token.hashed,
                    "name": token.user.name,
                    "role": token.user.role.word,
                    "issued": token.issued.isoformat(),
                    "until": token.until.isoformat(),
                    "used": token.used and token.used.isoformat(),
                    "set_with": token.set_with,
                }
                for token in self._tokens.values()
                if token.hashed
            ],
            "sessions": [
                {
                    "sha256": digest,
                    "name": session.user.name,
                    "role": session.user.role.word,
                    "until": session.until.isoformat(),
                    "token": session.token,
                    "opened": session.opened and session.opened.isoformat(),
                    "used": session.used and session.used.isoformat(),
                    "device": session.device,
                    "source": session.source,
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
            if not body["first_link"]:
                self._has_admin(Role.ADMIN)
            rows = [(row, row["sha256"]) for row in body["tokens"]]
            for row, digest in [*rows, *((row, row["argon2id"]) for row in body.get("passwords", ()))]:
                hashed = str(row.get("argon2id", ""))
                self._tokens[digest] = Token(
                    _hash(hashed)[:12] if hashed else digest[:12],
                    _user(row),
                    "password" if hashed else str(row["purpose"]),
                    datetime.fromisoformat(row["issued"]),
                    datetime.fromisoformat(row["until"]),
                    _time(row["used"]),
                    hashed,
                    str(row.get("set_with", "")),
                )
            for row in body["sessions"]:
                self._sessions[row["sha256"]] = OpenSession(
                    row["sha256"][:12],
                    _user(row),
                    datetime.fromisoformat(row["until"]),
                    str(row["token"]),
                    _time(row.get("opened")),
                    _time(row.get("used")),
                    str(row.get("device", "")),
                    str(row.get("source", "")),
                )
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


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _any_admin(holders: Iterable[Token | OpenSession]) -> bool:
    return any(holder.user.role is Role.ADMIN for holder in holders)
