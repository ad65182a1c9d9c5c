"""`organoid-lm`: recordings of simulated laboratories, the code package in torch's environment, tuning for a board."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from choroid.cli import main
from choroid.common.failure import UserError
from grid.boards.loading import load_boards, newest
from grid.commands import boards, tuning
from grid.errors import GridError, GridRefused
from grid.tasks.laboratories import Laboratories, make_laboratories, write_recording
from grid.tasks.recordings import BEGIN_S, recorded
from tests.grid.training_environment import torch_python

TORCH = Path(os.environ.get("CHOROID_TORCH") or Path.home() / ".cache/choroid-train/bin/python")
PROCESS = Path(__file__).with_name("organoid_process.py")


def test_a_recording_repeats_and_alternates() -> None:
    one, again = recorded("a", 5, 100.0), recorded("a", 5, 100.0)
    assert all(np.array_equal(one[name], again[name]) for name in one)
    assert len(recorded("a", 6, 100.0)["at_s"]) != len(one["at_s"])
    assert float(one["seconds"]) == pytest.approx(100.0)
    assert 90.0 <= one["pulse_at_s"].min() < one["pulse_at_s"].max() < 100.0
    assert 0.0 <= one["at_s"].min() < one["at_s"].max() <= 100.0
    assert BEGIN_S > 65.0  # the episodes of held-out-spikes are the first 65 s of an organoid


def test_laboratories_have_organoids_of_their_own_and_go_on(tmp_path: Path) -> None:
    wanted = Laboratories(laboratories=2, organoids=2, tests=1, seconds=30.0)
    folders = make_laboratories(tmp_path, wanted)
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.npz"))
    assert files == [
        f"laboratory-{n}/{split}/organoid-{k}.npz" for n in (1, 2) for split, k in (("test", 2), ("train", 1))
    ]
    assert len({path.read_bytes() for path in tmp_path.rglob("*.npz")}) == 4
    kept = folders[0] / "train" / "organoid-1.npz"
    kept.write_bytes(b"kept")
    (folders[1] / "train" / "organoid-1.npz").unlink()
    make_laboratories(tmp_path, wanted)
    assert kept.read_bytes() == b"kept"
    assert (folders[1] / "train" / "organoid-1.npz").exists()
    with pytest.raises(UserError, match="has recordings of other numbers or another length"):
        make_laboratories(tmp_path, replace(wanted, organoids=3))  # else one organoid would be in train and test


@pytest.mark.parametrize("wrong", [{"laboratories": 0}, {"organoids": 1, "tests": 1}, {"seconds": 3.0}])
def test_laboratories_that_cannot_be_are_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Next:"):
        make_laboratories(tmp_path, Laboratories(**wrong))
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_tuned_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHOROID_TORCH", str(tmp_path / "none"))
    recording = tmp_path / "a.npz"
    wanted = tuning.Tuning(recording, tmp_path / "model.onnx")
    with pytest.raises(GridRefused, match="is no file"):
        tuning.tune("decode-stimulus", wanted, print)
    recording.write_bytes(b"")
    with pytest.raises(GridRefused, match="no head for steering@"):
        tuning.tune("steering", wanted, print)
    with pytest.raises(GridRefused, match="is absent"):
        tuning.tune("decode-stimulus", tuning.Tuning(recording, tmp_path / "none" / "model.onnx"), print)
    with pytest.raises(GridRefused, match="minutes and steps are 0"):
        tuning.tune("decode-stimulus", tuning.Tuning(recording, tmp_path / "model.onnx", minutes=-1.0), print)
    with pytest.raises(GridError, match="CHOROID_TORCH names"):
        tuning.tune("decode-stimulus", wanted, print)


def test_a_board_with_other_bins_is_refused(tmp_path: Path) -> None:
    board = newest(load_boards(), "decode-stimulus")
    other = board.model_copy(
        update={"task": board.task.model_copy(update={"params": board.task.params | {"bin_ms": 5.0}})}
    )
    recording = tmp_path / "a.npz"
    recording.write_bytes(b"")
    wanted = tuning.Tuning(recording, tmp_path / "model.onnx")
    with pytest.raises(GridRefused, match="organoid-lm needs bins 10, bin_ms"):
        tuning.request_of(other, wanted)
    assert tuning.request_of(board, wanted)["sites"] == [0, 2, 4, 7, 9, 11, 13, 15]
    assert tuning.request_of(board, wanted)["embedded"]
    assert not tuning.request_of(newest(load_boards(), "held-out-spikes"), wanted)["embedded"]


@pytest.fixture(scope="module", name="torch_python")
def python() -> Path:
    """Return the Python of the training environment."""
    return torch_python()


@pytest.mark.long
def test_the_code_package(torch_python: Path, tmp_path: Path) -> None:
    write_recording(tmp_path / "sixteen.npz", "sixteen", 11, 150.0)
    write_recording(tmp_path / "nine.npz", "nine", 12, 100.0, electrodes=9)
    environment = os.environ | {"PYTHONPATH": str(tuning.FOLDER)}
    words = [str(torch_python), str(PROCESS), str(tmp_path)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(0.85 <= share <= 1.15 for share in found["sizes"].values()), found["sizes"]
    assert found["formats"] == [True, True]
    assert all(found["repeats"]), found["repeats"]
    counted = found["counted"]
    assert counted["windows"] > 11_000
    assert counted["peak_mb"] < 100.0, (
        counted
    )  # all counts at once would be 250 MB, and four times as much while they are made
    assert all(counted["right"]), counted
    said = found["refused"]
    assert len(said) == 9
    assert all("Next:" in each for each in said)
    for part, each in zip(
        ("electrode` names", "outside 0 to", "cannot be read", "cannot be read", "unknown format", "s without pulses")
        + ("of no preset", "not finite", "no weights can be read"),
        said,
        strict=True,
    ):
        assert part in each
    mixed = found["mixed"]
    assert mixed["apart"] < 1e-4  # absent electrodes change nothing
    assert mixed["whole"] == ["tiny", True]
    assert mixed["after"]["loss"] < mixed["before"]["loss"] - 0.1
    assert mixed["after"]["bits_per_spike"] > 0.3 > mixed["before"]["bits_per_spike"]
    assert mixed["after"]["accuracy"] > 0.4 > mixed["before"]["accuracy"]
    assert found["kib"]["tiny"] < 4096 < found["kib"]["small"] < 16_384 < found["kib"]["base"]
    assert abs(found["bits"]) < 1e-9  # as good as the mean rates


@pytest.mark.long
def test_a_tuned_model_is_accepted_by_both_boards_and_scored(
    torch_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHOROID_TORCH", str(torch_python))
    recording, weights = tmp_path / "seven.npz", tmp_path / "weights.safetensors"
    write_recording(recording, "seven", 7, 150.0)
    for board, seeds, least, more in (
        ("decode-stimulus", [1, 2], 0.3, ("--weights", str(weights), "--steps", "150")),
        ("held-out-spikes", [7, 8], 0.1, ("--checkpoint", str(weights), "--steps", "50", "--minutes", "2")),
    ):
        model = tmp_path / f"{board}.onnx"
        words = ["grid", "tune", board, "--recording", str(recording), "--out", str(model), "--json", *more]
        assert main(words) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["preset"] == "tiny"
        assert answer["kib"] == round(model.stat().st_size / 1024)
        assert answer["minutes"] == (2 if more[0] == "--checkpoint" else 2.5)
        grade = boards.try_model(board, model, seeds)
        assert grade["mean"] > least
        assert all(max(scores) < min(grade["scores"]) for scores in grade["controls"].values())
    words = ["grid", "tune", "decode-stimulus", "--recording", str(recording), "--preset", "small"]
    assert main([*words, "--out", str(tmp_path / "small.onnx")]) == 1
    assert "the board takes 4096. Next: take a checkpoint of tiny" in capsys.readouterr().err
    assert not (tmp_path / "small.onnx").exists()
