"""Credentials of agents, kept in the data folder: who may connect to the electrode engine, in which role, with which budget.

A plain token is shown once, when it is issued; the file has its SHA-256 only. A revoked name stays in the file and is never
issued again, because the ledger's records, budgets and leases go by the name.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from controller.core.disk import remedy
from nerves.envelope import UNLIMITED, AgentBudget
from nerves.tokens import Grant, TokenScope, new_token, token_digest

FILE = "nerves-credentials.json"
VERSION = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,59}")
RESERVED: Final = frozenset({"controller"})
"""Names of the engine's own clients."""


class AgentRole(StrEnum):
    """Names what an agent may do."""

    READER = "reader"
    """Streams, summaries, events."""
    AGENT = "agent"
    """Also leases and stimulation, and its own records in the ledger."""
    AUDITOR = "auditor"
    """Streams, and everyone's records in the ledger."""


SCOPES_OF: Final = {
    AgentRole.READER: frozenset({TokenScope.READ}),
    AgentRole.AGENT: frozenset({TokenScope.READ, TokenScope.STIMULATE}),
    AgentRole.AUDITOR: frozenset({TokenScope.READ, TokenScope.AUDIT}),
}


class CredentialsProblem(Exception):
    """The credentials of agents cannot be read or changed so: what, likely cause, next action."""


class UnknownAgent(CredentialsProblem):
    """There is no agent of this name."""


@dataclass(frozen=True, slots=True)
class AgentCredential:
    """One agent. `electrodes` None means all; `revoked_utc` is empty while the token is valid."""

    name: str
    role: AgentRole
    sha256: str
    issued_utc: str
    electrodes: tuple[int, ...] | None = None
    budget: AgentBudget = field(default=UNLIMITED)
    revoked_utc: str = ""

    @property
    def grant(self) -> Grant:
        """What the holder of the token may do."""
        electrodes = None if self.electrodes is None else frozenset(self.electrodes)
        return Grant(self.name, SCOPES_OF[self.role], electrodes, self.budget)


class AgentCredentials:
    """The file of credentials in `data_dir`. Every change begins with what the file has."""

    def __init__(self, data_dir: Path, utc: Callable[[], str]) -> None:
        self.path = data_dir / FILE
        self._utc = utc

    def every(self) -> list[AgentCredential]:
        """Return every credential, the revoked too, by name.

        Raises:
            CredentialsProblem: The file cannot be read.
        """
        try:
            body = json.loads(self.path.read_text(encoding="utf-8"))
            if body["version"] != VERSION:
                raise ValueError(f"format {body['version']}, this Choroid reads {VERSION}")
            found = [_credential(row) for row in body["agents"]]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
            raise CredentialsProblem(
                f"{self.path} cannot be read ({error}), so no agent may connect. Likely cause: it was edited or damaged."
                " Next: restore it from a backup, or remove it and issue new credentials"
            ) from None
        return sorted(found, key=lambda each: each.name)

    def grants(self) -> dict[str, Grant]:
        """Return the grants that are valid, by the digest of their token. Raises :class:`CredentialsProblem`."""
        return {each.sha256: each.grant for each in self.every() if not each.revoked_utc}

    def issue(
        self,
        name: str,
        role: AgentRole,
        *,
        electrodes: tuple[int, ...] | None = None,
        budget: AgentBudget = UNLIMITED,
        token: str = "",
    ) -> str:
        """Add an agent and return its token, which is shown once.

        Args:
            name: Its name in ledger and events.
            role: What it may do.
            electrodes: The only electrodes that it may stimulate; None means all.
            budget: What it may use of the envelope's budgets.
            token: Its token; empty makes a new one.

        Raises:
            CredentialsProblem: The name cannot be used, or the file cannot be read or written.
        """
        if not NAME.fullmatch(name) or name in RESERVED:
            raise CredentialsProblem(
                f"“{name}” cannot name an agent. Next: use letters, digits and . _ - @, at most 60, and not “controller”"
            )
        before = self.every()
        for each in before:
            if each.name == name:
                then = "renew its token" if not each.revoked_utc else "choose another name: its records stay"
                state = "revoked" if each.revoked_utc else "known"
                raise CredentialsProblem(f"an agent named {name} is {state} already. Next: {then}")
        token = token or new_token()
        added = AgentCredential(name, role, token_digest(token), self._utc(), electrodes, budget)
        self._save([*before, added])
        return token

    def renew(self, name: str) -> str:
        """Replace an agent's token and return the new one; the old one is valid no more.

        Raises:
            UnknownAgent: No agent of this name is known, or it is revoked.
            CredentialsProblem: The file cannot be read or written.
        """
        token = new_token()
        self._change(name, lambda each: replace(each, sha256=token_digest(token), issued_utc=self._utc()))
        return token

    def revoke(self, name: str) -> None:
        """Make an agent's token invalid; errors as :meth:`renew`."""
        self._change(name, lambda each: replace(each, revoked_utc=self._utc()))

    def _change(self, name: str, change: Callable[[AgentCredential], AgentCredential]) -> None:
        before = self.every()
        if not any(each.name == name and not each.revoked_utc for each in before):
            raise UnknownAgent(
                f"there is no agent “{name}”. Likely cause: a slip, or it was revoked before. Next: list the agents"
            )
        self._save([change(each) if each.name == name else each for each in before])

    def _save(self, credentials: list[AgentCredential]) -> None:
        """Replace the file, whole or not at all."""
        body = {"version": VERSION, "agents": [_row(each) for each in credentials]}
        try:
            write_private(self.path, json.dumps(body, indent=1))
        except OSError as error:
            raise CredentialsProblem(
                f"{self.path} cannot be written ({error.strerror or error}); nothing was changed. {remedy(error)};"
                " then try again"
            ) from error


def write_private(path: Path, text: str) -> None:
    """Replace a file that its owner alone can read, whole or not at all; it is on the disk on return. Raises OSError."""
    partial = path.with_name(f"{path.name}.new")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    partial.replace(path)


def _row(credential: AgentCredential) -> dict[str, Any]:
    row = asdict(credential)
    row["budget"] = {key: None if math.isinf(value) else value for key, value in row["budget"].items()}
    return row


def _credential(row: dict[str, Any]) -> AgentCredential:
    electrodes = row["electrodes"]
    return AgentCredential(
        name=str(row["name"]),
        role=AgentRole(row["role"]),
        sha256=str(row["sha256"]),
        issued_utc=str(row["issued_utc"]),
        electrodes=None if electrodes is None else tuple(int(electrode) for electrode in electrodes),
        budget=AgentBudget(
            **{key: math.inf if value is None else float(value) for key, value in row["budget"].items()}
        ),
        revoked_utc=str(row["revoked_utc"]),
    )
