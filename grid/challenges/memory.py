"""Main memory: fill an array from the nonce, then add shifted copies of it to itself; the hub repeats a block.

After four rounds each element depends on sixteen elements far from it, so that the whole array has to be there.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np

ROUNDS = 4
WORDS = 1 << 14
"""Words of eight bytes in a block."""
DIGEST = 8
PASSES = 3 * ROUNDS + 1
"""How often the array is read or written."""
Words = np.ndarray[Any, np.dtype[np.uint64]]


def answer(nonce: bytes, size_bytes: int) -> bytes:
    """Work on two arrays of `size_bytes` / 2; return the digest of each block at the end."""
    words = _words(size_bytes)
    array = _drawn(nonce, 0, words)
    other = np.empty_like(array)
    for multiplier, shift in _rounds(nonce, words):
        np.multiply(array, multiplier, out=other)
        other[: words - shift] += array[shift:]
        other[words - shift :] += array[:shift]
        array, other = other, array
    return b"".join(_digest(array[at : at + WORDS]) for at in range(0, words, WORDS))


def fault(nonce: bytes, size_bytes: int, result: bytes, chosen: np.random.Generator) -> str:
    """Return what is wrong with an answer; empty when a random block is right."""
    words = _words(size_bytes)
    if len(result) != words // WORDS * DIGEST:
        return "the answer has the wrong length"
    block = int(chosen.integers(words // WORDS))
    expected = _digest(_block(nonce, block * WORDS, words, _rounds(nonce, words)))
    return "" if expected == result[block * DIGEST : (block + 1) * DIGEST] else f"block {block} is wrong"


def moved_bytes(size_bytes: int) -> float:
    """Return the bytes that an answer reads and writes at least."""
    return PASSES * 8.0 * _words(size_bytes)


def _words(size_bytes: int) -> int:
    return max(size_bytes // 16 // WORDS, 2) * WORDS


def _rounds(nonce: bytes, words: int) -> list[tuple[np.uint64, int]]:
    found = []
    for number in range(ROUNDS):
        drawn = struct.unpack("<QQ", hashlib.sha256(nonce + bytes([7, number])).digest()[:16])
        found.append((np.uint64(drawn[0] | 1), drawn[1] % (words - 1) + 1))
    return found


def _block(nonce: bytes, first: int, words: int, rounds: list[tuple[np.uint64, int]]) -> Words:
    """Return the block from word `first` on, after `rounds`."""
    if not rounds:
        return _wrapped(nonce, first, words)
    multiplier, shift = rounds[-1]
    left = _block(nonce, first, words, rounds[:-1])
    return left * multiplier + _block(nonce, (first + shift) % words, words, rounds[:-1])


def _wrapped(nonce: bytes, first: int, words: int) -> Words:
    until_end = min(words - first, WORDS)
    parts = [_drawn(nonce, first, until_end)]
    if until_end < WORDS:
        parts.append(_drawn(nonce, 0, WORDS - until_end))
    return np.concatenate(parts)


def _drawn(nonce: bytes, first: int, count: int) -> Words:
    """Return words `first` to `first + count` of the nonce's stream; Philox makes four at a time."""
    source = np.random.Philox(int.from_bytes(hashlib.sha256(nonce).digest()[:16], "big"))
    source.advance(first // 4)
    skipped = first % 4
    return source.random_raw(skipped + count)[skipped:]


def _digest(block: Words) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(block).tobytes(), digest_size=DIGEST).digest()
