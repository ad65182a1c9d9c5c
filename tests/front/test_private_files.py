"""What a controller writes is for its own user, whatever the umask it was started with."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import closing
from pathlib import Path

import pytest

from choroid.common.private import close_to_others
from choroid.running.data_folder import quarantine_unusable
from tests.processes import Bench


def open_to_others(folder: Path) -> list[str]:
    """Files and folders in `folder` that other users could read, and itself."""
    found = [folder, *folder.rglob("*")]
    assert len(found) > 1
    modes = [(each, each.lstat().st_mode) for each in found if each.exists()]
    return [f"{each} {stat.S_IMODE(mode):o}" for each, mode in modes if not stat.S_ISLNK(mode) and mode & 0o077]


@pytest.mark.long
def test_S4_files_of_a_run_are_private_whatever_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    before = os.umask(0)
    try:
        bench = Bench(tmp_path)
        try:
            run = bench.run()
            bench.told("user", "add", "Ada", "--role", "operator")
            bench.protocol("start", "recycle", "--set", "min_batch=1 mL")
            assert open_to_others(bench.data) == []
            assert open_to_others(runtime) == []
            run.terminate()
            run.wait(60)
            bench.data.chmod(0o755)
            bench.run()
            assert open_to_others(bench.data) == []
        finally:
            bench.end()
    finally:
        os.umask(before)


def test_S4_a_folder_that_cannot_be_closed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file system without modes takes the change and does nothing."""
    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    close_to_others(tmp_path)
    assert "it cannot be closed. Next: " in capsys.readouterr().err


def test_A11_the_sockets_that_a_killed_controller_left_stay(tmp_path: Path) -> None:
    for name in ("guard.sock", "page.sock"):
        with closing(socket.socket(socket.AF_UNIX)) as left:
            left.bind(str(tmp_path / name))
    quarantine_unusable(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["guard.sock", "page.sock"]


def test_a_folder_that_is_shared_by_users_stays_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    close_to_others(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777
