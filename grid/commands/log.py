"""`choroid grid log`: rows, verifier key, checkpoint, proofs, verification."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

from controller.signed_log import merkle
from controller.signed_log.notes import COSIGNATURE, ED25519, NoteKey
from grid.clock import as_text
from grid.commands.operate import opened
from grid.errors import GridError
from grid.hub.store import FILE
from grid.identity.keys import write_private
from grid.log.verification import require_sound, verify_log
from grid.log.witness import Witness
from grid.log.witnesses import LogWitnesses
from grid.member.confirmation import held_by
from grid.member.membership import HubAddress

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
            "log": str(NoteKey(store.name, ED25519, store.public_key)),
            "witness": str(NoteKey(store.name, COSIGNATURE, store.public_key)),
        }


def export(data: Path, folder: Path) -> dict[str, Any]:
    """Write rows, checkpoint and key into `folder`, for verification on another machine."""
    with opened(data) as store:
        rows = [body for _, body in store.log.rows(0, ALL_ROWS)]
        note = store.log.checkpoint(len(rows))
        key = str(NoteKey(store.name, ED25519, store.public_key))
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


def ask(data: Path, key: str, address: str) -> dict[str, Any]:
    """Ask a witness to confirm this hub's log from now on.

    Args:
        data: The hub's folder.
        key: Verifier key of the witness.
        address: Where it listens: host:port#fingerprint, as members join with.

    Raises:
        GridError: There is no such hub, or key or address is malformed.
    """
    HubAddress.parse(address)
    with opened(data) as store, store.transaction() as database:
        LogWitnesses(database, store.log).add(NoteKey.parse(key), address)
    return {"witness": NoteKey.parse(key).name, "address": address}


def watch(data: Path, key: str) -> dict[str, Any]:
    """Let this hub be a witness of the log with this verifier key.

    Raises:
        GridError: There is no such hub, the key is malformed or not that of a log, or the log has another key here.
    """
    log = NoteKey.parse(key)
    if log.algorithm != ED25519:
        raise GridError(f"the key of {log.name} is that of a witness. Next: take the line `log` of its keys")
    with opened(data) as store:
        Witness(store.database, store.log, store.utc).watch(log)
    return {"log": log.name}


def verify(
    source: Path, *, key: str, witnesses: list[str], required: int, kept: Path | None, asked: list[str]
) -> dict[str, Any]:
    """Verify the log of a hub's folder or of an export.

    In a hub's folder the log has to continue every checkpoint that witnesses hold against it, and a log that the hub is a
    witness of must not have two histories.

    Args:
        source: The folder.
        key: Verifier key of the log; empty takes the one in the folder, which proves nothing against its owner.
        witnesses: Verifier keys of witnesses.
        required: How many of them have to confirm the checkpoint.
        kept: File with the checkpoint of the last verification: the log has to begin with it. Replaced on success.
        asked: Addresses of witnesses (host:port#fingerprint): the log has to begin with what they have confirmed.

    Raises:
        GridError: The log is not sound, with every fault; or it or a witness cannot be read.
    """
    formers, others = [], []
    if (source / FILE).exists():
        with opened(source) as store:
            rows = [body for _, body in store.log.rows(0, ALL_ROWS)]
            note = store.log.checkpoint(len(rows))
            cosigned = store.log.cosigned_size()
            own = str(NoteKey(store.name, ED25519, store.public_key))
            formers += LogWitnesses(store.database, store.log).other_histories()
            others += [
                f"{each.key.name} has {each.words}"
                for each in Witness(store.database, store.log, store.utc).every()
                if each.words
            ]
            if required and 0 < cosigned < len(rows):
                rows, note = rows[:cosigned], store.log.checkpoint(cosigned)
    else:
        rows, note, own = _exported(source)
    log = NoteKey.parse(key or own)
    formers += [kept.read_text(encoding="utf-8")] if kept is not None and kept.exists() else []
    formers += asyncio.run(held_by(asked, log.name))
    verdict = verify_log(
        rows,
        note,
        log,
        witnesses=[NoteKey.parse(each) for each in witnesses],
        formers=formers,
        required=required,
    )
    require_sound(verdict)
    if kept is not None:
        write_private(kept, note.encode())
    if others:
        raise GridError(
            f"the log is sound: {verdict.rows} rows. But of the logs that this hub is a witness of: {'; '.join(others)}."
            " Next: ask the operator of that log; `choroid grid log list-watched --json` has both checkpoints"
        )
    return {"rows": verdict.rows, "root": base64.b64encode(verdict.root).decode(), "witnesses": list(verdict.witnesses)}


def watched(data: Path) -> dict[str, Any]:
    """Return the logs that this hub is a witness of. Raises :class:`GridError` when there is no hub in `data`."""
    with opened(data) as store:
        return {
            "watched": [
                {
                    "log": each.key.name,
                    "rows": each.size,
                    "confirmed_utc": as_text(each.confirmed_utc_s) if each.size else "",
                    "trouble": each.words,
                    "checkpoint": each.note,
                    "contradiction": each.other,
                }
                for each in Witness(store.database, store.log, store.utc).every()
            ]
        }


def _exported(folder: Path) -> tuple[list[bytes], str, str]:
    try:
        rows = (folder / ROWS_FILE).read_bytes().splitlines()
        note = (folder / CHECKPOINT_FILE).read_text(encoding="utf-8")
        return rows, note, (folder / KEY_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GridError(
            f"{folder} is neither the folder of a hub nor an export of a log ({error}). Next: `choroid grid log export`"
        ) from None
