"""Checks of `organoid_lm` in torch's environment: `python organoid_process.py FOLDER` prints one JSON object.

FOLDER has recordings of two organoids with 16 and 9 electrodes, `sixteen.npz` and `nine.npz`; PYTHONPATH the folder `grid`.
"""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
from organoid_lm.model import hashes, made
from organoid_lm.package import TASK
from organoid_lm.presets import PARAMETERS, SIZES
from organoid_lm.recordings import OrganoidRecording, RecordingError, read_recording
from organoid_lm.samples import WindowSamples
from organoid_lm.scoring import bits_per_spike, scores_of
from organoid_lm.tune import file_kib
from organoid_lm.tuning import tune
from organoid_lm.weights import WeightsError, load, save
from safetensors.numpy import save_file


def sizes() -> dict[str, float]:
    """Return the parameters of each preset, as a multiple of what it is meant to have."""
    found = {}
    for preset in SIZES:
        with torch.device("meta"):
            model = TASK.model(preset, 0)
        found[preset] = sum(each.numel() for each in model.parameters()) / PARAMETERS[preset]
    return found


def formats(folder: Path) -> list[bool]:
    """Return whether a recording is the same in each other format."""
    one = read_recording(folder / "sixteen.npz")
    with np.load(folder / "sixteen.npz") as file:
        arrays = {name: file[name] for name in file.files if name != "organoid"}
    save_file(arrays, folder / "copy.safetensors", metadata={"organoid": one.organoid})
    table = pyarrow.table(
        {
            "electrode": np.concatenate([one.electrode, one.pulse_electrode]),
            "at_s": np.concatenate([one.at_s, one.pulse_at_s]),
            "pulse": np.repeat([False, True], [len(one.at_s), len(one.pulse_at_s)]),
        }
    ).replace_schema_metadata(
        {"organoid": one.organoid, "place_um": json.dumps(one.place_um.tolist()), "seconds": json.dumps(one.seconds)}
    )
    pyarrow.parquet.write_table(table, folder / "copy.parquet")
    others = [read_recording(folder / f"copy.{suffix}") for suffix in ("safetensors", "parquet")]
    return [
        (one.organoid, one.seconds) == (each.organoid, each.seconds)
        and all(
            np.array_equal(getattr(one, name), getattr(each, name))
            for name in ("place_um", "electrode", "at_s", "pulse_electrode", "pulse_at_s")
        )
        for each in others
    ]


def refused(folder: Path) -> list[str]:
    """Return what is said of recordings and checkpoints that cannot be used."""
    with np.load(folder / "sixteen.npz") as file:
        arrays = dict(file)
    wrong = {
        "far": arrays | {"electrode": arrays["electrode"] + 16},
        "late": arrays | {"at_s": arrays["at_s"] + 1e6},
        "torn": {"organoid": arrays["organoid"]},
    }
    said = []
    for name, each in wrong.items():
        np.savez(folder / f"{name}.npz", allow_pickle=False, **each)
    for name in (*(f"{each}.npz" for each in wrong), "none.npz", "spikes.txt"):
        try:
            read_recording(folder / name)
        except RecordingError as error:
            said.append(str(error))
    try:
        WindowSamples([read_recording(folder / "sixteen.npz").between(0.0, 5.0)], known=True)
    except RecordingError as error:
        said.append(str(error))
    save_file({"weight": np.zeros(3)}, folder / "other.safetensors")
    model = made("tiny", 1)
    with torch.no_grad():
        model.rates.bias[0] = float("nan")
    save(model, folder / "nan.safetensors")
    for name in ("other", "nan", "absent"):
        try:
            load(folder / f"{name}.safetensors")
        except WeightsError as error:
            said.append(str(error))
    return said


def mixed(folder: Path) -> dict[str, Any]:
    """Return whether a smaller array in the same batch changes nothing, and what a few steps of training reach."""
    nine, sixteen = (read_recording(folder / f"{name}.npz") for name in ("nine", "sixteen"))
    model = made("tiny", 3)
    torch.nn.init.normal_(model.rates.weight, std=0.05, generator=torch.Generator().manual_seed(0))
    model.eval()
    both = WindowSamples([nine, sixteen], known=False)
    alone, together = (one_of(model, each) for each in (WindowSamples([nine], known=False), both))
    before = scores_of(model, WindowSamples([sixteen], known=False))
    tune(model, sixteen, seed=1)
    after = scores_of(model, WindowSamples([sixteen], known=True))
    save(model, folder / "tuned.safetensors")
    preset, again = load(folder / "tuned.safetensors")
    same = all(torch.equal(one, other) for one, other in zip(model.parameters(), again.parameters(), strict=True))
    return {
        "apart": float((alone - together[:, :9]).abs().max()),
        "before": before,
        "after": after,
        "whole": [preset, same],
        "mixed": scores_of(model, both),
    }


def one_of(model: Any, samples: Any) -> torch.Tensor:
    """Return the predictions for the first windows of the first recording."""
    batch: Mapping[str, torch.Tensor] = samples.batch(range(8))
    with torch.no_grad():
        found: torch.Tensor = model.expected(model.known(batch), batch["past"], batch["pulse"], batch["pulse_s"])
    return found


def repeats() -> list[bool]:
    """Return whether weights, examples and hashes follow from their seeds and names alone."""
    one, again, other = made("tiny", 1), made("tiny", 1), made("tiny", 2)
    examples = [TASK.example("tiny", 4, seed) for seed in (1, 1, 2)]
    return [
        torch.equal(one.of_patch.weight, again.of_patch.weight),
        not torch.equal(one.of_patch.weight, other.of_patch.weight),
        all(torch.equal(examples[0][name], examples[1][name]) for name in examples[0]),
        not torch.equal(examples[0]["past"], examples[2]["past"]),
        torch.equal(hashes("a", 16)[:4], hashes("a", 4)),
        not bool((hashes("a", 16) == hashes("b", 16)).any()),
        bool(torch.isfinite(TASK.loss(one, examples[0]))),
    ]


def counted() -> dict[str, Any]:
    """Return the memory of the windows of a large array (MB), and whether counts are those of the spikes."""
    random = np.random.default_rng(5)
    seconds, electrodes, spikes = 1200.0, 512, 100_000
    at_s, electrode = np.sort(random.uniform(0, seconds, spikes)), random.integers(0, electrodes, spikes)
    none = np.zeros(0)
    large = OrganoidRecording("large", seconds, np.zeros((electrodes, 2)), electrode, at_s, none.astype(int), none)
    tracemalloc.start()
    samples = WindowSamples([large], known=False)
    batch = samples.batch([0, 7, len(samples) - 1])
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    right = []
    for row, number in enumerate((0, 7, len(samples) - 1)):
        end_s = 0.4 + 0.1 * number
        for part, begin_s, bin_s in (("past", end_s - 0.4, 0.02), ("answer", end_s, 0.01)):
            edges = begin_s + bin_s * np.arange(batch[part].shape[1] + 1)
            wanted, _, _ = np.histogram2d(at_s, electrode, bins=(edges, np.arange(electrodes + 1)))
            right.append(bool(np.array_equal(batch[part][row].numpy(), wanted)))
    return {"peak_mb": peak, "right": right, "windows": len(samples)}


def main(folder: Path) -> None:
    """Print what was found."""
    torch.set_num_threads(1)
    real = np.random.default_rng(1).poisson(2.0, (50, 4)).astype(float)
    found = {
        "sizes": sizes(),
        "formats": formats(folder),
        "refused": refused(folder),
        "mixed": mixed(folder),
        "repeats": repeats(),
        "counted": counted(),
        "kib": {preset: file_kib(preset) for preset in SIZES},
        "bits": bits_per_spike(np.tile(real.mean(axis=0), (50, 1)), real),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
