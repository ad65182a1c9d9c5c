"""The guard's log: what it holds when the disk takes words late, or not at all."""

from __future__ import annotations

import os
import time
from pathlib import Path

from controller.guard.running import GuardLog


def until_read(path: Path, text: str) -> None:
    deadline = time.monotonic() + 10.0
    while not path.is_file() or path.read_text() != text:
        assert time.monotonic() < deadline, path.read_text() if path.is_file() else "nothing was written"
        time.sleep(0.01)


def test_nothing_is_opened_before_there_is_something_to_say(tmp_path: Path) -> None:
    path = tmp_path / "guard.log"
    log = GuardLog(path)
    log.close(5.0)
    assert not path.exists()


def test_lines_are_added_to_what_is_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "guard.log"
    path.write_text("before\n")
    log = GuardLog(path)
    log.add("one")
    until_read(path, "before\none\n")
    log.add("two")
    log.close(5.0)
    assert path.read_text() == "before\none\ntwo\n"


def test_D2_what_the_disk_did_not_take_is_written_with_the_next_line(tmp_path: Path) -> None:
    folder = tmp_path / "not there yet"
    log = GuardLog(folder / "guard.log")
    log.add("one")
    time.sleep(0.2)
    folder.mkdir()
    log.add("two")
    log.close(5.0)
    assert (folder / "guard.log").read_text() == "one\ntwo\n"


def test_a_disk_that_hangs_does_not_keep_the_guard_from_ending(tmp_path: Path) -> None:
    path = tmp_path / "guard.log"
    os.mkfifo(path)  # a process that opens it for writing waits for a reader
    log = GuardLog(path)
    begun = time.monotonic()
    log.add("one")
    log.close(0.2)
    assert time.monotonic() - begun < 60.0, "a writer that is waited for never ends here"
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))  # lets the writer go
