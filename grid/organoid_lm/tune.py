"""Fine-tune and export: `python -m organoid_lm.tune REQUEST.json` in the training environment, for `choroid grid tune`.

It prints progress on standard error, and the answer as JSON on standard output. What the user has to change is a sentence on
standard error and the exit status 2.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .boards import exported
from .model import OrganoidModel, made
from .presets import SIZES
from .recordings import OrganoidRecording, RecordingError, read_recording
from .tuning import TUNED, expecting, locating, tune
from .weights import WeightsError, load, save

BYTES = 4
CONSTANTS_KIB = 700
"""Of a file: names, shapes and what was computed before, above the weights."""


class TuneError(Exception):
    """What a user has to change. The message says how."""


def file_kib(preset: str) -> float:
    """Return about how large the file of a preset is (KiB). The table of embeddings is not in it."""
    with torch.device("meta"):
        model = OrganoidModel(SIZES[preset])
    weights: int = sum(each.numel() for name, each in model.named_parameters() if name != "table.weight")
    return weights * BYTES / 1024 + CONSTANTS_KIB


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Fine-tune a model and write its file.

    Args:
        request: `task` (name of the board's task), `input` and `output` (name and shape of each), `sites` (electrodes of the
            classes), `limit_kib`, `embedded`, `recording`, `minutes` (0: all), `checkpoint` (empty: `preset` from the
            beginning), `preset`, `steps` (0: as usual), `seed`, and where file and weights go: `out`, `weights`.

    Raises:
        TuneError: The preset does not fit the board, or the recording is of another array.
        RecordingError: The recording cannot be used.
        WeightsError: The checkpoint cannot be used.
    """
    if request["checkpoint"]:
        preset, model = load(Path(request["checkpoint"]))
    else:
        preset, model = request["preset"], made(request["preset"], request["seed"])
    _require_fit(preset, request["limit_kib"])
    recording = read_recording(Path(request["recording"]))
    if request["minutes"]:
        recording = recording.between(0.0, 60.0 * request["minutes"])
    given, returned = request["input"], request["output"]
    if recording.electrodes != given["shape"][2]:
        raise TuneError(
            f"the recording has {recording.electrodes} electrodes, the board {given['shape'][2]}. Next: give a recording of"
            " an array like the board's"
        )
    course = TUNED if not request["steps"] else replace(TUNED, steps=request["steps"])
    tune(model, recording, course=course, seed=request["seed"], embedded=request["embedded"], say=_say)
    content = exported(_for_board(model, recording, request), tuple(given["shape"]), given["name"], returned["name"])
    if len(content) > 1024 * request["limit_kib"]:
        limit_kib = request["limit_kib"]
        raise TuneError(
            f"the file has {len(content) / 1024:.0f} KiB, the board takes {limit_kib}. {_smaller(limit_kib)}"
        )
    Path(request["out"]).write_bytes(content)
    save(model, Path(request["weights"]))
    return {"preset": preset, "kib": round(len(content) / 1024), "minutes": round(recording.seconds / 60, 2)}


def _for_board(model: OrganoidModel, recording: OrganoidRecording, request: Mapping[str, Any]) -> torch.nn.Module:
    if request["task"] == "held-out-spikes":
        return expecting(model, recording, embedded=request["embedded"])
    return locating(model, recording, request["sites"], embedded=request["embedded"])


def _require_fit(preset: str, limit_kib: int) -> None:
    if file_kib(preset) > limit_kib:
        raise TuneError(
            f"a file of {preset} has about {file_kib(preset):.0f} KiB, the board takes {limit_kib}. {_smaller(limit_kib)}"
        )


def _smaller(limit_kib: int) -> str:
    fit = " or ".join(preset for preset in SIZES if file_kib(preset) <= limit_kib)
    return f"Next: take a checkpoint of {fit}" if fit else "No preset fits. Next: raise model_kib in the board's file"


def _say(step: int, loss: float) -> None:
    print(f"step {step}: loss {loss:.3f}", file=sys.stderr, flush=True)


def main(path: str) -> int:
    """Serve the request in a file; return the exit status."""
    torch.set_num_threads(1)
    try:
        answer = run(json.loads(Path(path).read_text()))
    except (TuneError, RecordingError, WeightsError) as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
