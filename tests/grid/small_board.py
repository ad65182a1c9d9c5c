"""A board of a hub's own that is graded within seconds, and a decoder for it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import yaml

from grid.boards.board import Board
from grid.boards.loading import load_boards, newest
from grid.tasks.decode import data
from grid.tasks.spikes import ridge
from tests.grid.boards.models import linear_decoder

NAME = "decode-small"
CLASSES, TRIALS, BINS, ELECTRODES = 4, 24, 5, 16


def small_board(folder: Path, **quota: int) -> Board:
    """Write the board into a hub's folder."""
    plain = newest(load_boards(), "decode-stimulus").model_dump()
    plain["version"] = 1
    plain["board"], plain["rotation"]["episodes"] = NAME, 5
    plain["baselines"], plain["ladder_step"] = ["chance"], 0.02
    plain["quota"] |= quota
    plain["task"]["params"] |= {"classes": CLASSES, "trials": TRIALS, "bins": BINS, "bin_ms": 20.0}
    plain["interface"]["inputs"][0]["shape"] = [TRIALS, BINS, ELECTRODES]
    plain["interface"]["outputs"][0]["shape"] = [TRIALS, CLASSES]
    boards = folder / "boards"
    boards.mkdir(parents=True, exist_ok=True)
    (boards / "small.yaml").write_text(yaml.safe_dump(plain))
    return Board.model_validate(plain)


@cache
def decoder(penalty: float = 10.0) -> bytes:
    """Return a decoder that was trained on public seeds; another penalty makes another file."""
    params = newest(load_boards(), "decode-stimulus").task.params
    params = params | {"classes": CLASSES, "trials": TRIALS, "bins": BINS, "bin_ms": 20.0}
    made = [data(seed, params) for seed in (1, 2, 3, 4)]
    stimulus = np.concatenate([each["stimulus"] for each in made]).astype(int)
    weights = ridge(np.concatenate([each["spikes"] for each in made]), np.eye(CLASSES)[stimulus], penalty)
    return linear_decoder(weights, TRIALS, BINS, ELECTRODES)
