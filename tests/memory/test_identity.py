"""The identity of a data folder: made once, kept, and another for every other folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.memory.identity import FILE, ID, kept_identity, read_identity


def test_an_identity_is_made_once_and_differs_between_folders(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert read_identity(one) == ""
    first = kept_identity(one)
    assert ID.fullmatch(first)
    assert kept_identity(one) == read_identity(one) == first
    assert kept_identity(two) != first
    assert (one / FILE).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"rig_id": "../x"}', b'{"rig_id": 7}', b"\xff\xfe"])
def test_a_damaged_file_is_kept_and_a_new_identity_begins(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(damage)
    rig_id = kept_identity(tmp_path)
    assert ID.fullmatch(rig_id)
    assert json.loads((tmp_path / FILE).read_text()) == {"rig_id": rig_id}
    assert (tmp_path / f"{FILE}.quarantined-1").read_bytes() == damage


def test_A11_a_folder_that_cannot_be_written_has_an_identity_for_this_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert ID.fullmatch(kept_identity(tmp_path / "absent"))
    assert "cannot be written" in caplog.text
