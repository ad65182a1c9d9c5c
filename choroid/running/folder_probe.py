"""Look at a data folder in a process of its own, for at most :data:`ANSWER_S` seconds (A11).

A disk that hangs, or a file server that is gone, blocks the process that asks it, and neither a signal nor a thread ends
that. So a child process asks. A child that does not answer is left behind; it holds nothing that another process needs.
The limit counts from the child's word that it is ready, and only while it could run: a busy machine is no hung disk (B2).
"""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from choroid.common.child import python
from controller.children.patience import ChildSilent, Patience, wait_readable
from controller.core.disk import Remedy, remedy, write_trial
from controller.guard.wire import PLAN, connect

ANSWER_S = 10.0
"""How long (s) a folder may take to answer: a slow disk needs some seconds for one fsync, and a lost server never answers."""
START_S = 60.0
"""How long (s) the child may take to start while it has a processor and need not wait for the disk of the program."""
DIES_S = 1.0
"""How long (s) to wait for a killed child; one that a hung disk holds does not die."""
FOLDER = Remedy(
    "the disk is read-only, full or failed, a file server is gone, or the folder belongs to another user",
    "make it writable",
)
"""What may be wrong with a folder when its error does not say it."""
JOURNAL = "journal.db"
READY = b"ready"
"""First line of the child: its start is over."""


@dataclass(frozen=True, slots=True)
class FolderState:
    """What was found out about a data folder."""

    problem: str
    """Why it cannot be used, for people; empty when it can."""
    cause: str = FOLDER.cause
    action: str = FOLDER.action
    guarded: bool = False
    """Whether a guard answers in it."""
    answers: bool = True
    """Whether anything came back in time."""


def probe_folder(data: Path, plan: str) -> FolderState:
    """Try to write into `data`, which is made if need be; `plan` is the text of the guard's plan."""
    try:
        return FolderState(**_ask({"do": "look", "data": str(data.absolute()), "plan": plan}))
    except OSError as error:
        return FolderState(str(error), answers=False)


def carry(data: Path, spare: Path, patterns: Sequence[str], or_empty: str) -> bool:
    """Copy the files of `data` that match into `spare`, as far as they can be read; return whether all was tried in time.

    Of a file `or_empty` that is there and cannot be read, an empty copy is made.
    """
    words = {"do": "carry", "data": str(data.absolute()), "spare": str(spare), "patterns": [*patterns]}
    try:
        _ask(words | {"or_empty": or_empty})
    except OSError:
        return False
    return True


def owner(data: Path) -> int | None:
    """Return the user who owns `data`; None when it is not there or does not answer."""
    try:
        found: int | None = _ask({"do": "owner", "data": str(data.absolute())})["owner"]
    except OSError:
        return None
    return found


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    """Have a child carry out `request`.

    Raises:
        TimeoutError: Nothing came back within :data:`START_S` or :data:`ANSWER_S`.
        OSError: the child could not be started, or it failed.
    """
    child = subprocess.Popen(  # noqa: S603  (our own module; the folder's name goes through a pipe)
        python("choroid.running.folder_probe"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a child that is left behind must not hold the terminal or a log
    )
    to, answers = child.stdin, child.stdout
    assert to is not None  # noqa: S101  (pipes were asked for)
    assert answers is not None  # noqa: S101
    ready = False
    try:
        wait_readable(answers, Patience(child.pid, START_S, disk=True))
        ready = answers.readline().strip() == READY
        if ready:
            to.write(json.dumps(request).encode())
            to.close()
            wait_readable(answers, Patience(child.pid, ANSWER_S))
        found: dict[str, Any] = json.loads(answers.readline())
    except ChildSilent:
        raise TimeoutError(
            f"it has not answered for {ANSWER_S if ready else START_S:.0f} s: a disk that hangs, or a file server that is not"
            " reachable"
        ) from None
    except ValueError:
        raise OSError(f"it could not be looked at (exit status {child.wait()})") from None
    finally:
        child.kill()
        with suppress(OSError):
            to.close()
        answers.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(DIES_S)
    return found


# --- in the child ---------------------------------------------------------------------------------------


def _look(request: dict[str, Any]) -> dict[str, Any]:
    data = Path(request["data"])
    problem, cause, action = _unusable(data, request["plan"])
    return {"problem": problem, "cause": cause, "action": action, "guarded": _guarded(data)}


def _carry(request: dict[str, Any]) -> dict[str, Any]:
    for pattern in request["patterns"]:
        with suppress(OSError):
            for path in Path(request["data"]).glob(pattern):
                _copy(path, Path(request["spare"]), request["or_empty"])
    return {}


def _owner(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"owner": Path(request["data"]).stat().st_uid}
    except OSError:
        return {"owner": None}


def _unusable(data: Path, plan: str) -> tuple[str, str, str]:
    """Try to use `data`; return why it cannot be, the likely cause and the next action; why is empty when it can."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        try:
            write_trial(data, sync=True)
        except OSError as error:
            # On a full disk a controller goes on with the files that are there, and its rows wait for room.
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not _complete(data, plan):
                raise
    except OSError as error:
        return error.strerror or str(error), *remedy(error, other=FOLDER)
    return "", *FOLDER


def _complete(data: Path, plan: str) -> bool:
    """Return whether guard and controller have every file there that they cannot do without."""
    try:
        return (data / PLAN).read_text(encoding="utf-8") == plan and (data / JOURNAL).stat().st_size > 0
    except (OSError, ValueError):
        return False


def _guarded(data: Path) -> bool:
    """Return whether a guard answers in `data`: one that began before the folder failed has the links of the rig."""
    try:
        connect(data).close()
    except OSError:
        return False
    return True


def _copy(path: Path, folder: Path, or_empty: str) -> None:
    try:
        shutil.copyfile(path, folder / path.name)
    except OSError:
        if path.name != or_empty:
            raise
        (folder / path.name).touch()


if __name__ == "__main__":
    print(READY.decode(), flush=True)
    asked = json.load(sys.stdin)
    print(json.dumps({"look": _look, "carry": _carry, "owner": _owner}[asked["do"]](asked)))
