"""X7: the database and all that the page opens do not tell the seeds of a present rotation."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grid.errors import GridError
from grid.grading.hosting import HostedBoards
from grid.grading.rotation import Rotation
from grid.grading.sealing import SecretSeal
from grid.grading.store import BoardStore
from grid.hub.owner import owned
from grid.identity.keys import KEY_FILE, IdentityKey
from tests.grid.filled_hub import SECRET, fill
from tests.grid.small_board import NAME, small_board


def sealed_store(folder: Path) -> BoardStore:
    return BoardStore(folder, SecretSeal(IdentityKey.in_folder(folder)))


def files_with(folder: Path, secret: bytes) -> set[str]:
    """Return the files below a folder in which a secret stands, as it is or in hexadecimal."""
    found = {path for path in folder.rglob("*") if path.is_file()}
    return {path.name for path in found for text in (secret, secret.hex().encode()) if text in path.read_bytes()}


def in_memory(pid: int, what: bytes) -> bool:
    """Whether bytes stand in the writable memory of a process."""
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            where, rights = line.split()[:2]
            first, last = (int(each, 16) for each in where.split("-"))
            if rights.startswith("rw"):
                memory.seek(first)
                if what in memory.read(last - first):
                    return True
    return False


def test_X7_neither_the_page_nor_the_database_can_tell_the_seeds_of_a_present_rotation(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    fill(folder)
    seeds = Rotation("decode-stimulus@3", 1, SECRET, 0.0).seeds(12)
    with closing(sealed_store(folder)) as store:
        assert store.rotation("decode-stimulus@3").seeds(12) == seeds  # type: ignore[union-attr]
    (folder / KEY_FILE).rename(tmp_path / KEY_FILE)  # the page works without: it needs no secret
    assert files_with(folder, SECRET) == set()
    words = [sys.executable, "-P", "-m", "choroid", "grid", "page", "serve", "--data", str(folder), "--port", "0"]
    page = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert page.stdout is not None
        address = page.stdout.readline().split()[1]
        with urllib.request.urlopen(f"{address}api/state", timeout=20) as answer:
            assert b"first-model" in answer.read()
        page.send_signal(signal.SIGSTOP)  # its memory stays as it is while it is read
        assert in_memory(page.pid, b"first-model")
        assert not in_memory(page.pid, SECRET)
        assert not in_memory(page.pid, str(seeds[0]).encode())
    finally:
        page.kill()
        page.communicate(timeout=20)
    with closing(BoardStore(folder)) as reader:
        assert reader.rotation_number("decode-stimulus@3") == 1
        with pytest.raises(GridError, match="without their secrets"):
            reader.rotation("decode-stimulus@3")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.set_baselines("decode-stimulus@3", 1, {})


def test_X7_a_secret_is_opened_with_the_key_of_the_hub_and_for_its_rotation_alone() -> None:
    key = IdentityKey.generate()
    seal = SecretSeal(key)
    sealed = seal.sealed(SECRET, "a")
    assert SECRET not in sealed
    assert sealed != seal.sealed(SECRET, "a")
    assert SecretSeal(key).opened(sealed, "a") == SECRET
    changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for other, box, about in (
        (SecretSeal(IdentityKey.generate()), sealed, "a"),
        (seal, sealed, "b"),
        (seal, changed, "a"),
        (seal, b"", "a"),
    ):
        with pytest.raises(GridError, match="Next: restore both from the same backup"):
            other.opened(box, about)


def test_X7_a_rotation_and_its_row_in_the_log_exist_together_or_not_at_all(tmp_path: Path) -> None:
    fails = False

    def append(kind: str, about: Mapping[str, Any]) -> None:
        hub.note(kind, about)
        if fails:
            raise GridError("the disk is full")

    small_board(tmp_path)
    with closing(owned(tmp_path)) as hub:
        service = HostedBoards(tmp_path, hub, append=append, clock=hub.utc).service
        board = service.board(NAME)
        first, rows = service.store.rotation(board.key), hub.log.size
        assert first is not None
        fails = True
        with pytest.raises(GridError, match="disk"):
            service._rotate(board, first)
        assert (service.store.rotation(board.key), hub.log.size) == (first, rows)
        assert service.store.ended_rotations(board.key) == []
        fails = False
        second = service._rotate(board, first)
        assert hub.log.size == rows + 1
        assert service.store.rotation(board.key) == second
        assert [each.secret for each in service.store.ended_rotations(board.key)] == [first.secret]
