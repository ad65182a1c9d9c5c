"""Processor cores: as many chains of hashes at the same time as cores are claimed.

A chain is PBKDF2 over PBKDF2: each segment needs the one before, so that a chain cannot be divided among cores. The hub
repeats one random segment of each chain.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np

SEGMENTS = 32
DIGEST = 32


def answer(nonce: bytes, chains: int, iterations: int) -> bytes:
    """Run `chains` chains of `iterations` hashes at the same time; return the end of each segment."""
    with ThreadPoolExecutor(chains) as pool:
        return b"".join(pool.map(lambda chain: _chain(nonce, chain, iterations), range(chains)))


def fault(nonce: bytes, chains: int, iterations: int, result: bytes, chosen: np.random.Generator) -> str:
    """Return what is wrong with an answer; empty when one random segment of each chain is right."""
    if len(result) != chains * SEGMENTS * DIGEST:
        return "the answer has the wrong length"
    for chain in range(chains):
        ends = [
            result[n : n + DIGEST] for n in range(chain * SEGMENTS * DIGEST, (chain + 1) * SEGMENTS * DIGEST, DIGEST)
        ]
        number = int(chosen.integers(SEGMENTS))
        before = _start(nonce, chain) if number == 0 else ends[number - 1]
        if _segment(before, nonce, iterations) != ends[number]:
            return f"segment {number} of chain {chain} is wrong"
    return ""


def _chain(nonce: bytes, chain: int, iterations: int) -> bytes:
    ends, last = [], _start(nonce, chain)
    for _ in range(SEGMENTS):
        last = _segment(last, nonce, iterations)
        ends.append(last)
    return b"".join(ends)


def _start(nonce: bytes, chain: int) -> bytes:
    return hashlib.sha256(nonce + chain.to_bytes(4, "big")).digest()


def _segment(before: bytes, nonce: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", before, nonce, max(iterations // SEGMENTS, 1))
