"""Who holds a data directory's journal, read from the kernel's list of locks."""

from __future__ import annotations

import os
from pathlib import Path

from controller.links.ownership import holders


def _locks(folder: Path, *lines: str) -> Path:
    path = folder / "locks"
    path.write_text("".join(f"{number}: {line}\n" for number, line in enumerate(lines, start=1)))
    return path


def test_a_lock_on_a_file_of_another_file_system_with_the_same_number_is_not_taken_for_the_own_lock(
    tmp_path: Path,
) -> None:
    owner = tmp_path / "journal.db.owner"
    owner.touch()
    status = owner.stat()
    own = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    other = f"ff:fe:{status.st_ino}"
    line = "FLOCK  ADVISORY  WRITE {} {} 0 EOF"
    assert holders(owner, _locks(tmp_path, line.format(7, other), line.format(8, own))) == (8,)
    assert holders(owner, _locks(tmp_path, line.format(8, own), line.format(8, own))) == (8,)
    # On btrfs and overlay the device of stat is not the one of the list.
    assert holders(owner, _locks(tmp_path, line.format(9, other))) == (9,)
    assert holders(owner, _locks(tmp_path, f"-> {line.format(9, own)}", f"POSIX ADVISORY WRITE 3 {own} 0 EOF")) == ()
