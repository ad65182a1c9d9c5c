"""`choroid sort`: units of a recording by a sorter of SpikeInterface, stored next to it and in its NWB file."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from choroid.cli import main
from choroid.common.child import python
from choroid.nwb.export import NwbHeader, export_nwb
from choroid.sorting import command
from choroid.sorting.stored import SortedUnit, SortedUnits, read_units, units_path, write_units
from nerves.recording.quota import RecordingRefused
from nerves.recording.recorded import ArrayRecording, RecordedSegment, recordings
from nerves.recording.store import ZarrArray
from tests.nerves.recording.record import RecordedBench, recorded_bench

pytestmark = [
    pytest.mark.needs_module("hdbscan", "sort"),
    pytest.mark.filterwarnings("ignore"),  # those of SpikeInterface
]
SORTER = "spykingcircus2"
"""The fastest of those that SpikeInterface ships."""


def recorded(folder: Path, run: Callable[[RecordedBench], object], **plan: Any) -> ArrayRecording:
    with recorded_bench(folder / "recordings", electrodes=16, buffer_bytes=64 << 20, **plan) as lab:
        lab.run(0.1)  # the recording does not begin with the engine
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
    units = read_units(recording)
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
    said = json.loads(kept)
    try:
        for spoiled, why in (
            ({name: value for name, value in said.items() if name != "probegroup"}, "write geometry under nerves"),
            (said | {"sampling_frequency": 10_000.0}, "10000 frames a second, and the sorters filter up to 7000 Hz"),
        ):
            attributes.write_text(json.dumps(spoiled))
            assert sort(brief) == 1
            assert why in capsys.readouterr().err
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


def test_units_in_the_nwb_file_are_at_their_electrodes_and_times_and_were_looked_for_as_long_as_the_sorter_had(
    brief: ArrayRecording, tmp_path: Path
) -> None:
    """A recording that goes on after it was sorted has no units in its rest."""
    import pynwb

    shutil.copytree(brief.path, tmp_path / "recordings" / "one.zarr")
    (recording,) = recordings(tmp_path / "recordings")
    (first, end), started = recording.extent, recording.attributes["started_utc"]
    said = {"sorter": SORTER, "spikeinterface": "0.105", "started_utc": started, "end_frame": first + 5000}
    units = [SortedUnit(0, 5, 1.0, 2.0, 2, {"snr": 3.0}), SortedUnit(1, 9, None, 4.0, 1, {"snr": None})]
    frames, numbers = np.array([100, 200, 300]) + first, np.array([0, 1, 0])
    write_units(units_path(recording.path), SortedUnits(units, frames, numbers.astype(np.int32), said))
    assert export_nwb(recording, tmp_path, tmp_path / "one.nwb", NwbHeader())["sorted_units"] == 2
    with pynwb.NWBHDF5IO(tmp_path / "one.nwb", "r") as io:
        file = io.read()
        table = file.units.to_dataframe()
        assert [each.index.tolist() for each in table["electrodes"]] == [[5], [9]]
        assert [(each * 25_000).round().tolist() for each in table["spike_times"]] == [[100, 300], [200]]
        assert [each.tolist() for each in table["obs_intervals"]] == [[[0.0, 0.2]]] * 2
        assert table[["x_um", "y_um", "snr"]].to_numpy() == pytest.approx(
            np.array([[1.0, 2.0, 3.0], [np.nan, 4.0, np.nan]]), nan_ok=True
        )
        detected = file.processing["ecephys"]["detected_spikes"]
        assert detected["obs_intervals"][0].tolist() == [[0.0, (end - first) / 25_000]]


def test_samples_of_joined_segments_are_frames_of_their_segments(tmp_path: Path) -> None:
    from choroid.sorting.process import frames_of

    segments = []
    for number, first in enumerate((100, 500)):
        traces = ZarrArray.create(tmp_path / str(number), np.int16, 8, (1,))
        traces.write_chunk(0, np.zeros((8, 1), np.int16))
        traces.grow(8)
        segments.append(RecordedSegment(first, traces))
    assert frames_of(np.array([0, 7, 8, 15]), segments).tolist() == [100, 107, 500, 507]


def test_the_process_of_a_sorter_ends_with_the_command_and_leaves_nothing(
    brief: ArrayRecording, tmp_path: Path
) -> None:
    """A killed command left a sorter that went on, and gigabytes in a hidden folder."""
    folder = tmp_path / ".scratch"
    folder.mkdir()
    words = python("choroid.sorting.process", str(brief.path), SORTER, str(folder / "units"))
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert (done.returncode, folder.exists()) == (1, False)


def test_a_folder_that_takes_no_files_is_named_with_what_to_do(
    brief: ArrayRecording, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "recordings")

    monkeypatch.setattr(command, "whole_folder", refuse)
    assert sort(brief) == 1
    assert "Likely cause: this user may not write there. Next: compare owner" in capsys.readouterr().err


def test_a_recording_in_which_nothing_was_found_has_no_units_in_its_nwb_file(tmp_path: Path) -> None:
    recording = recorded(tmp_path, lambda lab: lab.run(0.3))
    said = {"sorter": SORTER, "spikeinterface": "0.105", "started_utc": recording.attributes["started_utc"]}
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


def test_units_that_cannot_be_read_or_are_of_another_recording_are_refused(
    brief: ArrayRecording, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(brief.path, tmp_path / "recordings" / "one.zarr")
    (recording,) = recordings(tmp_path / "recordings")
    assert read_units(recording) is None
    folder = units_path(recording.path)
    said = {"sorter": SORTER, "started_utc": "2025-01-01T00:00:00.000Z"}
    write_units(folder, SortedUnits([], np.zeros(0, np.int64), np.zeros(0, np.int32), said))
    words = ["recording", "export", "one", "--data", str(tmp_path), "--nwb", str(tmp_path / "one.nwb")]
    assert main(words) == 1
    assert "of a recording that began at 2025-01-01T00:00:00.000Z" in capsys.readouterr().err
    (folder / ".zattrs").write_text("{}")
    with pytest.raises(RecordingRefused, match="no units that can be read"):
        read_units(recording)
    (folder / ".zattrs").write_text(json.dumps({"choroid_units": 2}))
    with pytest.raises(RecordingRefused, match="update Choroid"):
        read_units(recording)
