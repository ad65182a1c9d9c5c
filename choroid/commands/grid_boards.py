"""Parser of the boards' verbs of `choroid grid`."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

from choroid.commands.options import command, emit, json_option, seed


def add_boards(verbs: Any) -> None:
    """Add the verbs of the boards."""
    data = command(verbs, "data", _data, "make public data of a board: inputs and targets for training")
    data.add_argument("board", help="its name, such as decode-stimulus")
    data.add_argument("--seed", type=seed, default=1, help="a public seed (default 1)")
    data.add_argument("--out", type=Path, required=True, help="the .npz file to write")
    trial = command(verbs, "try", _try, "grade a model here, on public seeds and with every control")
    trial.add_argument("board", help="its name")
    trial.add_argument("model", type=Path, help="the ONNX file")
    trial.add_argument(
        "--seed", type=seed, action="append", metavar="N", help="public seed; repeatable (default 3 and 4)"
    )
    json_option(trial)
    bulk = command(
        verbs, "bulk", _bulk, "play many episodes of a board on public seeds, over processes or a Ray cluster"
    )
    bulk.add_argument("board", help="its name")
    bulk.add_argument("--baseline", required=True, help="what plays: a baseline of the board")
    bulk.add_argument("--seeds", type=seed, default=20, metavar="N", help="number of seeds, from 1 on (default 20)")
    bulk.add_argument("--controls", action="store_true", help="play with every control as well")
    bulk.add_argument("--jobs", type=int, default=1, help="processes of this machine (default 1)")
    bulk.add_argument("--ray", metavar="ADDRESS", help="a Ray cluster (local: on this machine); extra `bulk`")
    json_option(bulk)


def _boards() -> ModuleType:
    from choroid.common.extras import load_extra

    return load_extra("grid.commands.boards", "grid", needed_for="choroid grid", otherwise="use a rig without a grid")


def _data(arguments: argparse.Namespace) -> int:
    import numpy as np

    from choroid.board_tasks.catalogue import TASKS
    from choroid.common.failure import UserError

    board = _boards().shipped(arguments.board)
    task = TASKS[board.task.name]
    if task.data is None:
        raise UserError(
            f"{board.key} is a closed loop without data. Next: try a model with `choroid grid try {board.board}`"
        )
    with arguments.out.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **task.data(arguments.seed, board.task.params))
    print(arguments.out)
    return 0


def _try(arguments: argparse.Namespace) -> int:
    boards = _boards()
    answer = boards.try_model(arguments.board, arguments.model, arguments.seed or [3, 4])
    emit(answer, as_json=arguments.json, text=boards.try_text(answer))
    return 0


def _bulk(arguments: argparse.Namespace) -> int:
    from choroid.board_tasks import rollouts

    board = _boards().shipped(arguments.board)
    controls = tuple(board.controls.names) if arguments.controls else ()
    seeds = tuple(range(1, arguments.seeds + 1))
    plan = rollouts.RolloutPlan(board.task.name, board.task.params, arguments.baseline, seeds, (None, *controls))
    with rollouts.executor_of(arguments.jobs, arguments.ray) as executor:
        answer = rollouts.rollouts(plan, executor, rollouts.progress)
    emit(answer, as_json=arguments.json, text=rollouts.as_text(answer))
    return 0
