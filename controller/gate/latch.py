"""The latch of the emergency stop: a small file in the data folder, and a second one that fails independently of it.

It works without a journal, and the guard can set it for a controller that hangs. It is written without waiting for the
disk: it outlives every process, and the journal's row outlives a loss of power. In the data folder the file is there only
while a stop stands. The second place is a private folder of this machine; its file also records that none stands, so that a
data folder that cannot be read leaves the state known. Only the standard library is used, so that the guard can import it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from controller.gate.runtime_folders import SERVICE, bases_of, key_of, private_ones
from controller.memory.quarantine import quarantine_path

NAME = "emergency-stop.json"
UNREADABLE = "the file of the emergency stop cannot be read, so the stop stands"
UNKNOWN = "whether an emergency stop stands is not known: data folder and runtime folder could not be read"


@dataclass(frozen=True, slots=True)
class StopRecord:
    """An emergency stop that stands: who pressed it, and why.

    `known` is False where its state could be read nowhere: pumps are then at their basal state, nothing is dosed or
    stimulated, and temperature and gas are held, until a person decides.
    """

    who: str
    reason: str
    known: bool = True


class SecondPlace:
    """The record of the emergency stop outside of the data folder, in each usable private folder of this machine."""

    def __init__(self, data: Path) -> None:
        self._name = f"stop-{key_of(data)}.json"

    def read(self) -> tuple[bool, StopRecord | None]:
        """Return whether a record was found, and the stop that stands by it."""
        found = False
        for path in self._paths():
            try:
                kept = json.loads(path.read_text(encoding="utf-8"))
                stop = None if kept["stop"] is None else _record(kept["stop"])
            except (OSError, ValueError, KeyError, TypeError):
                continue
            found = True
            if stop is not None:
                return True, stop
        return found, None

    def write(self, stop: StopRecord | None) -> bool:
        """Record that `stop` stands, or with None that none does. Return whether any folder has taken it."""
        text = json.dumps({"stop": None if stop is None else _said(stop)})
        kept = False
        for path in self._paths(make=True):
            with suppress(OSError):
                new = path.with_name(f"{path.name}.{os.getpid()}.new")
                new.write_text(text, encoding="utf-8")
                new.replace(path)
                kept = True
        return kept

    def _paths(self, *, make: bool = False) -> list[Path]:
        user = os.geteuid()
        bases = bases_of(user)
        for base in bases if make else ():
            if base != SERVICE and base.parent.is_dir():
                with suppress(OSError):
                    base.mkdir(mode=0o700)
        return [base / self._name for base in private_ones(bases, user)]


class Latch:
    """The emergency stop of the rig with the data folder `data`: who pressed it, and why.

    `second` is its second place; without one (simulations) only the data folder keeps it.
    """

    def __init__(self, data: Path, second: SecondPlace | None = None) -> None:
        self._path = data / NAME
        self._second = second

    def read(self) -> StopRecord | None:
        """Return the stop that stands, by either place. A file that is there and cannot be read counts as a stop."""
        kept = self._read_file()
        if self._second is None or (kept is not None and kept.known):
            return kept
        found, second = self._second.read()
        if second is not None and second.known:
            return second
        if kept is not None and found and second is None:
            return None  # what was not known here is known there
        return kept

    def _read_file(self) -> StopRecord | None:
        try:
            return _record(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return StopRecord("unknown", UNREADABLE) if self._path.is_symlink() else None
        except (OSError, ValueError, KeyError, TypeError):
            return StopRecord("unknown", UNREADABLE)

    def set(self, who: str, reason: str, *, known: bool = True) -> None:
        """Write the stop; a later one replaces it. Raises OSError if no place takes it."""
        stop = StopRecord(who, reason, known)
        second = known and self._second is not None and self._second.write(stop)
        try:
            new = self._path.with_name(f"{NAME}.{os.getpid()}.new")
            new.write_text(json.dumps(_said(stop)), encoding="utf-8")
            self._move_directory()
            new.replace(self._path)
        except OSError:
            if not second:
                raise

    def clear(self) -> None:
        """Remove the stop. Raises OSError if the file cannot be removed, or the second place still says that it stands."""
        self._move_directory()
        self._path.unlink(missing_ok=True)
        self.confirm()

    def confirm(self) -> None:
        """Write the present state into the second place, where the data folder can be read.

        Raises:
            OSError: The second place says that a stop stands, and cannot be changed.
        """
        if self._second is None:
            return
        stop = self._read_file()
        if (stop is not None and not stop.known) or self._second.write(stop):
            return
        if stop is None and self._second.read()[1] is not None:
            raise OSError("the record of the emergency stop on this machine cannot be changed")

    def _move_directory(self) -> None:
        """Rename a directory at the file's path: it can be neither replaced nor removed as a file."""
        if self._path.is_dir() and not self._path.is_symlink():
            self._path.rename(quarantine_path(self._path))


def _said(stop: StopRecord) -> dict[str, object]:
    return {"who": stop.who, "reason": stop.reason, **({} if stop.known else {"known": False})}


def _record(said: dict[str, object]) -> StopRecord:
    return StopRecord(str(said["who"]), str(said["reason"]), said.get("known", True) is not False)
