"""Write files and folders that appear when they are complete. What a killed process has begun takes no room."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path


@contextmanager
def whole_file(out: Path) -> Iterator[Path]:
    """Yield the path to write to; it becomes `out` when the block ends without an error, and vanishes otherwise.

    On Linux the file has no name until then: a process that is killed leaves nothing. On file systems without nameless files
    it is called `.NAME.part`, and the next export of that name writes over it.

    Raises:
        OSError: The file cannot be made.
    """
    descriptor = _nameless(out.parent)
    if descriptor is None:
        part = out.with_name(f".{out.name}.part")
        try:
            yield part
            part.replace(out)
        finally:
            part.unlink(missing_ok=True)
        return
    try:
        nameless = Path(f"/proc/self/fd/{descriptor}")
        yield nameless
        try:
            os.link(nameless, out, src_dir_fd=descriptor)  # the argument makes link follow /proc
        except FileExistsError:
            part = out.with_name(f".{out.name}.{secrets.token_hex(8)}.part")
            os.link(nameless, part, src_dir_fd=descriptor)
            part.replace(out)
    finally:
        os.close(descriptor)


def _nameless(folder: Path) -> int | None:
    """Return the descriptor of a new file without a name; None where there are none."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    except (AttributeError, OSError):
        return None


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Yield the folder to fill; it becomes `out` when the block ends without an error, and vanishes otherwise.

    What killed processes left of folders for the same `out` is removed. Each process locks its own.

    Raises:
        OSError: The folder cannot be made.
    """
    with scratch_folder(out.parent, f".{out.name}.choroid-") as outer:
        part = outer / "export"  # its permissions are the user's usual ones
        part.mkdir()
        yield part
        part.replace(out)


@contextmanager
def scratch_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Yield a new folder, which vanishes with the block; what killed processes left with the same prefix is removed.

    A folder that may be removed has the exact form of these names, and its process, which holds its lock, has ended.

    Raises:
        OSError: The folder cannot be made.
    """
    parent.mkdir(parents=True, exist_ok=True)
    form = re.compile(re.escape(prefix) + r"scratch-[a-z0-9_]{8}")
    for left in [each for each in parent.iterdir() if form.fullmatch(each.name)]:
        with suppress(OSError), locked(left):
            shutil.rmtree(left)
    made = Path(tempfile.mkdtemp(prefix=f"{prefix}new-", dir=parent))
    folder = made.with_name(made.name.replace(f"{prefix}new-", f"{prefix}scratch-", 1))
    try:
        with ExitStack() as stack:
            with suppress(OSError):  # where a file system has no locks, none is removed either
                stack.enter_context(locked(made))
            made.rename(folder)  # under a name that others look for only when it is locked
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. Raises BlockingIOError when another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
