"""Verify a journal against its signed checkpoints: the rows, the chain, and that it begins with what was signed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from choroid.audit.rows import chain_fault, rows_of
from controller.journal.terms import GENESIS
from controller.signed_log.merkle import EMPTY_ROOT, Growing, leaf_hash
from controller.signed_log.notes import Checkpoint, NoteKey, signature_time


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """Number of rows, the root over them, rows that checkpoints confirm, and faults (none: nothing was changed)."""

    rows: int
    root: bytes
    signed_rows: int
    faults: tuple[str, ...]


def verified_journal(source: Path, notes: Iterable[str], key: NoteKey) -> AuditVerdict:
    """Verify the rows in `source` against every checkpoint that was kept of them.

    Raises:
        SignedLogError: A checkpoint is malformed.
        UserError: The rows cannot be read.
    """
    wanted = {note: Checkpoint.parse(note) for note in notes}
    sizes = {each.size for each in wanted.values()}
    tree, roots, head = Growing(), {0: EMPTY_ROOT}, GENESIS
    faults: list[str] = []
    for leaf, row in rows_of(source):
        fault = chain_fault(row, tree.size + 1, head)
        if fault and not faults:
            faults.append(fault)
        head = row.hash
        tree.add(leaf_hash(leaf))
        if tree.size in sizes:
            roots[tree.size] = tree.root
    good = 0
    for note, checkpoint in sorted(wanted.items(), key=lambda each: each[1].size):
        if checkpoint.origin != key.name or signature_time(note, key) is None:
            faults.append(f"a checkpoint over {checkpoint.size} rows has no valid signature of {key.name}")
        elif checkpoint.size > tree.size:
            faults.append(f"the journal has {tree.size} rows, and {checkpoint.size} were signed: rows were removed")
        elif roots[checkpoint.size] != checkpoint.root:
            faults.append(
                f"of the first {checkpoint.size} rows, which were signed, at least one was changed; the first {good} are as"
                " signed"
            )
        else:
            good = checkpoint.size
    return AuditVerdict(tree.size, tree.root, good, tuple(faults))
