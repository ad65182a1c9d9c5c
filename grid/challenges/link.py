"""The network between member and hub: bytes in both directions, and the round trip."""

from __future__ import annotations

import hashlib

import numpy as np


def payload(nonce: bytes, size_bytes: int) -> bytes:
    """Return the bytes that a nonce stands for; they cannot be compressed."""
    seed = int.from_bytes(hashlib.sha256(nonce).digest()[:16], "big")
    return np.random.Generator(np.random.Philox(seed)).bytes(size_bytes)


def receipt(nonce: bytes, data: bytes) -> bytes:
    """Return the proof that `data` has arrived."""
    return hashlib.blake2b(data, key=nonce[:32], digest_size=32).digest()
