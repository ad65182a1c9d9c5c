"""Disk: write a file made from the nonce to the disk, drop it from the cache, read it back; the hub repeats a block."""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from pathlib import Path

import numpy as np

from grid.clock import perf_s

BLOCK = 1 << 20
DIGEST = 8


def answer(nonce: bytes, size_bytes: int, folder: Path) -> bytes:
    """Write and read; return the seconds of both (two float64) and the digest of each block that was read.

    Raises:
        OSError: The file cannot be written or read.
    """
    blocks = max(size_bytes // BLOCK, 1)
    path = folder / "challenge.tmp"
    try:
        start = perf_s()
        _write(path, nonce, blocks)
        middle = perf_s()
        digests = _read(path, nonce)
        end = perf_s()
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    return struct.pack("<dd", middle - start, end - middle) + b"".join(digests)


def fault(nonce: bytes, size_bytes: int, result: bytes, chosen: np.random.Generator) -> str:
    """Return what is wrong with an answer; empty when random blocks are right."""
    blocks = max(size_bytes // BLOCK, 1)
    if len(result) != 16 + blocks * DIGEST:
        return "the answer has the wrong length"
    for number in chosen.integers(blocks, size=2):
        at = 16 + int(number) * DIGEST
        if _digest(_block(nonce, int(number)), nonce) != result[at : at + DIGEST]:
            return f"block {number} is wrong"
    return ""


def rates(size_bytes: int, result: bytes, elapsed_s: float) -> tuple[float, float]:
    """Return the rates of writing and reading (byte/s); shares of time are the member's, the sum is the hub's."""
    said = struct.unpack("<dd", result[:16])
    share = min(max(said[0] / (said[0] + said[1]), 0.05), 0.95) if all(each > 0 for each in said) else 0.5
    return size_bytes / (elapsed_s * share), size_bytes / (elapsed_s * (1 - share))


def _write(path: Path, nonce: bytes, blocks: int) -> None:
    with path.open("wb") as file:
        for number in range(blocks):
            file.write(_block(nonce, number))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read(path: Path, nonce: bytes) -> list[bytes]:
    with path.open("rb") as file:
        return [_digest(block, nonce) for block in iter(lambda: file.read(BLOCK), b"")]


def _block(nonce: bytes, number: int) -> bytes:
    seed = hashlib.sha256(nonce + number.to_bytes(4, "big")).digest()
    return np.random.Generator(np.random.Philox(int.from_bytes(seed[:16], "big"))).bytes(BLOCK)


def _digest(block: bytes, nonce: bytes) -> bytes:
    return hashlib.blake2b(block, digest_size=DIGEST, key=nonce[:32]).digest()
