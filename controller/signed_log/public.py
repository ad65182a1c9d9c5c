"""Public Ed25519 keys: identities and signatures. The SHA-256 of a public key is the identity everywhere."""

from __future__ import annotations

import hashlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def fingerprint(public_key: bytes) -> str:
    """Return the identity of a public key (32 bytes): its SHA-256 in hexadecimal."""
    return hashlib.sha256(public_key).hexdigest()


def verified(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether `signature` of `message` was made with the private half of `public_key`."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
