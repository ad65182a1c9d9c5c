"""The signed manifest of a data set: what it is, where it comes from, who may have it, and the root of its listing."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from grid.errors import GridError
from grid.identity.keys import IdentityKey

FORMAT = "choroid-data/1"
CONTEXT = b"choroid data manifest v1\n"
"""Prefix of what is signed, so that a signature is valid for nothing else."""
MAX_TEXT = 200
_HEX64 = re.compile(r"^[0-9a-f]{64}$")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")


class Sharing(StrEnum):
    """Who may have the data."""

    NO = "no"
    """It stays in the laboratory: no member gets a replica."""
    MEMBERS = "members"
    """Members keep encrypted replicas; those whom the author names as readers can decrypt them."""
    PUBLIC = "public"
    """Everyone may read it: its objects are the files themselves."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where data come from. What is not known is empty.

    Attributes:
        rig: name of the rig.
        organoid: name of the tissue.
        day: first day of the data (ISO 8601).
        stimulation_sha256: hash of the stimulation ledger that belongs to them.
        medium: the medium of the tissue.
        licence: SPDX identifier, such as CC-BY-4.0.
    """

    rig: str = ""
    organoid: str = ""
    day: str = ""
    stimulation_sha256: str = ""
    medium: str = ""
    licence: str = ""


@dataclass(frozen=True, slots=True)
class DataManifest:
    """The manifest of a data set.

    Attributes:
        name: its name.
        files: number of its files.
        size: their bytes.
        root: root of the Merkle tree of its listing, in hexadecimal.
        sharing: who may have it.
        provenance: where it comes from.
        author: Ed25519 public key of its author, in hexadecimal.
        nonce: random value that makes the data set unique, and to which its encryption is bound (32 bytes, hexadecimal).
        signature: that of the author over all else, in hexadecimal.
    """

    name: str
    files: int
    size: int
    root: str
    sharing: Sharing
    provenance: Provenance
    author: str
    nonce: str
    signature: str = ""

    @property
    def signed(self) -> bytes:
        """Return the bytes that the signature covers."""
        plain = self.to_json()
        del plain["signature"]
        return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()

    @property
    def id(self) -> str:
        """Return the identity of the data set: SHA-256 of what is signed."""
        return hashlib.sha256(self.signed).hexdigest()

    @property
    def is_sealed(self) -> bool:
        """Whether its objects are encrypted."""
        return self.sharing is not Sharing.PUBLIC

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as :func:`read_manifest` takes it."""
        return {"format": FORMAT, **asdict(self)}

    def signed_by(self, key: IdentityKey) -> DataManifest:
        """Return the manifest with the signature of its author."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return DataManifest(**values | {"signature": key.sign(CONTEXT + self.signed).hex()})


def checked_terms(name: str, provenance: Provenance) -> None:
    """Check what people state. Raises :class:`GridError` when a name or a text has not its form."""
    if not _NAME.fullmatch(name):
        raise GridError(
            f"“{name[:70]}” is no name of a data set: 1 to 64 letters, digits, “.”, “_”, “-”. Next: give one with --name"
        )
    for field, text in asdict(provenance).items():
        if len(text) > MAX_TEXT:
            raise GridError(f"{field} has more than {MAX_TEXT} characters. Next: shorten it")


def read_manifest(plain: object) -> DataManifest:
    """Return the manifest in plain data after checking form and signature.

    Raises:
        GridError: A field is missing, unknown or not of its form, or the signature is not the author's.
    """
    again = "Next: make it with `choroid grid data add`"
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise GridError(f"the manifest of the data set is not of format {FORMAT}. Next: use the release that wrote it")
    values: dict[str, Any] = {name: value for name, value in plain.items() if name != "format"}
    try:
        values["sharing"] = Sharing(values["sharing"])
        provenance = values["provenance"] = Provenance(**values["provenance"])
        manifest = DataManifest(**values)
    except (TypeError, KeyError, ValueError) as error:
        raise GridError(f"the manifest of the data set is malformed ({error}). {again}") from None
    texts = [*asdict(provenance).values(), manifest.name, manifest.root, manifest.author, manifest.nonce]
    hexes = (manifest.root, manifest.author, manifest.nonce)
    counts = (manifest.files, manifest.size)
    sound = (
        all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts)
        and all(_HEX64.fullmatch(text) for text in hexes)
        and all(isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in counts)
        and _NAME.fullmatch(manifest.name)
    )
    if not sound:
        raise GridError(f"the manifest of the data set is malformed: a name, hash or number has not its form. {again}")
    try:
        author = Ed25519PublicKey.from_public_bytes(bytes.fromhex(manifest.author))
        author.verify(bytes.fromhex(manifest.signature), CONTEXT + manifest.signed)
    except (InvalidSignature, ValueError, TypeError):
        raise GridError(
            f"the signature of the data set “{manifest.name}” is not its author's. Likely cause: a field was changed. Next:"
            " fetch it again"
        ) from None
    return manifest
