"""Verify a log: every row, the chain, the tree, signatures, cosignatures, and that a former checkpoint is its beginning.

Nothing of the hub's own tables of hashes is trusted: the tree is computed from the rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.signed_log import merkle
from controller.signed_log.notes import Checkpoint, NoteKey, signature_time
from grid.errors import GridError
from grid.log.ledger import START


@dataclass(frozen=True, slots=True)
class LogVerdict:
    """What was found: number of rows, root, witnesses that confirm it, and faults (none: the log is sound)."""

    rows: int
    root: bytes
    witnesses: tuple[str, ...]
    faults: tuple[str, ...]


@dataclass(slots=True)
class _Tree:
    """A tree that grows by leaves and remembers the roots at the sizes that are asked for."""

    sizes: frozenset[int]
    roots: dict[int, bytes] = field(default_factory=dict)
    growing: merkle.Growing = field(default_factory=merkle.Growing)

    @property
    def size(self) -> int:
        return self.growing.size

    def add(self, leaf: bytes) -> None:
        self.growing.add(leaf)
        if self.size in self.sizes:
            self.roots[self.size] = self.growing.root


def verify_log(
    rows: Iterable[bytes],
    note: str,
    key: NoteKey,
    *,
    witnesses: Iterable[NoteKey] = (),
    formers: Iterable[str] = (),
    required: int = 0,
) -> LogVerdict:
    """Verify a log.

    Args:
        rows: Bodies of all rows, in order.
        note: The checkpoint over them.
        key: Verifier key of the log.
        witnesses: Verifier keys of its witnesses.
        formers: Earlier checkpoints that the reader or a witness kept: the log has to begin with each.
        required: How many witnesses have to confirm the checkpoint.

    Raises:
        GridError: The checkpoint or a key is malformed.
    """
    checkpoint = Checkpoint.parse(note)
    kept = {former: Checkpoint.parse(former) for former in formers}
    tree = _Tree(frozenset({checkpoint.size, *(each.size for each in kept.values())}), roots={0: merkle.EMPTY_ROOT})
    faults = list(_walk(rows, tree))
    if signature_time(note, key) is None:
        faults.append(f"the checkpoint has no valid signature of {key.name}")
    if checkpoint.origin != key.name:
        faults.append(f"the checkpoint is of {checkpoint.origin}, the key of {key.name}")
    if tree.roots.get(checkpoint.size) != checkpoint.root:
        faults.append(
            f"{tree.size} rows do not give the root of the checkpoint over {checkpoint.size}: a row was changed"
        )
    for former, begins in kept.items():
        faults += _against_former(tree, begins, former, key)
    confirming = tuple(each.name for each in witnesses if signature_time(note, each) is not None)
    if len(confirming) < required:
        faults.append(f"{len(confirming)} of {required} required witnesses confirm the checkpoint")
    return LogVerdict(tree.size, tree.roots.get(checkpoint.size, b""), confirming, tuple(faults))


def _walk(rows: Iterable[bytes], tree: _Tree) -> Iterable[str]:
    before = START
    for number, body in enumerate(rows):
        fault = _fault(body, number, before)
        if fault:
            yield f"row {number}: {fault}"
        before = hashlib.sha256(body).hexdigest()
        tree.add(merkle.leaf_hash(body))


def _fault(body: bytes, number: int, before: str) -> str:
    try:
        row = json.loads(body)
        if row["number"] != number:
            return f"it says that it is row {row['number']}"
        return (
            ""
            if row["before"] == before
            else "it does not name the hash of the row before it: one of the two was changed"
        )
    except (ValueError, KeyError, TypeError):
        return "it cannot be read"


def _against_former(tree: _Tree, kept: Checkpoint, former: str, key: NoteKey) -> Iterable[str]:
    if signature_time(former, key) is None:
        yield f"the former checkpoint has no valid signature of {key.name}"
    if tree.roots.get(kept.size) != kept.root:
        yield f"the log does not begin with the {kept.size} rows of the former checkpoint: its past was changed"


def require_sound(verdict: LogVerdict) -> None:
    """Raise :class:`GridError` with every fault."""
    if verdict.faults:
        raise GridError("the log is not sound: " + "; ".join(verdict.faults))
