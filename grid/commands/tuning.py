"""`choroid grid tune`: take `organoid-lm` to an organoid and to a board, in the training environment."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grid
from controller.core.whole_file import whole_file
from grid.boards.board import Board
from grid.commands.boards import described
from grid.errors import GridError, GridRefused
from grid.jobs.environment import interpreter
from grid.tasks.decode import sites

FOLDER = Path(grid.__file__).parent
SERVED = {
    "held-out-spikes": {"bins": 20, "bin_ms": 20.0, "ahead": 5},
    "decode-stimulus": {"bins": 10, "bin_ms": 10.0},
}
"""Tasks that the model has a head for, with the parameters that it needs."""
MODEL, WEIGHTS = "model.onnx", "weights.safetensors"
REFUSED = 2
"""Exit status of the program when the user has to change something."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What is tuned.

    `minutes` 0 takes the whole recording, `steps` 0 as many as usual. Without a checkpoint a new model of `preset` learns.
    """

    recording: Path
    out: Path
    minutes: float = 0.0
    checkpoint: Path | None = None
    preset: str = "tiny"
    weights: Path | None = None
    steps: int = 0
    seed: int = 1


def tune(name: str, wanted: Tuning, say: Callable[[str], None]) -> dict[str, Any]:
    """Fine-tune a model with a recording, and write its file for a board.

    Args:
        name: Name or file of the board.
        wanted: How.
        say: Takes lines of progress.

    Raises:
        GridRefused: The board, the recording or the checkpoint cannot be used.
        GridError: The training environment is absent or failed.
    """
    board = described(name)
    request = request_of(board, wanted)
    python = interpreter()
    with tempfile.TemporaryDirectory() as temporary:
        made = {"out": Path(temporary, MODEL), "weights": Path(temporary, WEIGHTS)}
        path = Path(temporary, "request.json")
        path.write_text(json.dumps(request | {name: str(each) for name, each in made.items()}))
        answer = _run(python, path, say)
        for name, to in (("out", wanted.out), ("weights", wanted.weights)):
            if to is not None:
                with whole_file(to) as part:
                    part.write_bytes(made[name].read_bytes())
    return {"board": board.key, "file": str(wanted.out), **answer}


def _run(python: Path, request: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the program of the training environment; return its answer."""
    words = [str(python), "-P", "-m", "organoid_lm.tune", str(request)]
    environment = os.environ | {"PYTHONPATH": str(FOLDER), "PYTHONWARNINGS": "ignore"}
    last = ""
    with subprocess.Popen(  # noqa: S603
        words, env=environment, cwd=request.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr or ():
            last = line.strip() or last
            say(line.rstrip())
        answer = process.stdout.read() if process.stdout else ""
    if process.returncode == REFUSED:
        raise GridRefused(last)
    if process.returncode:
        raise GridError(
            f"the tuning ended with {process.returncode} ({last}). Next: check the environment with `choroid grid prepare"
            " train --check`"
        )
    found: dict[str, Any] = json.loads(answer)
    return found


def request_of(board: Board, wanted: Tuning) -> dict[str, Any]:
    """Return what the program of the training environment is asked.

    Raises:
        GridRefused: The model cannot serve the board, or a file is absent.
    """
    params = board.task.params
    needed = SERVED.get(board.task.name)
    if needed is None:
        raise GridRefused(f"organoid-lm has no head for {board.key}. Next: choose a board of {' or '.join(SERVED)}")
    other = [f"{key} {params.get(key)}" for key, value in needed.items() if params.get(key) != value]
    if other:
        said = ", ".join(f"{key} {value}" for key, value in needed.items())
        raise GridRefused(f"{board.key} has {', '.join(other)}; organoid-lm needs {said}. Next: choose another board")
    for path in (wanted.recording, wanted.checkpoint):
        if path is not None and not path.is_file():
            raise GridRefused(f"{path} is no file. Next: name a recording, and a checkpoint of organoid-lm")
    for path in (wanted.out, wanted.weights):
        if path is not None and not path.absolute().parent.is_dir():
            raise GridRefused(f"the folder {path.absolute().parent} is absent. Next: make it")
    if wanted.minutes < 0 or wanted.steps < 0:
        raise GridRefused("minutes and steps are 0 (as usual) or more. Next: correct --minutes and --steps")
    return {
        "recording": str(wanted.recording.resolve()),
        "checkpoint": str(wanted.checkpoint.resolve()) if wanted.checkpoint else "",
        "minutes": wanted.minutes,
        "preset": wanted.preset,
        "steps": wanted.steps,
        "seed": wanted.seed,
        "task": board.task.name,
        "input": board.interface.inputs[0].model_dump(),
        "output": board.interface.outputs[0].model_dump(),
        "sites": sites(params) if board.task.name == "decode-stimulus" else [],
        "embedded": "specimen" in params,
        "limit_kib": board.limits.model_kib,
    }


def tune_text(answer: Mapping[str, Any]) -> str:
    """Return the result as lines."""
    return (
        f"{answer['file']}: {answer['preset']}, tuned with {answer['minutes']:g} min, {answer['kib']} KiB, for"
        f" {answer['board']}"
    )
