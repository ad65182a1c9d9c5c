"""Access control of the gRPC service: which token may do what. Only digests of tokens are kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from nerves.envelope import UNLIMITED, AgentBudget


class TokenScope(StrEnum):
    """Names what a token allows."""

    READ = "read"
    """Frames, spikes, summaries, status, events."""
    STIMULATE = "stimulate"
    """Leases and stimulation, and one's own records in the ledger."""
    AUDIT = "audit"
    """Everyone's records in the ledger, and everyone's events."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Holds the name and the rights of the holder of a token; `electrodes` None means all."""

    requester: str
    scopes: frozenset[TokenScope]
    electrodes: frozenset[int] | None = None
    budget: AgentBudget = UNLIMITED

    @property
    def sees(self) -> str | None:
        """Whose records and events it may see; None means everyone's."""
        return None if TokenScope.AUDIT in self.scopes else self.requester


def new_token() -> str:
    """Return a token that cannot be guessed: 256 random bits."""
    return secrets.token_urlsafe(32)


def token_digest(token: str) -> str:
    """Return the SHA-256 of a token; 256 random bits need nothing slower."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class Keyring:
    """Tokens and their grants. Looking one up takes the same time whether and where it matches."""

    def __init__(self, grants: Mapping[str, Grant]) -> None:
        """Begin with tokens that are valid as long as this process, and no agents."""
        self._fixed = {token_digest(token): grant for token, grant in grants.items()}
        self._agents: dict[str, Grant] = {}

    def set_agents(self, agents: Mapping[str, Grant]) -> set[str]:
        """Replace the grants of agents (digest → grant); return the names whose former token is valid no more."""
        before = self._agents
        self._agents = {
            digest: before[digest] if before.get(digest) == grant else grant for digest, grant in agents.items()
        }
        return {grant.requester for grant in before.values() if not self.valid(grant)}

    def valid(self, grant: Grant) -> bool:
        """Return whether a grant that was found before is still valid."""
        return any(each is grant for each in (*self._fixed.values(), *self._agents.values()))

    def find(self, metadata: Iterable[tuple[str, str | bytes]] | None) -> Grant | None:
        """Return the grant of a call's `authorization: Bearer <token>`; None without exactly one."""
        given = [value for key, value in metadata or () if key == "authorization"]
        if len(given) != 1 or not isinstance(given[0], str) or not given[0].startswith("Bearer "):
            return None
        digest = token_digest(given[0].removeprefix("Bearer "))
        found = None
        for known, grant in (*self._fixed.items(), *self._agents.items()):
            if hmac.compare_digest(known, digest):
                found = grant
        return found
