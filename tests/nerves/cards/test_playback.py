"""The playback card: any recording through the same interface, at its own pace, and nothing is invented (N5, N6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from choroid.running.card_process import CardProcess
from choroid.running.cards import open_card
from choroid.running.nerves_handle import card_config
from controller.rig.description import Nerves
from nerves.cards.conformance.examine import examine_card
from nerves.cards.conformance.properties import PROPERTIES
from nerves.cards.contract import CardRefused, CardState, Delivery, FrameBlock
from nerves.cards.geometry import ArrayGeometry
from nerves.cards.playback import PlaybackCard
from nerves.cards.replayable_nwb import NwbRecording
from nerves.core import Core
from nerves.detections import ALL, Blank
from nerves.envelope import Envelope
from nerves.governor import Request
from nerves.ledger import StimulationLedger
from tests.nerves.bench import PULSE, VirtualCrystal
from tests.nerves.cards.playback_bench import ELECTRODES, PLAYBACK, RATE, KnownRecording, noise
from tests.nerves.cards.recorded_files import write_intan, write_nwb, write_spikeglx
from tests.nerves.recording.record import recorded_bench
from verification.conformance.broken_cards import BROKEN, BrokenCard

SAMPLES = noise(0.064, seed=9)[:, :4]
"""1,280 frames: ten blocks of Intan."""
LEFT_OUT = {"gap", "delivery", "as-it-is", "late", "once", "together", "cancel", "close", "stalled", "impedance"}
"""Properties of cards that stimulate, lose frames or measure."""
ONLY_RECORDS = ("data-sheet", "frames", "clock", "self-test", "input-only")


@pytest.mark.parametrize("name", PROPERTIES)
def test_N5_a_replay_has_every_property_of_a_card(name: str) -> None:
    (verdict,) = examine_card(PLAYBACK, {name: PROPERTIES[name]})
    assert verdict.outcome == ("n/a" if name in LEFT_OUT else "pass"), verdict.told


@pytest.mark.parametrize("broken", [each for each in BROKEN if each.property in ONLY_RECORDS], ids=str)
def test_J1_a_broken_replay_is_noticed_by_its_property(broken: BrokenCard) -> None:
    (verdict,) = examine_card(broken.on(PLAYBACK), {broken.property: PROPERTIES[broken.property]})
    assert verdict.outcome == "fail"


def played(recording: KnownRecording, blocks: int, **options: Any) -> tuple[PlaybackCard, list[FrameBlock]]:
    crystal = VirtualCrystal()
    card = PlaybackCard(recording, clock=crystal, sleep=crystal.sleep, **options)
    return card, [card.read() for _ in range(blocks)]


def test_N5_a_gap_of_the_recording_is_a_gap_of_the_replay_of_the_same_length() -> None:
    samples = noise(1.5)
    card, blocks = played(KnownRecording(samples, ((100, 10_105), (20_105, 30_000))), 1050)
    found = {block.first_frame: block for block in blocks if len(block.samples)}
    assert found[0].samples[0].tolist() == samples[100].tolist()
    assert max(first for first in found if first < 20_005) + 5 == 10_005
    assert np.array_equal(found[20_005].samples, samples[20_105:20_125])
    assert any(not len(block.samples) and not block.faults for block in blocks)  # it waits, as long as the gap was
    card.close()


@pytest.mark.parametrize("loop", [False, True])
def test_N5_a_replay_ends_with_a_reason_or_begins_again(loop: bool) -> None:
    samples = noise(0.0515)
    card, blocks = played(KnownRecording(samples), 120, loop=loop)
    joined = np.concatenate([block.samples for block in blocks])
    assert np.array_equal(joined[: len(samples)], samples)
    if loop:
        assert np.array_equal(joined[len(samples) : 2 * len(samples)], samples)
        ends = [block.first_frame + len(block.samples) for block in blocks]
        assert [block.first_frame for block in blocks[1:]] == ends[:-1]
    else:
        assert len(joined) == len(samples)
        assert blocks[-1].faults[0].state is CardState.STALLED
        assert "write loop: true" in blocks[-1].faults[0].text
    card.close()
    with pytest.raises(ConnectionError):
        card.read()


def opened(path: Path, **keys: Any) -> tuple[Any, np.ndarray[Any, Any]]:
    """Open a file as the rig file names it; return the data sheet and 0.05 s in microvolts."""
    said: dict[str, Any] = {"card": "playback", "link": f"file:{path}", "electrodes": 4, "sample_rate": "20 kHz"}
    nerves = Nerves.model_validate(said | {"diameter": "30 um"} | keys)
    found = open_card(card_config(nerves, 1, path.parent))
    try:
        blocks = [found.card.read() for _ in range(50)]
        return found.card.info, np.concatenate([block.samples for block in blocks]) * found.card.info.uv_per_unit
    finally:
        found.card.close()


def write(kind: str, folder: Path) -> tuple[Path, float, dict[str, Any]]:
    """Write :data:`SAMPLES` in some format; return the file, the microvolts of a unit, and the options it needs."""
    path = folder / f"noise.{kind}"
    if kind in ("rhd", "rhs"):
        write_intan(path, SAMPLES, RATE)
        return path, 0.195, {}
    if kind == "raw":
        path.write_bytes(SAMPLES.astype("<i2").tobytes())
        return path, 0.5, {"gain": "0.5 uV"}
    if kind == "nwb":
        write_nwb(path, SAMPLES, RATE, 0.25e-6)
        return path, 0.25, {}
    return write_spikeglx(folder, SAMPLES, RATE), 0.6 / 512 / 500 * 1e6, {}


@pytest.mark.parametrize("kind", ["rhd", "rhs", "raw", "nwb", "spikeglx"])
def test_N6_a_recording_of_another_program_is_replayed_to_the_unit(tmp_path: Path, kind: str) -> None:
    path, uv, options = write(kind, tmp_path)
    info, microvolts = opened(path, options=options)
    assert (info.replay, info.stimulates, info.simulated) == (True, False, False)
    assert info.uv_per_unit == pytest.approx(uv)
    assert np.array_equal(np.round(microvolts / uv), SAMPLES[: len(microvolts)])


def test_N6_samples_that_are_no_whole_numbers_are_rounded_and_saturate(tmp_path: Path) -> None:
    volts = np.linspace(-8e-3, 8e-3, 4_000).reshape(1_000, 4)
    write_nwb(tmp_path / "float.nwb", volts, RATE, 1.0, gap_at=500)
    _, microvolts = opened(tmp_path / "float.nwb")
    limits = (-32_768 * 0.195, 32_767 * 0.195)
    true = np.clip(np.concatenate([volts[:500], volts[500:]]) * 1e6, *limits)
    assert np.abs(microvolts - true[: len(microvolts)]).max() <= 0.0976


def test_N6_choroid_s_own_recording_is_replayed_with_its_gap(tmp_path: Path) -> None:
    with recorded_bench(tmp_path) as bench:
        bench.begin()
        bench.run(0.1)
        bench.lab.crystal.stall(0.8)
        bench.run(0.2)
        recording = bench.end()
    first, second = recording.segments[0], recording.segments[-1]
    nerves = Nerves.model_validate(
        {
            "card": "playback",
            "link": f"file:{recording.path}",
            "electrodes": 4,
            "sample_rate": "25 kHz",
            "diameter": "30 um",
        }
    )
    found = open_card(card_config(nerves, 1, tmp_path))
    try:
        assert found.card.info.replay
        assert found.card.info.simulated
        got: dict[int, Any] = {}
        while (second.first_frame - first.first_frame) not in got:
            block = found.card.read()
            if len(block.samples):
                got[block.first_frame] = block.samples
    finally:
        found.card.close()
    assert np.array_equal(got[0], first.read(first.first_frame, first.first_frame + len(got[0])))
    after = got[second.first_frame - first.first_frame]
    assert np.array_equal(after, second.read(second.first_frame, second.first_frame + len(after)))


class Blanked:
    """Keeps what the core blanks."""

    def __init__(self) -> None:
        self.blanks: list[Blank] = []

    def blanked(self, blanks: Sequence[Blank]) -> None:
        self.blanks += blanks

    def decided(self, *_: object) -> None:
        raise AssertionError("a replay decides nothing")

    def fates(self, rows: object) -> None:
        raise AssertionError("a replay has no pulses of its own")


def test_places_of_an_nwb_file_of_another_program_are_taken_where_they_can_be(tmp_path: Path) -> None:
    x, y = [0.0, 25.0, 50.0, 75.0], [0.0] * 4
    width = np.full(4, 12, np.float32)
    told: dict[str, Any] = {"shank_id": [0, 0, 1, 1], "contact_shape": ["oval"] * 4, "contact_width_um": width}
    write_nwb(tmp_path / "own.nwb", SAMPLES, RATE, 0.25e-6, rel_x=x, rel_y=y, **told)
    write_nwb(tmp_path / "zero.nwb", SAMPLES, RATE, 0.25e-6, rel_x=y, rel_y=y)
    own, zero = NwbRecording(tmp_path / "own.nwb"), NwbRecording(tmp_path / "zero.nwb")
    try:
        assert own.geometry is not None
        assert ArrayGeometry.unpacked(own.geometry.packed()) == own.geometry
        assert (own.geometry.x_um, own.geometry.shank) == (tuple(x), ("0", "0", "1", "1"))
        assert set(own.geometry.shape) == {"circle"}
        assert zero.geometry is None
    finally:
        own.close()
        zero.close()


def test_pulses_of_a_recording_are_replayed_as_deliveries_through_the_card_process_and_blanked(tmp_path: Path) -> None:
    with recorded_bench(tmp_path, electrodes=8) as bench:
        bench.begin()
        bench.run(3.0)  # a busy machine begins to read late: what came before the first read is skipped
        lease = bench.lab.lease(0, 1, 5)
        for electrodes in ((0, 5), (1,)):
            bench.lab.ask(Request("agent", lease.id, electrodes, PULSE))
            bench.run(0.2)
        recording = bench.end()
    begun = sorted(int(frame) for frame in recording.table("fates")["frame"] if frame >= 0)
    assert len(begun) == 3
    first = recording.segments[0].first_frame
    end = recording.segments[-1].end_frame - first
    nerves = Nerves.model_validate(
        {"card": "playback", "link": f"file:{recording.path}", "electrodes": 8}
        | {"sample_rate": "25 kHz", "diameter": "30 um"}
    )
    card = CardProcess(card_config(nerves, 1, tmp_path))
    core = Core(card, StimulationLedger(tmp_path / "l.db", card.info, "2026-01-01T00:00:00Z"), Envelope())
    got: list[Delivery] = []
    watched = Blanked()
    core.watch_stimulation(watched)
    try:
        while core.next_frame < end:
            block = card.read()
            got += block.deliveries
            core.step(block)
    finally:
        core.close()
        card.close()
    assert [each.frame for each in got] == [frame - first for frame in begun]
    assert sorted((each.frame, each.pulse.electrode) for each in got) == [
        (begun[0] - first, 0), (begun[1] - first, 5), (begun[2] - first, 1),
    ]  # fmt: skip
    assert all(each.pulse.phases == PULSE and each.pulse.id < 0 for each in got)
    assert core.delivered == 0, "nothing was asked of this engine"
    assert [(blank.electrode, blank.first_frame) for blank in watched.blanks] == [
        where for each in got for where in ((ALL, each.frame), (each.pulse.electrode, each.frame))
    ]


def test_N1_the_engine_refuses_stimulation_of_a_replay_with_the_reason(tmp_path: Path) -> None:
    card, _ = played(KnownRecording(noise(0.1)), 1)
    core = Core(card, StimulationLedger(tmp_path / "ledger.db", card.info, "2026-01-01T00:00:00Z"), Envelope())
    assert core.trouble == "replay of noise cannot stimulate: it only records"
    core.close()


def test_J3_what_cannot_be_replayed_is_refused_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "broken.rhd").write_bytes(b"\x02\x27\x91\xc6 but no more")
    (tmp_path / "odd.raw").write_bytes(bytes(10))
    for name, options, why in (
        ("none.nwb", {}, "the path is wrong"),
        ("broken.rhd", {}, "damaged or of another format"),
        ("odd.raw", {"gain": "1 uV"}, "correct nerves: electrodes"),
    ):
        with pytest.raises(CardRefused, match=why):
            opened(tmp_path / name, options=options)
    write_nwb(tmp_path / "one.nwb", SAMPLES, RATE, 1e-6)
    with pytest.raises(CardRefused, match="one of: raw"):
        opened(tmp_path / "one.nwb", options={"stream": "lfp"})
    with pytest.raises(CardRefused, match="write electrodes: 4 and sample_rate: 20000 Hz"):
        opened(tmp_path / "one.nwb", electrodes=8)


def test_N6_only_the_flag_tells_a_replay(tmp_path: Path) -> None:
    card, _ = played(KnownRecording(noise(0.1)), 1)
    sheet = asdict(card.info)
    assert [name for name, value in sheet.items() if value is True] == ["replay"]
    assert card.info.electrodes == ELECTRODES
    card.close()
