"""`choroid audit`: sign a checkpoint and have it kept elsewhere; verify; export for an outsider."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from choroid.audit.rows import rows_of
from choroid.audit.store import CHECKPOINTS, PUBLIC, SUFFIX, AuditKey, keep, kept_key, kept_notes, key_path
from choroid.audit.time_stamps import TimeAuthority
from choroid.audit.verification import AuditLog, AuditVerdict, end_of, present_log, verified_journal
from choroid.common.failure import UserError
from controller.memory.identity import read_identity
from controller.signed_log.errors import SignedLogError
from controller.signed_log.merkle import EMPTY_ROOT, Growing, consistency_proof, leaf_hash
from controller.signed_log.notes import Checkpoint, NoteKey, body_of, signature_time, signed, signed_only_by

JOURNAL = "journal.db"
ROWS = "rows.jsonl"


class JournalPart:
    """The first rows of a journal, which a hub is asked to confirm."""

    def __init__(self, journal: Path, note: str, key: AuditKey) -> None:
        self._journal = journal
        self._key = key
        self._size = Checkpoint.parse(note).size
        self.note = note
        """The checkpoint of these rows."""

    def proof(self, old: int) -> list[bytes]:
        """Return the proof that the journal still begins with its first `old` rows; empty when it cannot."""
        if not 0 < old <= self._size:
            return []
        wanted: dict[tuple[int, int], bytes] = {}
        consistency_proof(old, self._size, lambda *at: wanted.setdefault(at, EMPTY_ROOT))
        tree = Growing(wanted)
        for leaf, _ in islice(rows_of(self._journal), self._size):
            tree.add(leaf_hash(leaf))
        return consistency_proof(old, self._size, lambda *at: tree.nodes[at])

    def signature(self, text: bytes) -> bytes:
        """Return the signature of the checkpoints' key."""
        return self._key.sign(text)


@dataclass(frozen=True, slots=True)
class HubWitness:
    """A hub that confirms checkpoints.

    Attributes:
        key: Its verifier key as a witness.
        ask: Asks it to confirm rows of a journal, with the number of rows that it has confirmed before as far as is known.
            Returns the line of its confirmation, or a checkpoint that it holds against the journal. Raises SignedLogError.
    """

    key: NoteKey
    ask: Callable[[JournalPart, int], tuple[str, str]]


class _Kept:
    """What is kept of a data folder: the private key, and in each place the notes."""

    def __init__(self, data: Path, rig: str, key: Path | None, folders: Sequence[Path]) -> None:
        rig_id = _identity(data)
        place = key_path(data, rig_id, key)
        self._stores: dict[Path, set[str]] = {}
        self.troubles: list[str] = []
        self.stamps: dict[str, bytes] = {}
        """The notes of all places, each with its time stamp or nothing."""
        for store in (place.with_suffix(SUFFIX), data / CHECKPOINTS, *(each / f"{rig_id}{SUFFIX}" for each in folders)):
            try:
                found = kept_notes(store)
            except UserError as error:
                self.troubles.append(str(error))
                continue
            self._stores[store] = set(found)
            self.stamps |= {note: stamp for note, stamp in found.items() if stamp or note not in self.stamps}
        former = ("/".join(body_of(note).split("\n")[0].split("/")[:2]) for note in self.stamps)
        origin = next((name for name in former if name.endswith(f"/{rig_id}")), "")  # its rig may have been renamed
        origin = origin or f"{re.sub(r'[^A-Za-z0-9._-]+', '-', rig)}/{rig_id}"
        self.key = kept_key(place, origin, new=not self.stamps)

    @property
    def log(self) -> AuditLog:
        """Return the present log."""
        return present_log(self.key.verifier, self.stamps)

    def keep(self, note: str, stamp: bytes = b"") -> None:
        """Keep a note in each place that does not have it."""
        for store, has in self._stores.items():
            try:
                if note not in has or (stamp and self.stamps.get(note) != stamp):
                    keep(store, note, stamp)
                    has.add(note)
            except OSError as error:
                self.troubles.append(
                    f"a checkpoint cannot be kept in {store} ({error}). Next: make its folder writable"
                )
        self.stamps[note] = stamp or self.stamps.get(note, b"")


def witness(
    data: Path,
    *,
    rig: str,
    key: Path | None,
    folders: Sequence[Path] = (),
    hubs: Sequence[HubWitness] = (),
    authority: TimeAuthority | None = None,
) -> dict[str, Any]:
    """Verify the journal, sign a checkpoint of it, have it confirmed, and keep it in each place.

    A journal that contradicts a checkpoint, here or at a hub, is not signed.

    Args:
        data: The data folder.
        rig: The rig's name.
        key: File of the private key; None for the usual place.
        folders: Folders of witnesses, such as a mounted folder of another machine.
        hubs: Hubs of the grid that confirm it.
        authority: An authority that stamps it with the time.

    Returns:
        `rows`, `signed_rows`, `faults` (contradictions) and `troubles` (places that could not be read, written or reached).

    Raises:
        UserError: The journal or the key cannot be used.
    """
    kept = _Kept(data, rig, key, folders)
    log = kept.log
    verdict = verified_journal(data / JOURNAL, log)
    faults, signed_rows = list(verdict.faults), verdict.signed_rows
    if not faults and verdict.rows:
        faults = _signed(data / JOURNAL, kept, log, verdict, hubs, authority)
        signed_rows = signed_rows if faults else verdict.rows
        kept.troubles += _publish(data / PUBLIC, log.key)
    return {
        "key": str(log.key),
        "rows": verdict.rows,
        "signed_rows": signed_rows,
        "faults": faults,
        "troubles": kept.troubles,
    }


def _signed(
    journal: Path,
    kept: _Kept,
    log: AuditLog,
    verdict: AuditVerdict,
    hubs: Sequence[HubWitness],
    authority: TimeAuthority | None,
) -> list[str]:
    """Sign, have confirmed and keep a checkpoint of the rows that were verified; return contradictions that hubs hold."""
    faults = []
    note = _note_of(verdict.rows, log.notes) or signed(
        kept.key, log.key.name, Checkpoint(log.key.name, verdict.rows, verdict.root).text
    )
    part = JournalPart(journal, signed_only_by(note, log.key), kept.key)
    for hub in hubs:
        if signature_time(note, hub.key) is not None:
            continue
        try:
            line, held = hub.ask(part, _confirmed_rows(log.notes, hub.key))
        except (SignedLogError, UserError) as error:
            kept.troubles.append(f"{hub.key.name} has not confirmed the checkpoint: {error}")
            continue
        note += line
        if held and signature_time(held, log.key) is not None:
            kept.keep(held)
            faults.append(
                f"{hub.key.name} holds a checkpoint over {Checkpoint.parse(held).size} rows that is not of them"
            )
    if faults:
        return faults
    stamp = kept.stamps.get(part.note, b"")
    if authority is not None and not stamp:
        try:
            stamp = authority.stamp(part.note)
        except UserError as error:
            kept.troubles.append(str(error))
    kept.keep(part.note, stamp)
    kept.keep(note)
    return faults


def renew(data: Path, *, rig: str, key: Path | None, folders: Sequence[Path] = (), reason: str) -> dict[str, Any]:
    """End the log of a journal that is not as it was signed, and begin another one: after a repair.

    The checkpoints of the former log are kept, with the signed reason. A hub has to watch the new key.

    Args:
        data: The data folder.
        rig: The rig's name.
        key: File of the private key; None for the usual place.
        folders: Folders of witnesses.
        reason: One line for those who verify later.

    Raises:
        UserError: The journal is as it was signed, the reason is not one line, or the journal or the key cannot be used.
    """
    kept = _Kept(data, rig, key, folders)
    log = kept.log
    verdict = verified_journal(data / JOURNAL, log)
    if not verdict.faults:
        raise UserError(f"the journal in {data} is as it was signed. Next: nothing; its log goes on")
    if not reason.strip() or len(reason.splitlines()) > 1:
        raise UserError("the reason must be one line. Next: --reason “what was repaired, and by whom”")
    kept.keep(end_of(kept.key, log.key.name, reason.strip()))
    return {"ended": log.key.name, "faults": list(verdict.faults), "reason": reason.strip(), "troubles": kept.troubles}


def verifier_key(source: Path) -> str:
    """Return the verifier key in a data folder or an export, which proves nothing against its owner. Raises UserError."""
    try:
        return (source / PUBLIC).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{source} has no verifier key ({error}). Next: run `choroid audit witness`, or name the key with --key"
        ) from None


def verify(
    source: Path,
    *,
    key: str,
    stores: Iterable[Path] = (),
    notes: Iterable[str] = (),
    hubs: Iterable[NoteKey] = (),
    authority: TimeAuthority | None = None,
) -> dict[str, Any]:
    """Verify a data folder or an export against its checkpoints.

    Args:
        source: The folder.
        key: Verifier key.
        stores: Further files of checkpoints: of a witness, or kept from an earlier export.
        notes: Further checkpoints, as hubs hold them.
        hubs: Verifier keys of hubs, each of which must have confirmed a checkpoint.
        authority: Whose time stamps are verified.

    Raises:
        UserError: The journal is not as it was signed, with every fault; or a file cannot be read.
    """
    stamps: dict[str, bytes] = dict.fromkeys(notes, b"")
    for store in (source / CHECKPOINTS, *stores):
        stamps |= {note: stamp for note, stamp in kept_notes(store).items() if stamp or note not in stamps}
    log = present_log(NoteKey.parse(key), stamps)
    if not log.notes:
        raise UserError(f"{source} has no checkpoints. Next: name a file of them with --checkpoints")
    exported = source / ROWS
    verdict = verified_journal(exported if exported.exists() else source / JOURNAL, log)
    confirmed = {each.name: _confirmed_rows(log.notes, each) for each in hubs}
    faults = list(verdict.faults) + [
        f"{name} has confirmed no checkpoint" for name, rows in confirmed.items() if not rows
    ]
    stamped = {note: stamp for note, stamp in stamps.items() if stamp and note in log.notes}
    times: list[str] = []
    if authority is not None:
        try:
            times = sorted(authority.time_of(stamp, note).isoformat() for note, stamp in stamped.items())
        except UserError as error:
            faults.append(str(error))
    if faults:
        raise UserError(
            f"the journal in {source} is not as it was signed: {'; '.join(faults)}. Likely cause: rows were changed"
            " or removed, or another journal was put in their place. Next: keep a copy as evidence, and compare it with a"
            " backup and with earlier exports"
        )
    return {
        "rows": verdict.rows,
        "signed_rows": verdict.signed_rows,
        "checkpoints": len({Checkpoint.parse(note).text for note in log.notes}),
        "key": str(log.key),
        "confirmed_rows": confirmed,
        "time_stamps": len(stamped),
        "stamped_utc": times,
        "ended": [{"log": name, "reason": reason} for name, reason in log.ended],
    }


def export(data: Path, out: Path, *, stores: Iterable[Path] = ()) -> dict[str, Any]:
    """Write rows, checkpoints and verifier key into a new folder, for verification by an outsider.

    Raises:
        UserError: A file cannot be read or written.
    """
    notes: dict[str, bytes] = {}
    for store in (data / CHECKPOINTS, *stores):
        notes |= {note: stamp for note, stamp in kept_notes(store).items() if stamp or note not in notes}
    try:
        key = (data / PUBLIC).read_text(encoding="utf-8")
        out.mkdir(parents=True)
        rows = 0
        with (out / ROWS).open("wb") as file:
            for leaf, _ in rows_of(data / JOURNAL):
                file.write(leaf + b"\n")
                rows += 1
        for note, stamp in notes.items():
            keep(out / CHECKPOINTS, note, stamp)
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
    """Return the checkpoint over `size` rows, that with the most confirmations; empty where there is none."""
    return max((note for note in notes if Checkpoint.parse(note).size == size), key=len, default="")


def _confirmed_rows(notes: Iterable[str], hub: NoteKey) -> int:
    """Return how many rows a hub has confirmed, as far as the notes tell."""
    return max((Checkpoint.parse(note).size for note in notes if signature_time(note, hub) is not None), default=0)


def _publish(path: Path, key: NoteKey) -> list[str]:
    try:
        if not path.exists() or path.read_text(encoding="utf-8") != f"{key}\n":
            path.write_text(f"{key}\n", encoding="utf-8")
    except OSError as error:
        return [f"{path} cannot be written ({error}). Next: make the data folder writable"]
    return []
