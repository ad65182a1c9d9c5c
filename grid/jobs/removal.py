"""Remove what a job needs no longer at a member: copies of data and programs at its end, the rest when a person says so."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

from controller.core.whole_file import locked
from grid.errors import GridError
from grid.jobs.folder import DATA, PROGRAMS

RESULTS = ("model-*.safetensors", "events.jsonl")
"""What stays of a rank whose job has ended; of another one also all that it needs to go on."""


def remove_copies(job: Path) -> None:
    """Remove the programs of a job, and the data that were decrypted for it; a later start makes them again."""
    for name in (DATA, PROGRAMS):
        shutil.rmtree(job / name, ignore_errors=True)


def remove_job(job: Path, *, ended: bool, everything: bool) -> int:
    """Remove a job from its member; its results stay, and what it needs to go on if it has not ended.

    Args:
        job: Its folder.
        ended: Whether it has ended.
        everything: Whether results go as well.

    Returns:
        The bytes that are free again.

    Raises:
        GridError: It runs, or cannot be removed.
    """
    before = _bytes_of(job)
    try:
        with ExitStack() as held:
            ranks = [each for each in job.glob("rank-*") if each.is_dir()]
            for rank in ranks:
                held.enter_context(locked(rank))
            if everything:
                shutil.rmtree(job)
                return before
            remove_copies(job)
            for rank in ranks if ended else ():
                kept = {each for pattern in RESULTS for each in rank.glob(pattern)}
                for each in set(rank.iterdir()) - kept:
                    shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    except BlockingIOError:
        raise GridError(
            f"the job in {job} runs. Next: end it (its owner's `submit`, or `choroid grid job run`)"
        ) from None
    except OSError as error:
        raise GridError(f"{job} cannot be removed ({error.strerror or error}). Next: check its rights") from None
    return before - _bytes_of(job)


def _bytes_of(folder: Path) -> int:
    return sum(each.lstat().st_size for each in folder.rglob("*") if not each.is_dir())
