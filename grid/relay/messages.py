"""Messages at a relay and inside tunnels, each behind its length; the entry that a member signs for a relay."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf.message import DecodeError, Message

from grid.errors import GridError, GridRefused
from grid.identity.keys import IdentityKey
from grid.wire import grid_pb2 as pb

MAX_BYTES = 0xFFFF
NONCE_BYTES = 32
SIGNED = b"choroid grid relay entry 1\n"
M = TypeVar("M", bound=Message)


def framed(message: Message) -> bytes:
    """Return a message behind its length (two bytes, big endian). Raises :class:`GridError` when it is too long."""
    body = message.SerializeToString()
    if len(body) > MAX_BYTES:
        raise GridError(f"a message of {len(body)} bytes; the longest has {MAX_BYTES}")
    return struct.pack(">H", len(body)) + body


async def read_message(read: Callable[[int], Awaitable[bytes]], kind: type[M]) -> M:
    """Return the next message.

    Args:
        read: Returns exactly so many bytes, as `asyncio.StreamReader.readexactly` does.
        kind: Its type.

    Raises:
        GridError: The connection ended before, or this is no such message.
    """
    try:
        (length,) = struct.unpack(">H", await read(2))
        message = kind()
        message.ParseFromString(await read(length))
    except (asyncio.IncompleteReadError, OSError, DecodeError) as error:
        raise GridError(f"the connection ended or sent no message ({type(error).__name__})") from None
    return message


def signed_entry(key: IdentityKey, relay: bytes, nonce: bytes, entry: pb.RelayEntry) -> pb.RelayEntry:
    """Return an entry with the key and signature of a member.

    Args:
        key: The member's identity.
        relay: Public key of the relay that it is for: it is of no use at another one.
        nonce: What this relay has sent.
        entry: What is asked for.
    """
    signed = pb.RelayEntry(key=key.public, grant=entry.grant, peer=entry.peer, tunnel=entry.tunnel)
    signed.signature = key.sign(_signed_text(relay, nonce, signed))
    return signed


def check_entry(relay: bytes, nonce: bytes, entry: pb.RelayEntry) -> None:
    """Check the signature of an entry at the relay with this public key. Raises :class:`GridRefused`."""
    try:
        key = Ed25519PublicKey.from_public_bytes(entry.key)
        key.verify(entry.signature, _signed_text(relay, nonce, entry))
    except (ValueError, InvalidSignature):
        raise GridRefused("the signature does not fit: the entry is for another relay, or of another key") from None


def _signed_text(relay: bytes, nonce: bytes, entry: pb.RelayEntry) -> bytes:
    fields = (relay, nonce, entry.key, entry.grant.encode(), entry.peer.encode(), entry.tunnel.encode())
    return SIGNED + b"".join(struct.pack(">H", len(each)) + each for each in fields)
