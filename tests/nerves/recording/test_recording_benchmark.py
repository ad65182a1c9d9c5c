"""The recording benchmark on a small scale: all frames come back through SpikeInterface, and a spoiled one is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nerves.recording.recorded import recordings
from tests.nerves.recording.record import recorded_bench
from verification.bench import recording as bench

pytestmark = pytest.mark.needs_module("spikeinterface", "dev")


def test_N6_every_frame_that_the_card_gave_comes_back_through_spikeinterface(tmp_path: Path) -> None:
    figures = bench.bench_recording(channels=16, record_s=4.0, paced=False, folder=str(tmp_path))
    assert figures["complete"]
    assert figures["frames"] == figures["frames_equal_through_spikeinterface"] >= 4.0 * bench.RATE_HZ
    assert figures["frames_in_gaps"] == figures["lost_by_writer_frames"] == 0
    assert figures["compression"] > 1.2


def test_J1_the_benchmark_notices_frames_that_are_not_the_cards(tmp_path: Path) -> None:
    with recorded_bench(tmp_path / "r") as lab:
        lab.begin()
        lab.run(0.1)
        lab.end()
    (recording,) = recordings(tmp_path / "r")
    read = bench._read_back(recording, bench.NoiseCard(4, paced=False))
    assert read["frames_equal_through_spikeinterface"] < read["frames"] == 2500
