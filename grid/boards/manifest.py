"""The signed manifest under which a model enters a board."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

FORMAT = "choroid-model/1"
CONTEXT = b"choroid model manifest v1\n"
"""Prefix of what is signed, so that a signature is valid for nothing else."""
MAX_NAME = 64
_HEX64, _HEX128 = re.compile(r"^[0-9a-f]{64}$"), re.compile(r"^[0-9a-f]{128}$")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$")
_FIELDS = ("format", "board", "name", "model_sha256", "model_bytes", "author", "nonce", "signature")


class ManifestError(Exception):
    """A manifest that is refused; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class ModelManifest:
    """Which model enters which board, by whom.

    `board` is `name@version`, `author` the Ed25519 public key (hex), `nonce` a random value of the author (hex, 32 bytes)
    that makes each submission unique, `signature` that of the author over everything else (hex).
    """

    board: str
    name: str
    model_sha256: str
    model_bytes: int
    author: str
    nonce: str
    signature: str

    @property
    def signed(self) -> bytes:
        """Return the bytes that the signature covers."""
        return _signed(self.board, self.name, self.model_sha256, self.model_bytes, self.author, self.nonce)

    @property
    def id(self) -> str:
        """Return the submission's identity: SHA-256 of what is signed."""
        return hashlib.sha256(self.signed).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as :func:`read_manifest` takes it."""
        return {"format": FORMAT} | {name: getattr(self, name) for name in _FIELDS[1:]}


def sign_manifest(key: Ed25519PrivateKey, model: bytes, *, board: str, name: str, nonce: bytes) -> ModelManifest:
    """Return the manifest of a model, signed by its author.

    Args:
        key: The author's key.
        model: The ONNX file.
        board: `name@version`.
        name: The name under which the model appears on the board.
        nonce: 32 random bytes.
    """
    author = key.public_key().public_bytes_raw().hex()
    digest = hashlib.sha256(model).hexdigest()
    text = _signed(board, name, digest, len(model), author, nonce.hex())
    signature = key.sign(CONTEXT + text).hex()
    return ModelManifest(board, name, digest, len(model), author, nonce.hex(), signature)


def read_manifest(plain: object) -> ModelManifest:
    """Return the manifest in plain data after checking its form; :func:`verify` checks what it claims.

    Raises:
        ManifestError: A field is missing, unknown, or not of its form.
    """
    if not isinstance(plain, Mapping):
        raise ManifestError("the manifest is not a JSON object. Next: make it with `choroid grid model submit`")
    unknown, missing = set(plain) - set(_FIELDS), set(_FIELDS) - set(plain)
    if unknown or missing:
        wrong = ", ".join(
            [*(f"{name} is missing" for name in sorted(missing)), *(f"{name!s:.40} is unknown" for name in unknown)]
        )
        raise ManifestError(f"the manifest is malformed: {wrong}. Next: make it with `choroid grid model submit`")
    if plain["format"] != FORMAT:
        raise ManifestError(f"the manifest is not of format {FORMAT}. Next: use a client of this release")
    forms = {"model_sha256": _HEX64, "author": _HEX64, "nonce": _HEX64, "signature": _HEX128, "name": _NAME}
    for field, form in forms.items():
        value = plain[field]
        if not isinstance(value, str) or len(value) > 2 * MAX_NAME or not form.match(value):
            raise ManifestError(f"the manifest's {field} has not the form {form.pattern}. Next: make it again")
    size = plain["model_bytes"]
    if not isinstance(plain["board"], str) or not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ManifestError("the manifest's board or model_bytes is malformed. Next: make it again")
    if len(plain["name"]) > MAX_NAME or len(plain["board"]) > 2 * MAX_NAME:
        raise ManifestError(f"a name in the manifest is longer than {MAX_NAME} characters. Next: shorten it")
    return ModelManifest(**{name: plain[name] for name in _FIELDS[1:]})


def verify(manifest: ModelManifest, model: bytes, *, board: str, max_bytes: int) -> None:
    """Check a manifest against the model and the board.

    Raises:
        ManifestError: Another board, another size or hash, too large, or a signature that is not the author's.
    """
    if manifest.board != board:
        raise ManifestError(f"the manifest is for {manifest.board}, this is {board}. Next: sign it for this board")
    if len(model) > max_bytes:
        raise ManifestError(
            f"the model has {len(model)} bytes, {board} takes at most {max_bytes}. Next: make it smaller"
        )
    if len(model) != manifest.model_bytes or hashlib.sha256(model).hexdigest() != manifest.model_sha256:
        raise ManifestError(
            "the model is not the one of the manifest. Likely cause: the file changed. Next: sign it again"
        )
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(manifest.author))
        key.verify(bytes.fromhex(manifest.signature), CONTEXT + manifest.signed)
    except (InvalidSignature, ValueError):
        raise ManifestError(
            "the signature is not the author's. Likely cause: a changed field. Next: sign it again"
        ) from None


def _signed(board: str, name: str, model_sha256: str, model_bytes: int, author: str, nonce: str) -> bytes:
    fields = {
        "author": author,
        "board": board,
        "format": FORMAT,
        "model_bytes": model_bytes,
        "model_sha256": model_sha256,
        "name": name,
        "nonce": nonce,
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
