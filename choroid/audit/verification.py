"""Verify a journal against its signed checkpoints: the rows, the chain, and that it begins with what was signed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from choroid.audit.rows import chain_fault, rows_of
from controller.journal.terms import GENESIS
from controller.signed_log.merkle import EMPTY_ROOT, Growing, leaf_hash
from controller.signed_log.notes import Checkpoint, NoteKey, NoteSigner, body_of, signature_time, signed

ENDED = "ended"
"""Second line of the note that ends a log; the reason is the third."""


@dataclass(frozen=True, slots=True)
class AuditLog:
    """The log of a journal's checkpoints.

    Attributes:
        key: Verifier key of the present log.
        notes: Its checkpoints.
        ended: (name, reason) of the logs before it, each ended by a person after a repair of the journal.
    """

    key: NoteKey
    notes: tuple[str, ...]
    ended: tuple[tuple[str, str], ...]


def present_log(key: NoteKey, notes: Iterable[str]) -> AuditLog:
    """Return the log that continues now, out of everything that was kept.

    Only the key of the checkpoints can end a log. The next one has the number 2 after its name, and so on.

    Args:
        key: Verifier key of any of the logs.
        notes: Checkpoints and ends of logs.
    """
    every = list(dict.fromkeys(notes))
    first = "/".join(key.name.split("/")[:2])
    own, ended = NoteKey(first, key.algorithm, key.public), list[tuple[str, str]]()
    while (reason := next((found for note in every if (found := _end(note, own))), "")) != "":
        every = [note for note in every if body_of(note).split("\n")[0] != own.name]
        ended.append((own.name, reason))
        own = NoteKey(f"{first}/{len(ended) + 1}", key.algorithm, key.public)
    return AuditLog(own, tuple(every), tuple(ended))


def end_of(key: NoteSigner, name: str, reason: str) -> str:
    """Return the signed note that ends the log `name`; the reason is one line."""
    return signed(key, name, f"{name}\n{ENDED}\n{reason}\n")


def _end(note: str, key: NoteKey) -> str:
    """Return why a note ends the log of `key`; empty when it does not."""
    lines = body_of(note).split("\n")
    if lines[:2] != [key.name, ENDED] or signature_time(note, key) is None:
        return ""
    return lines[2] or "no reason"


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """Number of rows, the root over them, rows that checkpoints confirm, and faults (none: nothing was changed)."""

    rows: int
    root: bytes
    signed_rows: int
    faults: tuple[str, ...]


def verified_journal(source: Path, log: AuditLog) -> AuditVerdict:
    """Verify the rows in `source` against every checkpoint that was kept of them.

    Raises:
        SignedLogError: A checkpoint is malformed.
        UserError: The rows cannot be read.
    """
    key, wanted = log.key, {note: Checkpoint.parse(note) for note in log.notes}
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
