"""Is a model of many organoids worth it? `python -m tests.grid.pooled_model [FOLDER]` prints the tables.

Eight simulated laboratories have six organoids each, five for training and one that decides when training ends. A model of
all is compared with one of each, on twelve organoids that none of them has seen: by the two boards' own scores, and with the
boards' ridge regression. The seeds of these organoids, 1001 to 1012, were fixed before any of this (docs/boards.md).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from grid.boards.loading import load_boards, newest
from grid.grading.interval import paired_interval
from grid.tasks import decode, held_out
from grid.tasks.decode import DECODE
from grid.tasks.held_out import HELD_OUT
from grid.tasks.laboratories import Laboratories, make_laboratories, write_recording

TEST_SEEDS = tuple(range(1001, 1013))
TRIALS_SEED = 1001
"""Of the order of trials on the unseen organoids."""
LONG_S, SHORT_S = 1800.0, 300.0
CONTROLS = (None, "zero", "shuffled")
CONFIDENCE = 0.9
SEED = 1
PROCESS = Path(__file__).with_name("pooled_process.py")
GRID = Path(held_out.__file__).parents[1]


def interpreter() -> Path:
    """Return the Python of the training environment."""
    return Path(os.environ.get("CHOROID_TORCH") or Path.home() / ".cache/choroid-train/bin/python")


def plan_of(folder: Path, seeds: tuple[int, ...] = TEST_SEEDS) -> dict[str, Any]:
    """Make recordings and inputs; return the plan of the process that trains."""
    folders = make_laboratories(folder / "laboratories", Laboratories())
    organoids = [_specimen(folder, seeds), *(_unseen(folder, seed) for seed in seeds)]
    names = [str(each) for each in folders]
    alone = {f"alone-{n}": [each] for n, each in enumerate(names, 1)}
    return {
        "folder": str(folder),
        "seed": SEED,
        "pools": {"pooled": names, **alone, "two": names[:2], "four": names[:4]},
        "order": [["pooled"], *([name] for name in alone), ["tuned", "scratch"], ["shuffled"], ["two"], ["four"]],
        "organoids": organoids,
    }


def _unseen(folder: Path, seed: int) -> dict[str, Any]:
    """Return an organoid that no laboratory has: half an hour of recording, and the inputs of both tasks."""
    path, inputs = folder / f"new/{seed}.npz", folder / f"inputs/{seed}.npz"
    write_recording(path, f"organoid-{seed}", seed, LONG_S)
    past = held_out.data(seed, params("held-out-spikes"))["past"]
    chosen = params("decode-stimulus") | {"specimen": seed}
    spikes = decode.data(TRIALS_SEED, chosen)["spikes"]
    _write(
        inputs,
        {f"past-{control}": held_out.controlled(past, control, seed) for control in CONTROLS}
        | {f"spikes-{control}": decode.controlled(spikes, control, TRIALS_SEED) for control in CONTROLS},
    )
    return {
        "name": str(seed),
        "recording": str(path),
        "inputs": str(inputs),
        "sites": decode.sites(chosen),
        "long": True,
    }


def _specimen(folder: Path, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Return the public specimen of `decode-stimulus`, with five minutes of recording and the trials of each seed."""
    chosen = params("decode-stimulus")
    path, inputs = folder / "new/specimen.npz", folder / "inputs/specimen.npz"
    write_recording(path, "specimen", chosen["specimen"], SHORT_S)
    _write(
        inputs,
        {
            f"spikes-{control}-{seed}": decode.controlled(decode.data(seed, chosen)["spikes"], control, seed)
            for seed in seeds
            for control in CONTROLS
        },
    )
    return {
        "name": "specimen",
        "recording": str(path),
        "inputs": str(inputs),
        "sites": decode.sites(chosen),
        "long": False,
    }


def _write(path: Path, arrays: Mapping[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    np.savez(path, allow_pickle=False, **arrays)


def params(board: str) -> dict[str, Any]:
    """Return the parameters of a board that comes with Choroid."""
    return dict(newest(load_boards(), board).task.params)


def train(folder: Path, plan: Mapping[str, Any]) -> None:
    """Train and use all models in the training environment."""
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    environment = os.environ | {"PYTHONPATH": str(GRID), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    subprocess.run([interpreter(), PROCESS, path], env=environment, check=True)


Scores = dict[str, dict[str, dict[int, float]]]
"""By question, model and seed."""


def scores(folder: Path, seeds: tuple[int, ...] = TEST_SEEDS) -> Scores:
    """Return the scores of each model for which there are predictions."""
    held, trials = params("held-out-spikes"), params("decode-stimulus")
    found: Scores = {"spikes": {}, "trials": {}, "specimen": {}}

    def add(question: str, model: str, score: float) -> None:
        found[question].setdefault(model, {})[seed] = score

    models: dict[str, dict[str, Any]] = {}
    for path in sorted((folder / "predictions").glob("*/*.npz")):
        with np.load(path) as file:
            models.setdefault(path.parent.name, {}).update({f"{path.stem}/{key}": file[key] for key in file.files})
    for seed in seeds:
        after = held_out.data(seed, held)
        ridge = HELD_OUT.baselines["ridge"](seed, held)
        add("spikes", "ridge", held_out.bits_per_spike(ridge(after)["expected"].astype(float), after["next"]))
        own = trials | {"specimen": seed}
        for question, chosen, order in (("trials", own, TRIALS_SEED), ("specimen", trials, seed)):
            asked = decode.data(order, chosen)
            logits = DECODE.baselines["ridge"](order, chosen)(asked)["logits"].astype(float)
            add(question, "ridge", fmean(decode.right_shares(logits, asked["stimulus"])))
            for name, outputs in models.items():
                for control in CONTROLS:
                    key = f"{seed}/spikes-{control}" if question == "trials" else f"specimen/spikes-{control}-{seed}"
                    if key in outputs:
                        shares = decode.right_shares(outputs[key].astype(float), asked["stimulus"])
                        add(question, f"{name}, {control}" if control else name, fmean(shares))
        for name, outputs in models.items():
            for control in CONTROLS:
                if (key := f"{seed}/past-{control}") in outputs:
                    bits = held_out.bits_per_spike(outputs[key].astype(float), after["next"])
                    add("spikes", f"{name}, {control}" if control else name, max(bits, held["floor_bits"]))
    return found


COMPARED = (
    [("pooled", f"alone-{n}") for n in range(1, 9)]
    + [("pooled", other) for other in ("four", "two", "ridge", "shuffled", "pooled, zero", "pooled, shuffled")]
    + [("tuned", other) for other in ("scratch", "pooled", "ridge", "tuned, zero", "tuned, shuffled")]
)
"""Pairs of which the difference is printed."""
TITLES = {
    "spikes": "held-out-spikes on unseen organoids (bits a spike)",
    "trials": "decode-stimulus on unseen organoids (balanced accuracy)",
    "specimen": "decode-stimulus on its own specimen (balanced accuracy)",
}


def text_of(found: Scores) -> str:
    """Return the tables; a pair is compared on the seeds that both have."""
    lines = []
    for question, models in found.items():
        lines += [TITLES[question], "", "| model | score | seeds |", "|---|---|---|"]
        lines += [f"| {name} | {fmean(each.values()):.3f} | {len(each)} |" for name, each in models.items()]
        lines += ["", "| | difference | 90 % interval |", "|---|---|---|"]
        for one, other in COMPARED:
            both = sorted(models.get(one, {}).keys() & models.get(other, {}).keys())
            if both:
                apart = paired_interval(
                    [models[one][seed] for seed in both], [models[other][seed] for seed in both], CONFIDENCE
                )
                lines.append(
                    f"| {one} above {other} | {apart.difference:+.3f} | {apart.low:+.3f} to {apart.high:+.3f} |"
                )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Make, train, score, print. With a folder, what is there already is not made again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=Path, nargs="?", help="where recordings and models go (default: a temporary folder)"
    )
    given = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        train(folder, plan_of(folder))
        print(text_of(scores(folder)))


if __name__ == "__main__":
    main()
