"""Signed notes, checkpoints and cosignatures in the forms of C2SP (signed-note, tlog-checkpoint, tlog-cosignature)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from dataclasses import dataclass
from typing import Protocol

from controller.signed_log.errors import SignedLogError
from controller.signed_log.public import verified

ED25519 = 0x01
COSIGNATURE = 0x04
DASH = "— "


class NoteSigner(Protocol):
    """A private key that signs notes: :class:`grid.identity.keys.IdentityKey`, or what holds one."""

    public: bytes

    def sign(self, message: bytes) -> bytes:
        """Return the signature (64 bytes) of a message."""
        ...


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A public key that signs notes: its name, algorithm (1 log, 4 witness) and 32 bytes."""

    name: str
    algorithm: int
    public: bytes

    @property
    def hash(self) -> bytes:
        """Return the four bytes that name the key in a signature line."""
        text = self.name.encode() + b"\n" + bytes([self.algorithm]) + self.public
        return hashlib.sha256(text).digest()[:4]

    def __str__(self) -> str:
        """Return the verifier key as text: name+hash+base64."""
        return f"{self.name}+{self.hash.hex()}+{base64.b64encode(bytes([self.algorithm]) + self.public).decode()}"

    @classmethod
    def parse(cls, text: str) -> NoteKey:
        """Read a verifier key. Raises :class:`SignedLogError` when it is malformed."""
        name, _, rest = text.strip().partition("+")
        hashed, _, encoded = rest.partition("+")
        try:
            body = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            body = b""
        if len(body) != 33 or body[0] not in (ED25519, COSIGNATURE):
            raise SignedLogError(
                f"“{text[:80]}” is no verifier key. Next: copy the line that `choroid grid log show-keys` prints"
            )
        key = cls(name, body[0], body[1:])
        if key.hash.hex() != hashed:
            raise SignedLogError(f"the verifier key of {name} is damaged: its hash differs. Next: copy it again")
        return key


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Origin, size and root of a log."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """Return the body of the note."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"

    @classmethod
    def parse(cls, note: str) -> Checkpoint:
        """Read the body of a note. Raises :class:`SignedLogError` when it is malformed."""
        lines = body_of(note).split("\n")
        try:
            if not lines[1].isdecimal() or (lines[1] != "0" and lines[1].startswith("0")):
                raise ValueError("no size")
            root = base64.b64decode(lines[2], validate=True)
            if len(root) != 32 or not lines[0]:
                raise ValueError("no root")
            return cls(lines[0], int(lines[1]), root)
        except (ValueError, IndexError) as error:
            raise SignedLogError(f"this is no checkpoint of a log ({error}). Next: fetch it again") from None


def body_of(note: str) -> str:
    """Return the text that is signed. Raises :class:`SignedLogError` without one."""
    body, blank, _ = note.rpartition("\n\n")
    if not blank:
        raise SignedLogError("this is no signed note: it has no blank line before its signatures. Next: fetch it again")
    return body + "\n"


def signed(key: NoteSigner, name: str, text: str) -> str:
    """Return a note: the text, a blank line and the signature of `name`."""
    return f"{text}\n{_line(NoteKey(name, ED25519, key.public), key.sign(text.encode()))}"


def cosignature(key: NoteSigner, name: str, note: str, time_s: int) -> str:
    """Return the line with which a witness confirms a checkpoint at a time (UTC s)."""
    signature = key.sign(_cosigned(body_of(note), time_s))
    return _line(NoteKey(name, COSIGNATURE, key.public), struct.pack(">Q", time_s) + signature)


def signature_time(note: str, key: NoteKey) -> int | None:
    """Return when `key` signed a note (UTC s; 0 for a log, which gives no time), or None if it did not."""
    text = body_of(note)
    for line in note.rpartition("\n\n")[2].splitlines():
        found = _signature(line, key)
        if found is None:
            continue
        if key.algorithm == ED25519 and verified(key.public, text.encode(), found):
            return 0
        if key.algorithm == COSIGNATURE and len(found) == 72:
            time_s = int(struct.unpack(">Q", found[:8])[0])
            if verified(key.public, _cosigned(text, time_s), found[8:]):
                return time_s
    return None


def signed_only_by(note: str, key: NoteKey) -> str:
    """Return a note without the lines of others than `key`: what another client appends is not kept."""
    lines = note.rpartition("\n\n")[2].splitlines()
    return f"{body_of(note)}\n" + "".join(f"{line}\n" for line in lines if _signature(line, key) is not None)


def _cosigned(text: str, time_s: int) -> bytes:
    return f"cosignature/v1\ntime {time_s}\n{text}".encode()


def _line(key: NoteKey, signature: bytes) -> str:
    return f"{DASH}{key.name} {base64.b64encode(key.hash + signature).decode()}\n"


def _signature(line: str, key: NoteKey) -> bytes | None:
    name, _, encoded = line.removeprefix(DASH).rpartition(" ")
    if not line.startswith(DASH) or name != key.name:
        return None
    try:
        body = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return None
    return body[4:] if body[:4] == key.hash else None
