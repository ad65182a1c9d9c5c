"""`choroid grid log`: rows, verifier key, checkpoint, proofs, verification."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from grid.commands.operate import opened
from grid.errors import GridError
from grid.hub.store import FILE
from grid.identity.keys import write_private
from grid.log import merkle
from grid.log.notes import COSIGNATURE, ED25519, NoteKey
from grid.log.verification import require_sound, verify_log

ROWS_FILE = "rows.jsonl"
CHECKPOINT_FILE = "checkpoint"
KEY_FILE = "key"
ALL_ROWS = 1 << 40


def show(data: Path, limit: int) -> dict[str, Any]:
    """Return the last rows. Raises :class:`GridError` when there is no hub in `data`."""
    with opened(data) as store:
        first = max(store.log.size - limit, 0)
        return {"rows": [json.loads(body) for _, body in store.log.rows(first, limit)]}


def keys(data: Path) -> dict[str, Any]:
    """Return the verifier keys of a hub: of its log, and of its cosignatures as a witness."""
    with opened(data) as store:
        return {
            "log": str(NoteKey(store.name, ED25519, store.key.public)),
            "witness": str(NoteKey(store.name, COSIGNATURE, store.key.public)),
        }


def export(data: Path, folder: Path) -> dict[str, Any]:
    """Write rows, checkpoint and key into `folder`, for verification on another machine."""
    with opened(data) as store:
        rows = [body for _, body in store.log.rows(0, ALL_ROWS)]
        note = store.log.checkpoint(len(rows))
        key = str(NoteKey(store.name, ED25519, store.key.public))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ROWS_FILE).write_bytes(b"".join(row + b"\n" for row in rows))
    (folder / CHECKPOINT_FILE).write_text(note, encoding="utf-8")
    (folder / KEY_FILE).write_text(key + "\n", encoding="utf-8")
    return {"rows": len(rows), "folder": str(folder)}


def prove(data: Path, row: int) -> dict[str, Any]:
    """Return the proof that a row is in the log."""
    with opened(data) as store:
        size = store.log.size
        try:
            proof = merkle.inclusion_proof(row, size, store.log.node)
        except ValueError as error:
            raise GridError(f"{error}. Next: name a row from 0 to {size - 1}") from None
        body = store.log.rows(row, 1)[0][1]
        return {
            "row": row,
            "leaf_hash": base64.b64encode(merkle.leaf_hash(body)).decode(),
            "proof": [base64.b64encode(each).decode() for each in proof],
            "checkpoint": store.log.checkpoint(size),
        }


def verify(source: Path, *, key: str, witnesses: list[str], required: int, kept: Path | None) -> dict[str, Any]:
    """Verify the log of a hub's folder or of an export.

    Args:
        source: The folder.
        key: Verifier key of the log; empty takes the one in the folder, which proves nothing against its owner.
        witnesses: Verifier keys of witnesses.
        required: How many of them have to confirm the checkpoint.
        kept: File with the checkpoint of the last verification: the log has to begin with it. Replaced on success.

    Raises:
        GridError: The log is not sound, with every fault; or it cannot be read.
    """
    if (source / FILE).exists():
        with opened(source) as store:
            rows = [body for _, body in store.log.rows(0, ALL_ROWS)]
            note = store.log.checkpoint(len(rows))
            cosigned = store.log.cosigned_size()
            own = str(NoteKey(store.name, ED25519, store.key.public))
            if required and 0 < cosigned < len(rows):
                rows, note = rows[:cosigned], store.log.checkpoint(cosigned)
    else:
        rows, note, own = _exported(source)
    former = kept.read_text(encoding="utf-8") if kept is not None and kept.exists() else ""
    verdict = verify_log(
        rows,
        note,
        NoteKey.parse(key or own),
        witnesses=[NoteKey.parse(each) for each in witnesses],
        former=former,
        required=required,
    )
    require_sound(verdict)
    if kept is not None:
        write_private(kept, note.encode())
    return {"rows": verdict.rows, "root": base64.b64encode(verdict.root).decode(), "witnesses": list(verdict.witnesses)}


def _exported(folder: Path) -> tuple[list[bytes], str, str]:
    try:
        rows = (folder / ROWS_FILE).read_bytes().splitlines()
        note = (folder / CHECKPOINT_FILE).read_text(encoding="utf-8")
        return rows, note, (folder / KEY_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GridError(
            f"{folder} is neither the folder of a hub nor an export of a log ({error}). Next: `choroid grid log export`"
        ) from None
