"""Access control of the gRPC service: which token may do what. Only digests of tokens are kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class TokenScope(StrEnum):
    """What a token allows."""

    READ = "read"
    """Frames, spikes, summaries, status."""
    STIMULATE = "stimulate"
    """Leases and stimulation, and one's own records in the ledger."""
    AUDIT = "audit"
    """Everyone's records in the ledger."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What the holder of a token is called and may do; `electrodes` None means all."""

    requester: str
    scopes: frozenset[TokenScope]
    electrodes: frozenset[int] | None = None


def new_token() -> str:
    """Return a token that cannot be guessed: 256 random bits."""
    return secrets.token_urlsafe(32)


class Keyring:
    """Tokens and their grants. Looking one up takes the same time whether and where it matches."""

    def __init__(self, grants: dict[str, Grant]) -> None:
        self._grants = [(_digest(token), grant) for token, grant in grants.items()]

    def find(self, metadata: Iterable[tuple[str, str | bytes]] | None) -> Grant | None:
        """The grant of a call's `authorization: Bearer <token>`; None without exactly one."""
        given = [value for key, value in metadata or () if key == "authorization"]
        if len(given) != 1 or not isinstance(given[0], str) or not given[0].startswith("Bearer "):
            return None
        digest = _digest(given[0].removeprefix("Bearer "))
        found = None
        for known, grant in self._grants:
            if hmac.compare_digest(known, digest):
                found = grant
        return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
