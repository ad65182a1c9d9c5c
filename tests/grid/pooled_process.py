"""Train and use the models of tests/grid/pooled_model.py: `python pooled_process.py PLAN.json` in torch's environment.

It needs the folder `grid` on PYTHONPATH, for the code package `organoid_lm`, and nothing else of this project. For each model
and organoid it writes `predictions/MODEL/ORGANOID.npz`: what the model returns for the organoid's inputs. It prints the CPU
time (s) of each model. What is there is not made again, so that what was ended goes on.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from organoid_lm.fit import FitPlan, fit
from organoid_lm.model import made
from organoid_lm.package import TASK
from organoid_lm.recordings import read_recording
from organoid_lm.samples import WindowSamples
from organoid_lm.tuning import expecting, locating, tune
from organoid_lm.weights import load, save

POOLED = FitPlan(steps=1500, rows=64, rate=1e-3)
"""Of every model that learns from laboratories."""
SHUFFLED = replace(POOLED, steps=300)
SINGLE = replace(POOLED, steps=700)
"""Of those that learn one organoid from the beginning."""
TEST_S = 180.0
"""End of the recording of a single organoid that decides when its training from the beginning is over."""
SHORT_S = 300.0
"""Begin of the recording of an organoid that tuned models have; also what every model knows the electrodes by."""

Organoid = Mapping[str, Any]
Made = Callable[[Organoid], Any]


def predict(folder: Path, organoid: Organoid, model: Any, *, embedded: bool) -> None:
    """Write what a model returns for the inputs of an organoid."""
    recording = read_recording(Path(organoid["recording"])).between(0.0, SHORT_S)
    model.eval()
    expects = expecting(model, recording, embedded=embedded)
    locates = locating(model, recording, organoid["sites"], embedded=embedded)
    with np.load(organoid["inputs"]) as inputs, torch.no_grad():
        found = {
            key: (expects if key.startswith("past") else locates)(torch.from_numpy(inputs[key])).numpy()
            for key in inputs.files
        }
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / f"{organoid['name']}.npz", allow_pickle=False, **found)


class Shuffled:
    """WindowSamples whose pasts and pulses come from other windows of the batch, and from any of the recording's sites."""

    def __init__(self, samples: Any, seed: int) -> None:
        self.samples = samples
        self.rng = np.random.default_rng(seed)

    def __len__(self) -> int:
        return len(self.samples)

    def batch(self, indices: Sequence[int]) -> Any:
        found = self.samples.batch(indices)
        found["past"] = found["past"][torch.from_numpy(self.rng.permutation(len(indices)))]
        for row in torch.nonzero(found["pulse"][:, 0] >= 0)[:, 0]:
            sites = torch.nonzero(found["sites"][row])[:, 0]
            found["pulse"][row, 0] = sites[int(self.rng.integers(len(sites)))]
        return found


def pooled(folders: Sequence[str], path: Path, seed: int, *, shuffled: bool = False) -> Any:
    """Return a model that learned from laboratories; its weights are kept in a file."""
    if path.exists():
        return load(path)[1]
    model = made("tiny", seed)
    train, test = (TASK.data([Path(each) for each in folders], split) for split in ("train", "test"))
    if shuffled:
        looks = fit(model, Shuffled(train, seed), SHUFFLED, seed=seed)
    else:
        looks = fit(model, train, POOLED, seed=seed, held=test)
    save(model, path)
    print(json.dumps({"model": path.stem, "windows": len(train), "looks": looks}), flush=True)
    return model


def alone(recording: Any, seed: int) -> Any:
    """Return a model that learned one organoid from the beginning."""
    model = made("tiny", seed)
    model.forgotten = 0.0
    until_s = recording.seconds - TEST_S
    known, test = recording.between(0.0, until_s), recording.between(until_s, recording.seconds)
    fit(model, WindowSamples([known], known=True), SINGLE, seed=seed, held=WindowSamples([test], known=True))
    return model


def main(plan: Mapping[str, Any]) -> None:
    """Train what the plan asks for, and write what it predicts."""
    torch.set_num_threads(1)
    folder, seed = Path(plan["folder"]), int(plan["seed"])

    def from_laboratories(name: str, folders: Sequence[str], *, shuffled: bool = False) -> Made:
        return lambda organoid: pooled(folders, folder / f"{name}.safetensors", seed, shuffled=shuffled)

    def tuned(organoid: Organoid) -> Any:
        model = load(folder / "pooled.safetensors")[1]
        tune(model, read_recording(Path(organoid["recording"])).between(0.0, SHORT_S), seed=seed)
        return model

    def scratch(organoid: Organoid) -> Any:
        return alone(read_recording(Path(organoid["recording"])), seed)

    models: dict[str, tuple[Made, bool]] = {
        name: (from_laboratories(name, each), False) for name, each in plan["pools"].items()
    }
    models["shuffled"] = from_laboratories("shuffled", plan["pools"]["pooled"], shuffled=True), False
    models |= {"tuned": (tuned, True), "scratch": (scratch, True)}
    for names in plan["order"]:
        for organoid in plan["organoids"]:
            for name in names:
                began = time.process_time()
                make, embedded = models[name]
                path = folder / "predictions" / name
                if (path / f"{organoid['name']}.npz").exists() or (name == "scratch" and not organoid["long"]):
                    continue
                predict(path, organoid, make(organoid), embedded=embedded)
                said = {"model": name, "organoid": organoid["name"], "cpu_s": round(time.process_time() - began, 1)}
                print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
