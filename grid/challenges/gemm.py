"""Matrix products: whole numbers of four bits as float32, so that every machine gets the same exact result.

The sums stay below 2^24 for sizes up to 32,768: float32 represents them exactly in any order of summation, on processors and
accelerators. The hub computes a few random rows.
"""

from __future__ import annotations

import hashlib
from importlib import import_module
from typing import Any

import numpy as np

DIGEST = 8
SAMPLED_ROWS = 6
Floats = np.ndarray[Any, np.dtype[np.float32]]


def answer(nonce: bytes, size: int, count: int, device: str = "cpu") -> bytes:
    """Multiply `count` pairs of matrices of `size` × `size`; return the digest of each row.

    Args:
        nonce: What the matrices are made of.
        size: Rows and columns.
        count: Pairs.
        device: cpu, or a device of torch.
    """
    digests = []
    for number in range(count):
        left, right = _matrix(nonce, number, 0, size), _matrix(nonce, number, 1, size)
        product = left @ right if device == "cpu" else _on_device(left, right, device)
        digests += [_digest(row) for row in product]
    return b"".join(digests)


def fault(nonce: bytes, size: int, count: int, result: bytes, chosen: np.random.Generator) -> str:
    """Return what is wrong with an answer; empty when the sampled rows are right."""
    if len(result) != count * size * DIGEST:
        return "the answer has the wrong length"
    number = int(chosen.integers(count))
    left, right = _matrix(nonce, number, 0, size), _matrix(nonce, number, 1, size)
    for row in chosen.integers(size, size=SAMPLED_ROWS):
        at = (number * size + int(row)) * DIGEST
        if _digest(left[row] @ right) != result[at : at + DIGEST]:
            return f"row {row} of product {number} is wrong"
    return ""


def operations(size: int, count: int) -> float:
    """Return the floating-point operations of an answer."""
    return 2.0 * size**3 * count


def _matrix(nonce: bytes, number: int, side: int, size: int) -> Floats:
    seed = hashlib.sha256(nonce + bytes([side]) + number.to_bytes(4, "big")).digest()
    drawn = np.random.Generator(np.random.Philox(int.from_bytes(seed[:16], "big"))).bytes(size * size)
    return (np.frombuffer(drawn, np.uint8) & 15).astype(np.float32).reshape(size, size)


def _on_device(left: Floats, right: Floats, device: str) -> Floats:
    torch: Any = import_module("torch")
    product = torch.from_numpy(left).to(device) @ torch.from_numpy(right).to(device)
    found: Floats = product.cpu().numpy()
    return found


def _digest(row: Floats) -> bytes:
    return hashlib.blake2b(row.astype(np.uint32).tobytes(), digest_size=DIGEST).digest()
