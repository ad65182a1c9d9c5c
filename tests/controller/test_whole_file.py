"""An export is there whole or not at all; one that is killed leaves no hidden file behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from controller.core import whole_file as module
from controller.core.whole_file import whole_file, whole_folder

WRITER = """
import os, sys
from pathlib import Path
from controller.core.whole_file import whole_file, whole_folder
with {what}(Path(sys.argv[1])) as part:
    ({target}).write_bytes(bytes(1_000_000))
    print("begun", flush=True)
    sys.stdin.read()
"""


def killed(what: str, out: Path) -> None:
    target = "part" if what == "whole_file" else "part / 'a'"
    words = [sys.executable, "-P", "-c", WRITER.format(what=what, target=target), str(out)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGKILL)


@pytest.fixture(params=["nameless", "named"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "named":
        monkeypatch.setattr(module, "_nameless", lambda folder: None)
    return str(request.param)


def test_a_file_appears_when_it_is_complete(tmp_path: Path, kind: str) -> None:
    out, own = tmp_path / "day.nwb", tmp_path / ".day.nwb.part"
    if kind == "nameless":
        own.write_text("a person's")
    with whole_file(out) as part:
        part.write_bytes(b"whole")
        assert not out.exists()
    assert out.read_bytes() == b"whole"
    with suppress(ValueError), whole_file(out) as part:
        part.write_bytes(b"half")
        raise ValueError("half")
    assert out.read_bytes() == b"whole"
    assert set(tmp_path.iterdir()) == ({out, own} if kind == "nameless" else {out})
    mask = os.umask(0)
    os.umask(mask)
    assert out.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_killed_export_leaves_no_file(tmp_path: Path) -> None:
    killed("whole_file", tmp_path / "day.nwb")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_export_left_of_a_folder_goes_with_the_next(tmp_path: Path) -> None:
    out = tmp_path / "week"
    killed("whole_folder", out)
    assert len(list(tmp_path.iterdir())) == 1
    others = {".week-backup", ".week.choroid-scratch-", ".week.choroid-scratch-12345678x", ".week.choroid-notes"}
    for name in others:
        (tmp_path / name).mkdir()
    with whole_folder(out) as part:
        (part / "a").write_text("whole")
        names = {each.name for each in tmp_path.iterdir()}
        assert others < names, "a person's folders stay"
        assert len(names - others) == 1, "its own"
        with suppress(ValueError), whole_folder(out):
            assert len(list(tmp_path.iterdir())) == 6, "that of a process that lives is left alone"
            raise ValueError("half")
    assert {each.name for each in tmp_path.iterdir()} == {"week", *others}
    assert (out / "a").read_text() == "whole"
