"""Parser of `choroid grid tune` and `choroid grid data simulate`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, seed
from grid.commands.parts import part


def add_tuning(verbs: Any) -> None:
    """Add the verb `tune`."""
    tune = command(
        verbs,
        "tune",
        _tune,
        "take organoid-lm to an organoid with minutes of its recording, and write its file for a board",
    )
    tune.add_argument("board", help="its name, such as decode-stimulus, or its file")
    tune.add_argument(
        "--recording", type=Path, required=True, help=".npz, .safetensors or .parquet file (docs/organoid-lm.md)"
    )
    tune.add_argument("--minutes", type=float, default=0.0, help="of the recording (default: all)")
    tune.add_argument("--checkpoint", type=Path, help="weights to begin with (default: a new model)")
    tune.add_argument("--preset", default="tiny", choices=("tiny", "small"), help="of a new model (default tiny)")
    tune.add_argument(
        "--out", type=Path, default=Path("model.onnx"), help="the ONNX file to write (default: model.onnx)"
    )
    tune.add_argument("--weights", type=Path, help="the .safetensors file to write as well")
    tune.add_argument("--steps", type=int, default=0, help="of training (default: as many as usual)")
    tune.add_argument("--seed", type=seed, default=1, help="of the order of windows (default 1)")
    json_option(tune)


def add_simulate(data: Any) -> None:
    """Add the verb `simulate` to the subject `data`."""
    simulate = command(data, "simulate", _simulate, "write recordings of simulated laboratories, for organoid-lm")
    simulate.add_argument("folder", type=Path, help="where each laboratory gets a folder with train and test")
    simulate.add_argument("--laboratories", type=int, default=8, help="how many (default 8)")
    simulate.add_argument("--organoids", type=int, default=6, help="of each (default 6)")
    simulate.add_argument("--tests", type=int, default=1, help="of these for tests (default 1)")
    simulate.add_argument("--minutes", type=float, default=2.5, help="of each recording (default 2.5)")
    simulate.add_argument(
        "--specimen", type=seed, metavar="N", help="only this specimen, into one file (decode-stimulus has number 7)"
    )
    json_option(simulate)


def _tune(arguments: argparse.Namespace) -> int:
    tuning = part("tuning")
    wanted = tuning.Tuning(
        arguments.recording,
        arguments.out,
        minutes=arguments.minutes,
        checkpoint=arguments.checkpoint,
        preset=arguments.preset,
        weights=arguments.weights,
        steps=arguments.steps,
        seed=arguments.seed,
    )
    answer = tuning.tune(arguments.board, wanted, _say)
    emit(answer, as_json=arguments.json, text=tuning.tune_text(answer))
    return 0


def _simulate(arguments: argparse.Namespace) -> int:
    from grid.tasks import laboratories

    if arguments.specimen is not None:
        path = arguments.folder / f"specimen-{arguments.specimen}.npz"
        laboratories.write_recording(path, path.stem, arguments.specimen, 60.0 * arguments.minutes)
        emit({"file": str(path)}, as_json=arguments.json, text=str(path))
        return 0
    wanted = laboratories.Laboratories(
        arguments.laboratories, arguments.organoids, arguments.tests, 60.0 * arguments.minutes
    )
    folders = laboratories.make_laboratories(arguments.folder, wanted, _counted)
    answer = {"folders": [str(each) for each in folders], "organoids": arguments.organoids}
    emit(answer, as_json=arguments.json, text="\n".join(answer["folders"]))
    return 0


def _counted(made: int, wanted: int) -> None:
    if sys.stderr.isatty():
        print(f"{made} of {wanted} recordings", end="\n" if made == wanted else "\r", file=sys.stderr, flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
