"""`choroid sort`: units of a recording by a sorter of SpikeInterface, stored next to it and in its NWB file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from choroid.cli import main
from choroid.nwb.export import NwbHeader, export_nwb
from choroid.sorting.stored import SortedUnits, read_units, units_path, write_units
from nerves.recording.quota import RecordingRefused
from nerves.recording.recorded import ArrayRecording, recordings
from tests.nerves.recording.record import RecordedBench, recorded_bench

pytestmark = [
    pytest.mark.needs_module("hdbscan", "sort"),
    pytest.mark.filterwarnings("ignore"),  # those of SpikeInterface
]
SORTER = "spykingcircus2"
"""The fastest of those that SpikeInterface ships."""


def recorded(folder: Path, run: Callable[[RecordedBench], object], **plan: Any) -> ArrayRecording:
    with recorded_bench(folder / "recordings", electrodes=16, buffer_bytes=64 << 20, **plan) as lab:
        lab.begin()
        run(lab)
        lab.end()
    (recording,) = recordings(folder / "recordings")
    return recording


def sort(recording: ArrayRecording, *words: str) -> int:
    return main(["sort", recording.name, "--data", str(recording.path.parents[1]), "--sorter", SORTER, *words])


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> ArrayRecording:
    """A recording that no sorter sees."""
    return recorded(tmp_path_factory.mktemp("brief"), lambda lab: lab.run(0.3))


@pytest.fixture(scope="module")
def sorted_recording(tmp_path_factory: pytest.TempPathFactory) -> ArrayRecording:
    """Two segments with a gap of a second, sorted."""

    def run(lab: RecordedBench) -> None:
        lab.run(6.0)
        lab.lab.crystal.stall(1.0)
        lab.run(6.0)

    recording = recorded(tmp_path_factory.mktemp("sorted"), run)
    assert sort(recording) == 0
    return recording


def found(recording: ArrayRecording) -> SortedUnits:
    units = read_units(recording.path)
    assert units is not None
    return units


@pytest.mark.long
def test_units_are_spikes_of_their_electrodes_in_frames_of_the_recording(sorted_recording: ArrayRecording) -> None:
    units, spikes = found(sorted_recording), sorted_recording.table("spikes")
    assert len(units.units) >= 3
    assert sum(each.spikes for each in units.units) == len(units.frames)
    segments = [(each.first_frame, each.end_frame) for each in sorted_recording.segments]
    assert len(segments) == 2
    inside = [sum(first <= frame < end for first, end in segments) for frame in units.frames.tolist()]
    assert set(inside) == {1}
    assert any(frame >= segments[1][0] for frame in units.frames)
    shares = []
    for each in units.units:
        own = np.sort(spikes["frame"][spikes["electrode"] == each.electrode])
        train = units.train(each.unit)
        near = np.searchsorted(own, train - 25) < np.searchsorted(own, train + 25)
        shares.append(near.mean())
        assert sorted_recording.geometry is not None
        assert each.x_um is not None
        assert abs(each.x_um - sorted_recording.geometry.x_um[each.electrode]) < 200.0
        assert each.metrics["snr"] is not None
    weights = [each.spikes for each in units.units]
    assert np.average(shares, weights=weights) > 0.5, "far more than the 5 % of chance"


@pytest.mark.long
def test_nothing_is_left_of_the_work_and_the_recording_is_still_one(sorted_recording: ArrayRecording) -> None:
    folder = sorted_recording.path.parent
    assert {each.name for each in folder.iterdir()} == {"one.zarr", "one.units"}
    assert [each.name for each in recordings(folder)] == ["one"]
    said = json.loads((units_path(sorted_recording.path) / ".zattrs").read_text())
    assert (said["choroid_units"], said["sorter"], said["recording"]) == (1, SORTER, "one")


@pytest.mark.long
def test_a_sorting_replaces_nothing(sorted_recording: ArrayRecording, capsys: pytest.CaptureFixture[str]) -> None:
    assert sort(sorted_recording) == 1
    assert "replaces nothing" in capsys.readouterr().err


@pytest.mark.long
def test_the_nwb_file_has_the_units_and_apart_from_them_what_was_detected(
    sorted_recording: ArrayRecording, tmp_path: Path
) -> None:
    import pynwb
    import spikeinterface.extractors as se

    file = tmp_path / "one.nwb"
    units, spikes = found(sorted_recording), sorted_recording.table("spikes")
    assert export_nwb(sorted_recording, tmp_path, file, NwbHeader())["sorted_units"] == len(units.units)
    assert pynwb.validate(path=str(file)) == []
    path = "acquisition/ElectricalSeries"
    read = se.read_nwb_sorting(str(file), electrical_series_path=path, unit_table_path="units")
    first = sorted_recording.segments[0].first_frame
    for each in units.units:
        assert np.array_equal(read.get_unit_spike_train(f"unit {each.unit}"), units.train(each.unit) - first)
    assert read.get_property("snr").tolist() == pytest.approx([each.metrics["snr"] for each in units.units])
    with pynwb.NWBHDF5IO(file, "r") as io:
        detected = io.read().processing["ecephys"]["detected_spikes"]
        assert sum(len(train) for train in detected["spike_times"][:]) == len(spikes[spikes["frame"] >= first])


def test_what_cannot_be_sorted_is_refused_with_the_next_step(
    brief: ArrayRecording, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sort(brief, "--sorter", "kilosort4") == 1
    assert "choose one of simple, spykingcircus2, tridesclous2" in capsys.readouterr().err
    empty = recorded(tmp_path, lambda lab: lab.run(0.3), frames=False)
    assert sort(empty) == 1
    assert "has no samples to sort" in capsys.readouterr().err
    attributes = brief.path / ".zattrs"
    kept = attributes.read_text()
    attributes.write_text(json.dumps({name: value for name, value in json.loads(kept).items() if name != "probegroup"}))
    try:
        assert sort(brief) == 1
        assert "write geometry under nerves" in capsys.readouterr().err
    finally:
        attributes.write_text(kept)
    assert main(["sort", "nothing", "--data", str(tmp_path)]) == 1
    assert "there is no recording “nothing”" in capsys.readouterr().err


def test_a_sorter_that_fails_leaves_nothing_and_its_last_words_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = recorded(tmp_path, lambda lab: lab.run(0.3))
    (recording.path / "traces_seg0" / "0.0").write_bytes(b"damaged")
    assert sort(recording) == 1
    said = capsys.readouterr().err
    assert "could not be sorted: the sorter's process ended with status 1" in said
    assert "Next: record longer" in said
    assert {each.name for each in recording.path.parent.iterdir()} == {"one.zarr"}


def test_a_recording_in_which_nothing_was_found_has_no_units_in_its_nwb_file(tmp_path: Path) -> None:
    recording = recorded(tmp_path, lambda lab: lab.run(0.3))
    said = {"sorter": SORTER, "spikeinterface": "0.105"}
    nothing = SortedUnits([], np.zeros(0, np.int64), np.zeros(0, np.int32), said)
    write_units(units_path(recording.path), nothing)
    assert (found(recording).units, len(found(recording).frames)) == ([], 0)
    assert export_nwb(recording, tmp_path, tmp_path / "one.nwb", NwbHeader())["sorted_units"] == 0


def test_J3_without_the_extra_the_command_says_what_to_install(
    brief: ArrayRecording, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [
        each for each in sys.modules if each.split(".")[0] == "spikeinterface" or each.startswith("choroid.sorting")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "spikeinterface", None)
    assert sort(brief) == 1
    assert 'pip install "choroid[sort]"' in capsys.readouterr().err


def test_units_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "one.units"
    folder.mkdir()
    assert read_units(tmp_path / "two.zarr") is None
    (folder / ".zattrs").write_text("{}")
    with pytest.raises(RecordingRefused, match="no units that can be read"):
        read_units(tmp_path / "one.zarr")
    (folder / ".zattrs").write_text(json.dumps({"choroid_units": 2}))
    with pytest.raises(RecordingRefused, match="update Choroid"):
        read_units(tmp_path / "one.zarr")
