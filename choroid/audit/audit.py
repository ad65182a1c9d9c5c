"""`choroid audit`: sign a checkpoint and have it kept elsewhere; verify; export for a outsider."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from choroid.audit.rows import rows_of
from choroid.audit.store import CHECKPOINTS, PUBLIC, SUFFIX, keep, kept_key, kept_notes, key_path
from choroid.audit.verification import verified_journal
from choroid.common.failure import UserError
from controller.memory.identity import read_identity
from controller.signed_log.notes import Checkpoint, NoteKey, signed

JOURNAL = "journal.db"
ROWS = "rows.jsonl"


def witness(data: Path, *, rig: str, key: Path | None, folders: Sequence[Path]) -> dict[str, Any]:
    """Verify the journal, sign a checkpoint of it, and keep that next to the key, in the data folder and at each witness.

    A journal that contradicts a checkpoint is not signed.

    Args:
        data: The data folder.
        rig: The rig's name.
        key: File of the private key; None for the usual place.
        folders: Folders of witnesses, such as a mounted folder of another machine.

    Returns:
        `rows`, `signed_rows`, `faults` (contradictions) and `troubles` (places that could not be read or written).

    Raises:
        UserError: The journal or the key cannot be used.
    """
    rig_id = _identity(data)
    place = key_path(data, rig_id, key)
    next_to_key = place.with_suffix(SUFFIX)
    stores = [next_to_key, data / CHECKPOINTS, *(folder / f"{rig_id}{SUFFIX}" for folder in folders)]
    troubles: list[str] = []
    known: dict[Path, list[str]] = {}
    for store in stores:
        try:
            known[store] = kept_notes(store)
        except UserError as error:
            troubles.append(str(error))
    notes = list(dict.fromkeys(note for each in known.values() for note in each))
    origin = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', rig)}/{rig_id}"
    own = kept_key(place, origin, new=not notes)
    verdict = verified_journal(data / JOURNAL, notes, own.verifier)
    signed_rows = verdict.signed_rows
    if not verdict.faults and verdict.rows:
        note = _note_of(verdict.rows, notes) or signed(own, origin, Checkpoint(origin, verdict.rows, verdict.root).text)
        for store, has in known.items():
            try:
                if note not in has:
                    keep(store, note)
            except OSError as error:
                troubles.append(f"a checkpoint cannot be kept in {store} ({error}). Next: make its folder writable")
        signed_rows = verdict.rows
        troubles += _publish(data / PUBLIC, own.verifier)
    return {
        "key": str(own.verifier),
        "rows": verdict.rows,
        "signed_rows": signed_rows,
        "faults": list(verdict.faults),
        "troubles": troubles,
    }


def verify(source: Path, *, key: str, stores: Iterable[Path] = ()) -> dict[str, Any]:
    """Verify a data folder or an export against its checkpoints.

    Args:
        source: The folder.
        key: Verifier key; empty takes the one in the folder, which proves nothing against its owner.
        stores: Further files of checkpoints: of a witness, or kept from an earlier export.

    Raises:
        UserError: The journal is not as it was signed, with every fault; or a file cannot be read.
    """
    if not key:
        try:
            key = (source / PUBLIC).read_text(encoding="utf-8")
        except OSError as error:
            raise UserError(
                f"{source} has no verifier key ({error}). Next: run `choroid audit witness`, or name the key with --key"
            ) from None
    own = NoteKey.parse(key)
    notes = [note for store in (source / CHECKPOINTS, *stores) for note in kept_notes(store)]
    if not notes:
        raise UserError(f"{source} has no checkpoints. Next: name a file of them with --checkpoints")
    exported = source / ROWS
    verdict = verified_journal(exported if exported.exists() else source / JOURNAL, notes, own)
    if verdict.faults:
        raise UserError(
            f"the journal in {source} is not as it was signed: {'; '.join(verdict.faults)}. Likely cause: rows were changed"
            " or removed, or another journal was put in their place. Next: keep a copy as evidence, and compare it with a"
            " backup and with earlier exports"
        )
    return {"rows": verdict.rows, "signed_rows": verdict.signed_rows, "checkpoints": len(set(notes)), "key": str(own)}


def export(data: Path, out: Path, *, stores: Iterable[Path] = ()) -> dict[str, Any]:
    """Write rows, checkpoints and verifier key into a new folder, for verification by a outsider.

    Raises:
        UserError: A file cannot be read or written.
    """
    notes = dict.fromkeys(note for store in (data / CHECKPOINTS, *stores) for note in kept_notes(store))
    try:
        key = (data / PUBLIC).read_text(encoding="utf-8")
        out.mkdir(parents=True)
        rows = 0
        with (out / ROWS).open("wb") as file:
            for leaf, _ in rows_of(data / JOURNAL):
                file.write(leaf + b"\n")
                rows += 1
        for note in notes:
            keep(out / CHECKPOINTS, note)
        (out / PUBLIC).write_text(key, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"the export cannot be made ({error}). Next: `choroid audit witness`; name a new folder"
        ) from None
    return {"rows": rows, "checkpoints": len(notes), "folder": str(out), "key": key.strip()}


def _identity(data: Path) -> str:
    if rig_id := read_identity(data):
        return rig_id
    raise UserError(f"{data} has no identity of a rig. Likely cause: no controller has run there. Next: `choroid run`")


def _note_of(size: int, notes: Iterable[str]) -> str:
    return next((note for note in notes if Checkpoint.parse(note).size == size), "")


def _publish(path: Path, key: NoteKey) -> list[str]:
    try:
        if not path.exists() or path.read_text(encoding="utf-8") != f"{key}\n":
            path.write_text(f"{key}\n", encoding="utf-8")
    except OSError as error:
        return [f"{path} cannot be written ({error}). Next: make the data folder writable"]
    return []
