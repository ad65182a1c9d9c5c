"""The data folder of `choroid run`: whether it can be used, and where the files go when it cannot (A11).

A read-only, failed or foreign data folder must not stop heart, temperature and gas. A spare folder takes its place: private,
on this machine, at a path that follows from the data folder's own path, so that every command finds it. The controller runs
in degraded mode there. At the next start with a sound data folder the records are moved home.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from choroid.common.failure import UserError
from choroid.common.private import close_to_others
from choroid.running.folder_probe import carry, owner, probe_folder
from choroid.running.journal_opening import JOURNAL
from choroid.running.local_agent import LOCAL as LOCAL_AGENT
from controller.attachments.store import FOLDER as ATTACHMENTS
from controller.gate.latch import NAME as LATCH
from controller.gate.latch import UNKNOWN, Latch, SecondPlace
from controller.gate.runtime_folders import (
    SERVICE,
    is_private,
    own_bases,
    shared,
    shared_bases,
    spare_name,
)
from controller.guard.wire import LOCK, LOG, PLAN, SEEN, SOCKET
from controller.journal.file import RECORDS
from controller.links.ownership import OWNER, holders
from controller.memory.calibrations import FILE as CALIBRATIONS
from controller.memory.identity import FILE as IDENTITY
from controller.memory.quarantine import SUFFIX, quarantine_path
from controller.runs.library import FOLDER as PROTOCOLS
from dashboards.auth import FILE as CREDENTIALS
from dashboards.local import SOCKET as PAGE_SOCKET
from nerves.credentials import FILE as AGENT_CREDENTIALS
from nerves.recording.catalogue import FOLDER as RECORDINGS

ENDPOINT = "endpoint.json"
"""Where a running controller answers, and the token of its owner."""
FOLDERS = ("recipes", ATTACHMENTS, PROTOCOLS, RECORDINGS)
"""Folders of the data folder."""
HEAD = "journal.db.head"
AGENTS = (AGENT_CREDENTIALS, LOCAL_AGENT)
"""Files of the agents of the electrode engine."""
CARRIED = (LATCH, IDENTITY, CALIBRATIONS, CREDENTIALS, *AGENTS, HEAD, RECORDS)
"""Files that the spare folder begins with, as far as they can be read."""
HOME = (LATCH, RECORDS)
"""Files that go home when the data folder is sound again. The guard's and the page's files are made again."""
OTHER_FILES = (
    OWNER,
    IDENTITY,
    HEAD,
    SOCKET,
    LOCK,
    PLAN,
    LOG,
    SEEN,
    CREDENTIALS,
    ENDPOINT,
    PAGE_SOCKET,
    "nerves.json",
    *AGENTS,
    *FOLDERS,
    "controller.log",
)
"""Names of other files; with the databases they are looked at before anything opens them."""
DATABASES = ("history.db", "outbox", "notices.db", "stimulation.db")


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Where a controller keeps its files."""

    records: Path
    """The folder for everything that is written."""
    guard: Path
    """The folder in which the guard has its socket."""
    problem: str = ""
    """Why `records` is a spare folder, for people; empty when it is the data folder itself."""


def open_folder(data: Path, plan: str) -> DataFolder:
    """Find the folder to use for `data`; `plan` is the text of the guard's plan, which has to fit into it.

    Raises:
        UserError: when neither `data` nor any spare folder can be written.
    """
    spare = spare_of(data)
    found = probe_folder(data, plan)
    problem = found.problem
    if spare is not None and (holders(spare / LOCK) or holders(spare / OWNER)):
        problem = f"the guard or the controller of an earlier start still uses the spare folder {spare}"
    if not problem:
        if spare is not None:
            _bring_home(spare, data)
        if (data / JOURNAL).exists():  # a data folder, and not one that `--data` names by a slip
            close_to_others(data)
        quarantine_unusable(data)
        return DataFolder(data, data)
    carried = True
    if spare is None:
        spare = _make_spare(data)
        carried = found.answers and carry(data, spare, CARRIED, LATCH)
        if not carried:
            _take_from_second_place(spare)
    quarantine_unusable(spare)
    stop = Latch(spare).read()
    problem = (
        f"the data folder {data} cannot be used ({problem}); files go to {spare}, which does not outlive a restart of this"
        " computer."
        + ("" if stop is None or stop.known else f" {UNKNOWN[0].upper()}{UNKNOWN[1:]}.")
        + f" Likely cause: {found.cause}. Next: {found.action}; then start controller and guard again; the records are"
        " moved home then, and `choroid repair` takes them into the journal"
    )
    print(f"Choroid: {problem}", file=sys.stderr, flush=True)
    return DataFolder(spare, data if found.guarded else spare, problem)


def folders_of(data: Path) -> list[Path]:
    """Return the folders in which a controller of `data` may have left its files, the likelier first."""
    spare = spare_of(data)
    return [data] if spare is None else [spare, data]


def spare_of(data: Path) -> Path | None:
    """Return the spare folder of `data` if there is one of this user; root also finds that of the owner of `data`.

    The data folder itself is looked at by a child process only, and only where root finds a folder of another user.
    """
    user, name = os.geteuid(), spare_name(data)
    found = _private_spare((SERVICE, *own_bases(), *shared_bases(user)), name, user)
    if found is not None or user != 0:
        return found
    return _spare_of_service(name) or _spare_of_owner(data, name)


def _private_spare(bases: Iterable[Path], name: str, user: int) -> Path | None:
    """Return the first folder `name` in one of `bases` that is private to `user`, as is the base."""
    return next((base / name for base in bases if is_private(base, user) and is_private(base / name, user)), None)


def _spare_of_service(name: str) -> Path | None:
    """Return the spare folder of the service. Only root makes folders in /run, so its owner is the service's user."""
    with suppress(OSError):
        return _private_spare((SERVICE,), name, SERVICE.lstat().st_uid)
    return None


def _spare_of_owner(data: Path, name: str) -> Path | None:
    """Return the spare folder of the owner of `data` in the shared folders; `data` is looked at only if there is any."""
    others = any((base / name).exists() for folder in shared() for base in folder.glob("choroid-*"))
    if not others or (other := owner(data)) is None:
        return None
    return _private_spare(shared_bases(other), name, other)


def quarantine_unusable(folder: Path) -> None:
    """Rename what has the name of a needed file and cannot be one: a directory, a link to nothing.

    What cannot be renamed stays; the module that opens it reports it.
    """
    try:
        entries = list(folder.iterdir())
    except OSError:
        return
    for path in entries:
        needed = path.name in OTHER_FILES or path.name.startswith(DATABASES)
        if not needed or SUFFIX in path.name or _fits(path):
            continue
        with suppress(OSError):
            kept = quarantine_path(path)
            path.rename(kept)
            print(
                f"Choroid: {path} is no file that can be used; it is kept as {kept.name}", file=sys.stderr, flush=True
            )


def _fits(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    if path.name in FOLDERS:
        return stat.S_ISDIR(mode)
    return stat.S_ISSOCK(mode) if path.name in (SOCKET, PAGE_SOCKET) else stat.S_ISREG(mode)


def _make_spare(data: Path) -> Path:
    user = os.geteuid()
    for base in (*own_bases(), *shared_bases(user)):
        spare = base / spare_name(data)
        try:
            base.mkdir(mode=0o700, exist_ok=True)
            spare.mkdir(mode=0o700, exist_ok=True)
            (spare / PLAN).touch()
        except OSError:
            continue
        if not (is_private(base, user) and is_private(spare, user)):
            continue
        return spare
    raise UserError(
        f"neither {data} nor any folder for temporary files can be written, so no guard can be reached; nothing was done to"
        " the rig. Likely cause: every disk is full, failed or read-only. Next: set XDG_RUNTIME_DIR to a private folder that"
        " can be written"
    )


def _only_unknown(spare: Path) -> bool:
    stop = Latch(spare).read()
    return stop is not None and not stop.known


def _take_from_second_place(spare: Path) -> None:
    """Begin a spare folder, for a data folder of which nothing could be read, with the stop that this machine recorded.

    Where there is no record either, whether a stop stands is not known; the spare folder keeps that until a person decides.
    """
    found, stop = SecondPlace(spare).read()
    if stop is not None:
        Latch(spare).set(stop.who, stop.reason)
    elif not found:
        Latch(spare).set("unknown", UNKNOWN, known=False)


def _bring_home(spare: Path, data: Path) -> None:
    """Move the records of a degraded time into the data folder, and remove the spare one."""
    try:
        for pattern in HOME:
            for path in spare.glob(pattern):
                there = data / path.name
                if pattern == RECORDS and there.exists():
                    continue  # it was carried from there
                if pattern == LATCH and _only_unknown(spare):
                    continue  # what was not known is known now: the data folder can be read
                shutil.copyfile(path, there)
    except OSError as error:
        print(
            f"Choroid: the records in {spare} could not be moved to {data} ({error}); they stay there. Next: copy"
            f" {RECORDS} by hand, then run `choroid repair`",
            file=sys.stderr,
            flush=True,
        )
        return
    shutil.rmtree(spare, ignore_errors=True)
