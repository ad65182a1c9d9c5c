"""NWB files of recordings: judged by nwbinspector, and read by SpikeInterface, neo and pynapple."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import choroid
from choroid.cli import main
from choroid.common.failure import UserError
from choroid.nwb import command
from choroid.nwb import export as nwb
from choroid.nwb.command import export_recording
from choroid.nwb.environment import Environment, EnvironmentSeries, MediumTransfer
from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.memory.history import History
from nerves.commands import StimulateCommand
from nerves.governor import Request
from nerves.recording.recorded import ArrayRecording, recordings
from tests.nerves.bench import PULSE
from tests.nerves.recording.record import recorded_bench

pytestmark = [
    pytest.mark.needs_module("pynwb", "nwb"),
    pytest.mark.filterwarnings("ignore"),  # those of the readers
]
TISSUE = {"count": 2, "age_d": 60.0, "age_on": "2025-12-02", "batch": "b1", "cell_line": "H9"}


@dataclass
class Exported:
    """A file, the recording that it is of, and what was said of it."""

    path: Path
    recording: ArrayRecording
    answer: dict[str, Any]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Two segments with a gap, spikes, pulses on two electrodes, and an environment."""
    folder = tmp_path_factory.mktemp("nwb")
    with recorded_bench(folder / "recordings", electrodes=8) as lab:
        object.__setattr__(
            lab.tap._plan, "identity", {"rig": "bench", "rig_id": "0c9b5a7f21de", "tissue": {"dish": TISSUE}}
        )
        lab.run(0.1)  # frames count from the start of the engine, times from that of the recording
        lab.begin("one")
        lab.run(0.5)
        lease = lab.lab.lease(0, 5)
        for late_s in (0.0, 0.006):
            at = lab.lab.core.next_frame + 100
            lab.lab.ask(Request("agent", lease.id, (0, 5), PULSE, at_frame=at, not_after=at + 250, purpose="a test"))
            lab.lab.crystal.stall(late_s)
            lab.run(0.4)
        lab.lab.crystal.stall(1.0)
        lab.run(0.5)
        lab.end()
    (recording,) = recordings(folder / "recordings")
    with environment_of_the_rig():
        answer = export_recording(
            "one", folder, folder / "one.nwb", experimenter="Lovelace, Ada", lab="x", institution="y"
        )
    return Exported(folder / "one.nwb", recording, answer)


@contextmanager
def environment_of_the_rig() -> Iterator[None]:
    """Put readings and a transfer in the place of a rig's records."""

    def found(data: Path, begin: float, end: float, at_s: Any, text: Any) -> Environment:
        assert 0.9 < end - begin < 4.0
        times = np.array([at_s(begin + each) for each in (0.1, 0.9, 1.2)])
        regular = np.array([at_s(begin + each) for each in (0.0, 0.5, 1.0, 1.5)])
        return Environment(
            [
                EnvironmentSeries("ph_loop.ph", "pH", times, np.array([7.38, 7.39, 7.4])),
                EnvironmentSeries("incubator.temperature", "degC", regular, np.array([37.0, 37.1, 37.0, 36.9])),
            ],
            [
                MediumTransfer("feed", 0.2, 0.9, 150.0, 2.0, "balance"),
                MediumTransfer("draw", 1.0, 1.4, 80.0, 2.0, "pump"),
            ],
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nwb, "environment", found)
        yield


def test_nwbinspector_finds_no_violation_and_nothing_critical(exported: Exported) -> None:
    import nwbinspector

    grave = (
        nwbinspector.Importance.ERROR,
        nwbinspector.Importance.PYNWB_VALIDATION,
        nwbinspector.Importance.CRITICAL,
        nwbinspector.Importance.BEST_PRACTICE_VIOLATION,
    )
    messages = list(nwbinspector.inspect_nwbfile(nwbfile_path=str(exported.path)))
    assert [message for message in messages if message.importance in grave] == []


def test_J1_nwbinspector_notices_a_spoiled_file(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nwbinspector

    header = nwb.NwbHeader(species="human")
    nwb.export_nwb(exported.recording, tmp_path, tmp_path / "spoiled.nwb", header)
    messages = nwbinspector.inspect_nwbfile(nwbfile_path=str(tmp_path / "spoiled.nwb"))
    assert any("species" in message.message.lower() for message in messages)


def test_spikeinterface_reads_samples_and_spikes_equal(exported: Exported) -> None:
    import spikeinterface.extractors as se

    recording = exported.recording
    for number, segment in enumerate(recording.segments):
        name = "ElectricalSeries" if not number else f"ElectricalSeries{number}"
        read = se.read_nwb_recording(str(exported.path), electrical_series_path=f"acquisition/{name}")
        assert np.array_equal(read.get_traces(), segment.read(segment.first_frame, segment.end_frame))
        assert np.allclose(read.get_channel_gains(), 0.195)
        assert read.get_sampling_frequency() == 25_000
        at_s = (segment.first_frame - recording.segments[0].first_frame) / 25_000
        assert read.get_times()[0] == pytest.approx(at_s, abs=1e-9)
    sorting = se.read_nwb_sorting(str(exported.path), electrical_series_path="acquisition/ElectricalSeries")
    spikes, first = recording.table("spikes"), recording.segments[0].first_frame
    for unit in sorting.get_unit_ids():
        electrode = int(str(unit).removeprefix("e"))
        frames = np.sort(spikes["frame"][(spikes["electrode"] == electrode) & (spikes["frame"] >= first)])
        assert np.array_equal(sorting.get_unit_spike_train(unit), frames - first)


def test_pynwb_reads_pulses_environment_gap_and_tissue(exported: Exported) -> None:
    import pynwb

    with pynwb.NWBHDF5IO(exported.path, "r") as io:
        file = io.read()
        pulses = file.intervals["electrical_stimulation"].to_dataframe()
        assert [list(each) for each in pulses["electrodes_stimulated"]] == [[0, 5], [0, 5]]
        assert set(pulses["fate"]) == {"delivered"}
        assert json.loads(pulses["phases"][0]) == [[200.0, -1.0], [200.0, 1.0]]
        fates, first = exported.recording.table("fates"), exported.recording.segments[0].first_frame
        delivered = sorted({int(frame) for frame in fates["frame"] if frame >= 0})
        assert np.allclose(pulses["start_time"], [(frame - first) / 25_000 for frame in delivered])
        assert pulses["sample_index"].tolist() == [frame - first for frame in delivered]
        assert np.allclose(pulses["stop_time"] - pulses["start_time"], 400e-6)
        planned = sorted({int(row["at_frame"]) for row in exported.recording.table("pulses")})
        assert np.allclose(pulses["planned_time"], [(frame - first) / 25_000 for frame in planned])
        assert [late > planned for late, planned in zip(delivered, planned, strict=True)] == [False, True]
        assert (set(pulses["requester"]), set(pulses["purpose"])) == ({"agent"}, {"a test"})
        assert pulses["charge_nc"].tolist() == pytest.approx([0.4, 0.4])
        assert pulses["net_charge_pc"].tolist() == [0.0, 0.0]
        (gap,) = exported.recording.table("gaps")
        lost = file.invalid_times.to_dataframe()
        assert lost["stop_time"][0] - lost["start_time"][0] == pytest.approx(
            (gap["end_frame"] - gap["first_frame"]) / 25_000
        )
        assert lost["cause"][0] == "array"
        assert file.acquisition["ph_loop.ph"].data[:].tolist() == [7.38, 7.39, 7.4]
        assert file.acquisition["ph_loop.ph"].unit == "pH"
        assert file.acquisition["ph_loop.ph"].timestamps[:].tolist() == pytest.approx([0.1, 0.9, 1.2], abs=1e-6)
        assert file.acquisition["incubator.temperature"].rate == pytest.approx(2.0, rel=1e-3)
        transfers = file.intervals["medium_transfers"].to_dataframe()
        assert transfers["ul"].tolist() == [150.0, 80.0]
        assert transfers[["start_time", "stop_time"]].to_numpy().tolist() == [[0.2, 0.9], [1.0, 1.4]]
        assert file.subject.age == "P90D"
        assert "batch b1, cell line H9" in file.subject.description
        ohms = file.electrodes["imp"][:]
        known = exported.recording.attributes["impedance_kohm"]
        assert np.allclose(ohms, [np.nan if z is None else z * 1e3 for z in known], equal_nan=True)
        assert abs((file.session_start_time - exported.recording.clock.utc_at(first)).total_seconds()) < 1e-3


def test_pynapple_reads_every_table(exported: Exported) -> None:
    import pynapple

    file = pynapple.load_file(str(exported.path))
    assert len(file["units"])
    assert len(file["electrical_stimulation"]) == 2
    assert file["ElectricalSeries"].shape[1] == 8
    assert len(file["ph_loop.ph"]) == 3


def test_N8_a_histogram_around_pulses_is_that_of_pynapple_over_the_observed_time(exported: Exported) -> None:
    import pynapple

    recording, file = exported.recording, pynapple.load_file(str(exported.path))
    first, end = recording.segments[0].first_frame, recording.segments[0].end_frame
    found = choroid.psth(recording.path, window_ms=(-20.0, 100.0))
    pulses, units = np.unique(file["stimulation_pulses"].t), file["units"]
    assert found.trials == len(pulses) == 2
    assert found.counts.sum() > 10
    for electrode in range(8):
        train = next((units[k] for k in units if units["unit_name"][k] == f"e{electrode}"), None)
        rows = recording.table("unobserved")
        rows = rows[(rows["electrode"] == electrode) | (rows["electrode"] == -1)]
        assert all(((rows["first_frame"] <= p) & (rows["end_frame"] >= p + 60)).any() for p in pulses * 25_000 + first)
        hidden = pynapple.IntervalSet(
            (rows["first_frame"] - first) / 25_000, (rows["end_frame"] - first - 0.5) / 25_000
        )
        seen = pynapple.IntervalSet(0.0, (end - first - 20) / 25_000).set_diff(hidden)
        counts = np.zeros(120, int)
        if train is not None:
            kept = pynapple.Ts(train.restrict(seen).t, time_support=pynapple.IntervalSet(0.0, end / 25_000))
            edges = (np.arange(-20.0, 100.5) - 0.02) * 1e-3  # between frames
            near = pynapple.compute_perievent(kept, pynapple.Ts(pulses), window=(-0.03, 0.11))
            counts = np.sum([np.histogram(near[trial].t, edges)[0] for trial in near], axis=0)
        assert found.counts[electrode].tolist() == counts.tolist()
    own, others = ([electrode in (0, 5) for electrode in range(8)], [electrode not in (0, 5) for electrode in range(8)])
    hidden_ms = (found.observed_s[:, 20:] <= 0.0).sum(axis=1)  # blanking and filter: 0.4 + 5 + 0.8 ms, or 0.4 + 2 + 0.8
    assert set(hidden_ms[own]) == {6}
    assert set(hidden_ms[others]) == {3}
    assert np.isnan(found.rate_hz[found.observed_s <= 0.0]).all()


def test_the_histogram_of_a_recording_of_an_earlier_release_shows_no_more(
    exported: Exported, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It knows the blanks, not what the detector made of them."""
    earlier = tmp_path / "earlier.zarr"
    shutil.copytree(exported.recording.path, earlier)
    said = json.loads((earlier / ".zattrs").read_text())
    del said["mute_causes"]
    (earlier / ".zattrs").write_text(json.dumps(said))
    shutil.rmtree(earlier / "unobserved")
    assert main(["recording", "psth", str(earlier), "--bin", "1", "--stimulated", "5", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    now = choroid.psth(exported.recording.path)
    for electrode, each in enumerate(answer["electrodes"]):
        known = np.array(each["observed_s"]) > 0.0
        assert (now.observed_s[electrode] > 0.0)[known].all()
        assert [rate is not None for rate in each["rate_hz"]] == known.tolist()
    assert main(["recording", "psth", str(earlier), "--stimulated", "3"]) == 1
    assert "no delivered pulse on electrodes 3" in capsys.readouterr().err


@pytest.fixture(scope="module")
def overlapping(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """One segment, with pulses of several requests that overlap, in the form for Neo."""
    folder = tmp_path_factory.mktemp("overlapping")
    with recorded_bench(folder / "recordings", electrodes=8) as lab:
        lab.begin("one")
        lab.run(0.3)
        lease = lab.lab.lease(0, 1, 2, 5)
        for _ in range(3):
            for electrodes in ((0, 5), (1,), (2,)):
                request = Request("agent", lease.id, electrodes, PULSE)
                lab.lab.core.submit(StimulateCommand(request, lambda _: None, lambda _: None, lambda: False))
            lab.run(0.4)
        lab.end()
    (recording,) = recordings(folder / "recordings")
    assert len(recording.table("pulses")) == 12
    with environment_of_the_rig():
        answer = export_recording("one", folder, folder / "one.nwb", for_neo=True)
    return Exported(folder / "one.nwb", recording, answer)


def test_overlapping_pulses_are_counted_equal_by_pynapple(overlapping: Exported) -> None:
    """Its intervals merge those that overlap; its events do not."""
    import pynapple

    recording = overlapping.recording
    file = pynapple.load_file(str(overlapping.path))
    assert len(file["electrical_stimulation"]) < 9
    events = file["stimulation_pulses"]
    assert len(events) == len(recording.table("pulses")) == overlapping.answer["pulses"]
    first = recording.segments[0].first_frame
    delivered = np.sort(recording.table("fates")["frame"])
    assert np.allclose(events.t, (delivered[delivered >= 0] - first) / 25_000)
    assert len(file["voltage"]) == len(recording.segments[0].traces)
    spikes = recording.table("spikes")
    assert sum(len(train) for train in file["units"].values()) == overlapping.answer["spikes"] <= len(spikes)


def test_neo_reads_voltage_probe_events_spikes_and_environment_as_they_are(overlapping: Exported) -> None:
    import neo

    recording = overlapping.recording
    block = neo.io.NWBIO(str(overlapping.path), "r").read_block()
    (part,) = block.segments
    (voltage,) = (each for each in part.analogsignals if each.name == "voltage")
    segment = recording.segments[0]
    raw = segment.read(segment.first_frame, segment.end_frame)
    assert str(voltage.units.dimensionality) == "uV"
    assert np.array_equal(np.round(voltage.magnitude / 0.195), raw)
    assert np.allclose(voltage.magnitude, raw * 0.195, atol=1e-3)
    assert float(voltage.sampling_rate) == 25_000.0
    assert recording.geometry is not None
    assert voltage.annotations["notes"]["probegroup"] == json.loads(json.dumps(recording.geometry.probegroup()))
    (events,) = part.events
    assert len(events) == len(recording.table("pulses"))
    assert events.labels[0].startswith("electrode ")
    assert sum(len(train) for train in part.spiketrains) == overlapping.answer["spikes"]
    read = {each.name: each for each in (*part.irregularlysampledsignals, *part.analogsignals)}
    assert read["ph_loop.ph"].magnitude.ravel().tolist() == [7.38, 7.39, 7.4]
    assert read["incubator.temperature"].magnitude.ravel().tolist() == [37.0, 37.1, 37.0, 36.9]


def test_the_form_for_neo_is_the_same_recording_to_spikeinterface_and_pynwb(overlapping: Exported) -> None:
    import pynwb
    import spikeinterface.extractors as se

    recording = overlapping.recording
    segment = recording.segments[0]
    read = se.read_nwb_recording(str(overlapping.path))
    raw = segment.read(segment.first_frame, segment.end_frame)
    assert np.allclose(read.get_traces(return_in_uV=True), raw * 0.195, atol=1e-3)
    assert recording.geometry is not None
    assert np.array_equal(read.get_probe().contact_positions, recording.geometry.positions_um())
    with pynwb.NWBHDF5IO(overlapping.path, "r") as io:
        file = io.read()
        assert file.acquisition["voltage"].data == file.processing["ecephys"]["ElectricalSeries"].data, "stored once"


def test_spikeinterface_reads_the_environment(exported: Exported) -> None:
    import spikeinterface.extractors as se

    read = se.read_nwb_timeseries(str(exported.path), timeseries_path="acquisition/incubator.temperature")
    assert read.get_traces().ravel().tolist() == [37.0, 37.1, 37.0, 36.9]


@pytest.mark.parametrize("file", ["exported", "overlapping"])
def test_pynwb_validates_and_the_configuration_of_dandi_finds_no_violation(
    file: str, request: pytest.FixtureRequest
) -> None:
    import nwbinspector
    import pynwb

    path = request.getfixturevalue(file).path
    assert pynwb.validate(path=str(path)) == []
    config = nwbinspector.load_config(filepath_or_keyword="dandi")
    grave = nwbinspector.Importance.BEST_PRACTICE_VIOLATION.value
    messages = list(nwbinspector.inspect_nwbfile(nwbfile_path=str(path), config=config))
    assert [message for message in messages if message.importance.value >= grave] == []


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_cannot_be_exported_is_refused(exported: Exported, tmp_path: Path) -> None:
    folder = exported.path.parent
    with pytest.raises(UserError, match="there is no recording “two”"):
        export_recording("two", folder, tmp_path / "x.nwb")
    with pytest.raises(UserError, match="exists"):
        export_recording("one", folder, exported.path)
    with pytest.raises(UserError, match="suffix"):
        export_recording("one", folder, tmp_path / "x.h5")
    with pytest.raises(UserError, match=r"there is no folder .*none"):
        export_recording("one", folder, tmp_path / "none" / "x.nwb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nwb._Samples, "_get_data", full_disk)
        with pytest.raises(UserError, match=r"could not be written to .*x\.nwb .*disk is full\. Next: free space"):
            export_recording("one", folder, tmp_path / "x.nwb")
    assert list(tmp_path.iterdir()) == []
    answer = export_recording("one", folder, tmp_path / "x.nwb")
    assert "no journal" in answer["without_environment"]
    assert exported.answer["environment_series"] == 2


def test_the_file_carries_the_identity_of_the_rig(exported: Exported) -> None:
    """Two rigs may have one name and record at the same time."""
    import pynwb

    with pynwb.NWBHDF5IO(exported.path, "r") as io:
        file = io.read()
        assert file.identifier.startswith("bench/0c9b5a7f21de/one/")
        assert file.subject.subject_id == "bench-0c9b5a7f21de-dish"


@pytest.fixture
def records(exported: Exported, tmp_path: Path) -> Iterator[History]:
    """A data folder with the recording, whose controller has not yet written the readings of its time."""
    folder = exported.path.parent
    (tmp_path / "recordings").symlink_to(folder / "recordings")
    Journal(tmp_path / "journal.db", FixedClock(), durable=False).close()
    history = History(tmp_path / "history.db", FixedClock())
    yield history
    history.close()


class FixedClock(Clock):
    """A clock that stands: the readings bring their own times."""

    def __init__(self) -> None:
        """Take no event loop."""

    def now_s(self) -> float:
        return 0.0

    def utc_us(self) -> int:
        return 0

    def utc_text(self) -> str:
        return "2026-01-01T00:00:00.000Z"


def test_a_recording_between_two_readings_has_the_state_at_its_begin(
    exported: Exported, records: History, tmp_path: Path
) -> None:
    """A probe that is read every five minutes is not read during every recording."""
    import pynwb

    begin, end = ends(exported.recording)
    records.insert("incubator.co2", "%", [(begin - 240.0, 5.1), (end + 60.0, 5.2)])
    records.insert("old.ph", "pH", [(begin - 700.0, 7.0)])
    answer = export_recording("one", tmp_path, tmp_path / "a.nwb")
    assert answer["environment_series"] == 1
    with pynwb.NWBHDF5IO(tmp_path / "a.nwb", "r") as io:
        file = io.read()
        series = file.acquisition["incubator.co2"]
        assert (series.data[:].tolist(), series.timestamps[:].tolist()) == ([5.1], [0.0])
        assert "240.0 s before the recording" in series.description


def ends(recording: ArrayRecording) -> tuple[float, float]:
    first, last = recording.segments[0].first_frame, recording.segments[-1].end_frame
    return recording.clock.utc_us_at(first) / 1e6, recording.clock.utc_us_at(last) / 1e6


def test_Q6_an_export_before_the_readings_are_written_says_what_is_missing_and_fails_if_strict(
    exported: Exported, records: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It had "0 series of the rig" and exit status 0."""
    begin, _ = ends(exported.recording)
    records.insert("ph_loop.ph", "pH", [(begin - 100.0, 7.4), (begin - 50.0, 7.4)])
    words = ["recording", "export", "one", "--data", str(tmp_path), "--nwb"]
    assert main([*words, str(tmp_path / "a.nwb"), "--strict"]) == 1
    said = capsys.readouterr().out
    assert "0 series of the rig" in said
    assert "MISSING" in said
    assert "Next: export again" in said
    assert main([*words, str(tmp_path / "b.nwb")]) == 0


def test_an_export_right_after_a_recording_waits_for_the_controller(
    exported: Exported, records: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, end = ends(exported.recording)
    monkeypatch.setattr(command, "LOOK_S", 0.01)
    looks = []

    def running(_: Path) -> tuple[int, ...]:
        looks.append(1)
        if len(looks) == 5:
            records.insert("ph_loop.ph", "pH", [(begin + 0.1, 7.4), (end + 1.0, 7.4)])
        return (1,)

    monkeypatch.setattr(command, "holders", running)
    assert (
        main(["recording", "export", "one", "--data", str(tmp_path), "--nwb", str(tmp_path / "a.nwb"), "--strict"]) == 0
    )
    assert len(looks) >= 5


def test_an_export_waits_no_longer_than_its_limit(
    exported: Exported, records: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "LOOK_S", 0.01)
    monkeypatch.setattr(command, "holders", lambda _: (1,))
    answer = export_recording("one", tmp_path, tmp_path / "a.nwb", wait_s=0.1)
    assert "the history is empty" in answer["without_environment"]


def test_spikeinterface_reads_the_probe_of_the_file_and_the_forms_of_its_electrodes(exported: Exported) -> None:
    import spikeinterface.extractors as se

    geometry = exported.recording.geometry
    assert geometry is not None
    read = se.read_nwb_recording(str(exported.path), electrical_series_path="acquisition/ElectricalSeries")
    assert np.array_equal(read.get_probe().contact_positions, geometry.positions_um())
    assert read.get_property("contact_shape").tolist() == ["circle"] * 8
    assert read.get_property("contact_width_um").tolist() == [30.0] * 8
    assert read.get_property("contact_id").tolist() == list(geometry.pad)


def test_a_recording_without_a_geometry_has_no_positions_and_says_so(exported: Exported, tmp_path: Path) -> None:
    import pynwb
    import spikeinterface.extractors as se

    recording = ArrayRecording(exported.recording.path)
    del recording.attributes["probegroup"]
    nwb.export_nwb(recording, tmp_path, tmp_path / "x.nwb", nwb.NwbHeader())
    read = se.read_nwb_recording(str(tmp_path / "x.nwb"), electrical_series_path="acquisition/ElectricalSeries")
    assert not read.has_probe()
    with pynwb.NWBHDF5IO(tmp_path / "x.nwb", "r") as io:
        file = io.read()
        assert "positions are not known" in file.electrode_groups["array"].description


def test_a_recording_without_samples_has_its_spikes_between_its_gaps(tmp_path: Path) -> None:
    """It had none, and nothing said so."""
    import pynwb

    with recorded_bench(tmp_path / "recordings", electrodes=8, frames=False) as lab:
        lab.begin("one")
        lab.run(0.3)
        lab.lab.crystal.stall(1.0)
        lab.run(0.3)
        recording = lab.end()
    spikes, (gap,) = recording.table("spikes"), recording.table("gaps")
    answer = export_recording("one", tmp_path, tmp_path / "one.nwb")
    assert answer["spikes"] == len(spikes) > 0
    first, end = recording.attributes["first_frame"], recording.attributes["end_frame"]
    between = np.array([[first, gap["first_frame"]], [gap["end_frame"], end]]) - first
    with pynwb.NWBHDF5IO(tmp_path / "one.nwb", "r") as io:
        units = io.read().units
        assert np.allclose(units["obs_intervals"][0], between / 25_000)
        assert sum(len(train) for train in units["spike_times"][:]) == len(spikes)
    attributes = recording.path / ".zattrs"
    said = json.loads(attributes.read_text())
    attributes.write_text(json.dumps({name: value for name, value in said.items() if not name.startswith("end")}))
    assert export_recording("one", tmp_path, tmp_path / "cut.nwb")["spikes"] == len(spikes), "its writer was killed"


def test_spikeinterface_finds_units_where_their_electrodes_are(exported: Exported) -> None:
    import spikeinterface.core as si
    import spikeinterface.extractors as se
    import spikeinterface.postprocessing  # noqa: F401  (registers unit_locations)

    geometry = exported.recording.geometry
    assert geometry is not None
    first = exported.recording.segments[0]
    spikes = exported.recording.table("spikes")
    spikes = spikes[(spikes["frame"] > first.first_frame + 100) & (spikes["frame"] < first.end_frame - 100)]
    busiest = np.bincount(spikes["electrode"]).argmax()
    frames = spikes["frame"][spikes["electrode"] == busiest] - first.first_frame
    sorting = si.NumpySorting.from_unit_dict({int(busiest): frames}, 25_000.0)
    for read in (
        si.read_zarr(exported.recording.path).select_segments([0]),
        se.read_nwb_recording(str(exported.path), electrical_series_path="acquisition/ElectricalSeries"),
    ):
        analyzer = si.create_sorting_analyzer(sorting, read, sparse=False)
        analyzer.compute(["random_spikes", "templates", "noise_levels", "unit_locations"])
        at = analyzer.get_extension("unit_locations").get_data()[0]
        far = np.hypot(*(geometry.positions_um() - at[:2]).T)
        assert far.argmin() == busiest


def test_a_replay_of_the_file_has_the_geometry_of_the_recording(exported: Exported) -> None:
    from nerves.cards.replayable_nwb import NwbRecording

    replayed = NwbRecording(exported.path, "ElectricalSeries")
    try:
        known, found = exported.recording.geometry, replayed.geometry
        assert known is not None
        assert found is not None
        assert found == replace(known, module="", reference="not stated", source="recording")
    finally:
        replayed.close()
