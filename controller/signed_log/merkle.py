"""Merkle trees as in RFC 6962: roots, proofs of inclusion and of consistency, and their verification.

A tree is read through `node(level, index)`: the hash over the 2^level leaves from index·2^level on. Only complete nodes are
read, so that a growing tree never rewrites one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence

Node = Callable[[int, int], bytes]
EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(leaf: bytes) -> bytes:
    """Return the hash of a leaf."""
    return hashlib.sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def completed(index: int, leaf: bytes, node: Node) -> Iterator[tuple[int, int, bytes]]:
    """Yield (level, index, hash) of every node that leaf number `index` completes, the leaf's first."""
    level, found = 0, leaf
    yield level, index, found
    while index & 1:
        found = node_hash(node(level, index - 1), found)
        level, index = level + 1, index >> 1
        yield level, index, found


def root(size: int, node: Node) -> bytes:
    """Return the root over the first `size` leaves."""
    return EMPTY_ROOT if size == 0 else _range(0, size, node)


class Growing:
    """The root of a tree that grows leaf by leaf, in the memory of its open nodes and of those that are wanted.

    Args:
        wanted: (level, index) of nodes that `nodes` shall have when they are complete.
    """

    def __init__(self, wanted: Collection[tuple[int, int]] = ()) -> None:
        self.size = 0
        self.nodes: dict[tuple[int, int], bytes] = {}
        self._wanted = frozenset(wanted)
        self._open: list[bytes] = []
        """The complete nodes from the left, one for each bit of the size."""

    def add(self, leaf: bytes) -> None:
        """Add the hash of a leaf."""
        for level, index, found in completed(self.size, leaf, lambda *_: self._open.pop()):
            if (level, index) in self._wanted:
                self.nodes[level, index] = found
        self._open.append(found)
        self.size += 1

    @property
    def root(self) -> bytes:
        """Return the root over all leaves so far."""
        if not self._open:
            return EMPTY_ROOT
        found = self._open[-1]
        for left in reversed(self._open[:-1]):
            found = node_hash(left, found)
        return found


def inclusion_proof(index: int, size: int, node: Node) -> list[bytes]:
    """Return the proof that leaf `index` is in the tree of `size` leaves.

    Raises:
        ValueError: There is no such leaf.
    """
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size}")
    return _path(index, 0, size, node)


def consistency_proof(old: int, new: int, node: Node) -> list[bytes]:
    """Return the proof that the tree of `new` leaves begins with that of `old` leaves.

    Raises:
        ValueError: Not 0 < old ≤ new.
    """
    if not 0 < old <= new:
        raise ValueError(f"no proof from size {old} to size {new}")
    return _subproof(old, 0, new, True, node)


def verify_inclusion(index: int, size: int, leaf: bytes, proof: Sequence[bytes], expected: bytes) -> bool:
    """Return whether `proof` shows the leaf with hash `leaf` at `index` of the tree with root `expected`."""
    if not 0 <= index < size:
        return False
    fn, sn, found = index, size - 1, leaf
    for step in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            found = node_hash(step, found)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            found = node_hash(found, step)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and found == expected


def verify_consistency(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Return whether `proof` shows that the tree of `new` leaves begins with the tree of `old` leaves."""
    if old == new:
        return not proof and old_root == new_root
    if old == 0:
        return not proof
    if old > new or not proof:
        return False
    steps = list(proof) if old & (old - 1) else [old_root, *proof]
    fn, sn = old - 1, new - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    first = second = steps[0]
    for step in steps[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            first, second = node_hash(step, first), node_hash(step, second)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            second = node_hash(second, step)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and first == old_root and second == new_root


def _split(size: int) -> int:
    """Return the largest power of two below `size`."""
    return 1 << ((size - 1).bit_length() - 1)


def _range(start: int, size: int, node: Node) -> bytes:
    level = size.bit_length() - 1
    if size == 1 << level:
        return node(level, start >> level)
    k = _split(size)
    return node_hash(_range(start, k, node), _range(start + k, size - k, node))


def _path(index: int, start: int, size: int, node: Node) -> list[bytes]:
    if size == 1:
        return []
    k = _split(size)
    if index < k:
        return [*_path(index, start, k, node), _range(start + k, size - k, node)]
    return [*_path(index - k, start + k, size - k, node), _range(start, k, node)]


def _subproof(old: int, start: int, size: int, whole: bool, node: Node) -> list[bytes]:
    if old == size:
        return [] if whole else [_range(start, size, node)]
    k = _split(size)
    if old <= k:
        return [*_subproof(old, start, k, whole, node), _range(start + k, size - k, node)]
    return [*_subproof(old - k, start + k, size - k, False, node), _range(start, k, node)]
