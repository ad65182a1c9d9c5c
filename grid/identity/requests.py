"""Requests to enrol, signed with the Ed25519 key of the caller, and nonces that make each of them valid once."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import struct
from collections.abc import Callable

from controller.signed_log.public import verified
from grid.clock import as_text
from grid.errors import GridRefused
from grid.identity.keys import IdentityKey
from grid.wire import grid_pb2 as pb

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
KINDS = ("member", "lab")
MAX_CLOCK_ERROR_S = 300.0
"""A request whose time differs more from the hub's is refused, and a nonce is valid for this long."""
PROCESS_KEY = "choroid-process"
"""Metadata of a lasting connection: what tells the processes of one identity apart."""
CONTEXT = b"choroid grid enrolment v1\n"


def signed_request(
    key: IdentityKey, name: str, kind: str, csr_pem: bytes, nonce: bytes, now_s: float
) -> pb.EnrolRequest:
    """Return a signed request to enrol or for the next certificate."""
    request = pb.EnrolRequest(
        name=name,
        kind=kind,
        public_key=key.public,
        signing_request_pem=csr_pem.decode("ascii"),
        nonce=nonce,
        utc_s=now_s,
    )
    request.signature = key.sign(_signed_text(request))
    return request


def check_request(request: pb.EnrolRequest, now_s: float) -> None:
    """Check the form, the time and the signature of a request.

    Raises:
        GridRefused: With the reason.
    """
    if not NAME.fullmatch(request.name):
        raise GridRefused(
            f"“{request.name[:60]}” cannot name a member. Next: use letters, digits and . _ -, at most 60"
        )
    if request.kind not in KINDS:
        raise GridRefused(f"the kind “{request.kind[:20]}” is unknown. Next: write one of {', '.join(KINDS)}")
    if len(request.public_key) != 32 or not verified(request.public_key, _signed_text(request), request.signature):
        raise GridRefused("the request is not signed with its Ed25519 key. Next: enrol with `choroid grid join`")
    problem = clock_problem(request.utc_s, now_s)
    if problem:
        raise GridRefused(problem)


def clock_problem(request_s: float, hub_s: float) -> str:
    """Return why a request of that time is refused at that time of the hub; empty when it is not."""
    off_s = request_s - hub_s
    if abs(off_s) <= MAX_CLOCK_ERROR_S:
        return ""
    return (
        f"the clocks differ by {off_s:+.0f} s: the request has {shown_time(request_s)}, the hub {shown_time(hub_s)}."
        " Likely cause: one of the machines has no time synchronisation. Next: start NTP (timedatectl set-ntp true), then"
        " try again"
    )


def _signed_text(request: pb.EnrolRequest) -> bytes:
    """Return what is signed: each field with its length, so that no two requests have the same text."""
    fields = (
        request.name.encode(),
        request.kind.encode(),
        request.public_key,
        request.signing_request_pem.encode(),
        request.nonce,
        struct.pack("<d", request.utc_s),
    )
    return CONTEXT + b"".join(struct.pack("<I", len(each)) + each for each in fields)


def shown_time(seconds: float) -> str:
    """Return UTC seconds of a request as text, also when they are no time."""
    try:
        return as_text(seconds)
    except (ValueError, OverflowError, OSError):
        return f"{seconds:g}"


class Nonces:
    """Nonces of the hub. Any of several hubs with the same secret can check one; `use` must be true once for each."""

    def __init__(self, secret: bytes, use: Callable[[bytes, float], bool]) -> None:
        """Begin.

        Args:
            secret: 32 random bytes of the hub.
            use: Records a nonce until the given time (UTC s); false when it is recorded already.
        """
        self._secret = secret
        self._use = use

    def new(self, now_s: float) -> bytes:
        """Return a nonce of 48 bytes: time, random bytes, and their authentication."""
        head = struct.pack("<d", now_s) + secrets.token_bytes(8)
        return head + self._tag(head)

    def spend(self, nonce: bytes, now_s: float) -> None:
        """Use a nonce. Raises :class:`GridRefused` when it is not of this hub, too old, or used before."""
        head, tag = nonce[:16], nonce[16:]
        if len(head) != 16 or not hmac.compare_digest(tag, self._tag(head)):
            raise GridRefused("the nonce is not of this hub. Next: ask for a new one (Describe)")
        made_s: float = struct.unpack("<d", head[:8])[0]
        if not 0 <= now_s - made_s <= MAX_CLOCK_ERROR_S:
            raise GridRefused(
                "the nonce is older than 5 min, or the hub's clock was set back since. Next: ask for a new one (Describe)"
            )
        if not self._use(nonce, made_s + MAX_CLOCK_ERROR_S):
            raise GridRefused("the nonce was used before: this request is a replay. Next: ask for a new one (Describe)")

    def _tag(self, head: bytes) -> bytes:
        return hmac.digest(self._secret, head, hashlib.sha256)
