"""Data folders of simulated laboratories with organoids of their own: what a model of many organoids is pooled from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from choroid.common.failure import UserError
from controller.core.whole_file import whole_file
from grid.tasks.recordings import recorded

SEEDS_FROM, SEEDS_OF_LABORATORY = 1_000_000, 1000
"""Seed of organoid k of laboratory n (both from 0): `SEEDS_FROM` + n · `SEEDS_OF_LABORATORY` + k. No board has them."""
MOST = 1000
"""Laboratories."""
SHORTEST_S, LONGEST_S = 30.0, 86_400.0
WANTED = "laboratories.json"
"""Says what the recordings of a folder are."""


@dataclass(frozen=True, slots=True)
class Laboratories:
    """What is made, the same for each laboratory; the last `tests` of its organoids are for tests, others for training."""

    laboratories: int = 8
    organoids: int = 6
    tests: int = 1
    seconds: float = 150.0
    electrodes: int = 16


def make_laboratories(
    folder: Path, wanted: Laboratories, done: Callable[[int, int], None] = lambda made, all: None
) -> list[Path]:
    """Write the recordings of simulated laboratories; each gets a folder with the folders `train` and `test`.

    A file that is there is left as it is, so that what was interrupted goes on.

    Args:
        folder: Where.
        wanted: What.
        done: Called after each recording with the number of those that are made, and of all.

    Returns:
        The data folder of each laboratory.

    Raises:
        UserError: There are no such laboratories, or the folder has recordings of others.
    """
    if not (0 < wanted.laboratories <= MOST and 0 <= wanted.tests < wanted.organoids <= SEEDS_OF_LABORATORY):
        raise UserError(
            f"there are 1 to {MOST} laboratories with 1 to {SEEDS_OF_LABORATORY} organoids each, of which at least one is for"
            " training. Next: choose other numbers"
        )
    _require_length(wanted.seconds)
    folder.mkdir(parents=True, exist_ok=True)
    about, kept = json.dumps(asdict(wanted)), folder / WANTED
    if kept.exists() and kept.read_text(encoding="utf-8") != about:
        raise UserError(f"{folder} has recordings of other numbers or another length. Next: give a new folder")
    kept.write_text(about, encoding="utf-8")
    made, whole = 0, wanted.laboratories * wanted.organoids
    folders = []
    for laboratory in range(wanted.laboratories):
        folders.append(folder / f"laboratory-{laboratory + 1}")
        for organoid in range(wanted.organoids):
            split = "train" if organoid < wanted.organoids - wanted.tests else "test"
            seed = SEEDS_FROM + laboratory * SEEDS_OF_LABORATORY + organoid
            write_recording(
                folders[-1] / split / f"organoid-{organoid + 1}.npz",
                f"laboratory-{laboratory + 1}/organoid-{organoid + 1}",
                seed,
                wanted.seconds,
                electrodes=wanted.electrodes,
            )
            made += 1
            done(made, whole)
    return folders


def write_recording(path: Path, organoid: str, seed: int, seconds: float, *, electrodes: int = 16) -> None:
    """Write the recording of a simulated organoid, unless the file is there. Raises :class:`UserError` for an odd length."""
    _require_length(seconds)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as part, part.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **recorded(organoid, seed, seconds, electrodes=electrodes))


def _require_length(seconds: float) -> None:
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise UserError(
            f"a recording has {SHORTEST_S:g} s to {LONGEST_S / 3600:g} h. Next: choose another length of the recordings"
        )
