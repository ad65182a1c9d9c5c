"""Parser of the boards' verbs of `choroid grid`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from choroid.commands.options import command, emit, json_option, seed, subject
from grid.commands.data_parser import add_data
from grid.commands.parts import FOLDER, part
from grid.commands.tuning_parser import add_simulate


def add_boards(verbs: Any) -> None:
    """Add the subjects `board`, `data`, `model` and `submission`."""
    boards = subject(verbs, "board", "boards, which grade models: list, show, play")
    models = subject(verbs, "model", "models for a board: try, submit, run")
    _member_parsers(verbs, boards, models)
    data_sets = add_data(verbs)
    add_simulate(data_sets)
    data = command(data_sets, "make", _data, "make public data of a board: inputs and targets for training")
    data.add_argument("board", help="its name, such as decode-stimulus, or its file")
    data.add_argument("--seed", type=seed, default=1, help="a public seed (default 1)")
    data.add_argument("--out", type=Path, required=True, help="the .npz file to write")
    json_option(data)
    trial = command(models, "try", _try, "grade a model here, on public seeds and with every control")
    trial.add_argument("board", help="its name or its file")
    trial.add_argument("model", type=Path, help="the ONNX file")
    trial.add_argument(
        "--seed",
        type=seed,
        action="append",
        metavar="N",
        help="public seed; repeatable (default: as many as a rotation has, from 3 on)",
    )
    _spread_options(trial)
    json_option(trial)
    play = command(
        boards, "play", _play, "play many episodes of a board on public seeds, over processes or a Ray cluster"
    )
    play.add_argument("board", help="its name or its file")
    play.add_argument("--baseline", required=True, help="what plays: a baseline of the board")
    play.add_argument("--seeds", type=seed, default=20, metavar="N", help="number of seeds (default 20)")
    play.add_argument("--first", type=seed, default=1, metavar="SEED", help="the first of them (default 1)")
    play.add_argument("--controls", action="store_true", help="play with every control as well")
    _spread_options(play)
    json_option(play)


def _spread_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=1, help="processes of this machine (default 1)")
    parser.add_argument("--ray", metavar="ADDRESS", help="a Ray cluster (local: on this machine); extra `bulk`")


def _member_parsers(verbs: Any, boards: Any, models: Any) -> None:
    submit = command(models, "submit", _submit, "submit a model to a board of the hub")
    submit.add_argument("board", help="its name, such as decode-stimulus")
    submit.add_argument("model", type=Path, help="the ONNX file")
    submit.add_argument("--name", default="", help="name on the board (default: the file's)")
    submissions = subject(verbs, "submission", "submissions of yours: show")
    submission = command(submissions, "show", _submission, "show the state of a submission of yours")
    submission.add_argument("submission", help="its id, as `choroid grid model submit` prints it")
    listed = command(boards, "list", _board, "list the boards of the hub")
    listed.set_defaults(board="")
    shown = command(boards, "show", _board, "show a board with its ranking")
    shown.add_argument("board", help="its name")
    run = command(models, "run", _run, "run the best model of a board on the hub's side; its weights stay there")
    run.add_argument("board", metavar="BOARD@best", help="the board whose best model runs")
    run.add_argument("--input", type=Path, required=True, help=".npz or .json file with the inputs of the board")
    run.add_argument("--out", type=Path, help="the .npz file to write (default: print the outputs)")
    for parser in (submit, submission):
        parser.add_argument("--wait", action="store_true", help="wait until it is graded")
    for parser in (submit, submission, listed, shown, run):
        parser.add_argument("--data", type=Path, default=FOLDER, help=f"data folder of the member (default: {FOLDER})")
        json_option(parser)


def _boards() -> ModuleType:
    return part("boards")


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _submit(arguments: argparse.Namespace) -> int:
    submissions = part("submissions")
    answer = submissions.submit(
        arguments.data, arguments.board, arguments.model, arguments.name, wait=arguments.wait, say=_progress
    )
    emit(answer, as_json=arguments.json, text=submissions.submission_text(answer))
    return 0


def _submission(arguments: argparse.Namespace) -> int:
    submissions = part("submissions")
    answer = submissions.submission(arguments.data, arguments.submission, wait=arguments.wait, say=_progress)
    emit(answer, as_json=arguments.json, text=submissions.submission_text(answer))
    return 0


def _board(arguments: argparse.Namespace) -> int:
    submissions = part("submissions")
    answer = submissions.board(arguments.data, arguments.board)
    emit(answer, as_json=arguments.json, text=submissions.board_text(answer))
    return 0


def _run(arguments: argparse.Namespace) -> int:
    submissions = part("submissions")
    answer = submissions.run(arguments.data, arguments.board, arguments.input, arguments.out)
    emit(answer, as_json=arguments.json, text=str(arguments.out) if arguments.out else submissions.run_text(answer))
    return 0


def _data(arguments: argparse.Namespace) -> int:
    import numpy as np

    from choroid.common.failure import UserError
    from grid.tasks.catalogue import TASKS

    board = _boards().described(arguments.board)
    task = TASKS[board.task.name]
    if task.data is None:
        raise UserError(
            f"{board.key} is a closed loop without data. Next: try a model with `choroid grid model try {board.board}`"
        )
    with arguments.out.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **task.data(arguments.seed, board.task.params))
    answer = {"board": board.key, "seed": arguments.seed, "file": str(arguments.out)}
    emit(answer, as_json=arguments.json, text=str(arguments.out))
    return 0


def _try(arguments: argparse.Namespace) -> int:
    boards = _boards()
    seeds = arguments.seed or boards.public_seeds(arguments.board)
    if arguments.jobs == 1 and arguments.ray is None:
        answer = boards.try_model(arguments.board, arguments.model, seeds)
    else:
        from grid.tasks import rollouts

        with rollouts.executor_of(arguments.jobs, arguments.ray) as executor:
            answer = boards.try_model(arguments.board, arguments.model, seeds, executor, rollouts.progress)
    emit(answer, as_json=arguments.json, text=boards.try_text(answer))
    return 0


def _play(arguments: argparse.Namespace) -> int:
    from grid.tasks import rollouts

    boards = _boards()
    board = boards.described(arguments.board)
    controls = tuple(board.controls.names) if arguments.controls else ()
    seeds = tuple(range(arguments.first, arguments.first + arguments.seeds))
    variants = tuple(each.params for each in board.task.variants())
    plan = rollouts.RolloutPlan(board.task.name, variants, arguments.baseline, seeds, (None, *controls))
    with rollouts.executor_of(arguments.jobs, arguments.ray) as executor:
        answer = boards.compared(board, rollouts.rollouts(plan, executor, rollouts.progress))
    emit(answer, as_json=arguments.json, text=boards.bulk_text(answer))
    return 0
