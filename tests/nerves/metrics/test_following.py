"""Figures of a running core: those of its detected spikes, without muted electrodes, in a new window after a gap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nerves.detector import ElectrodeState
from nerves.metrics.figures import SpikeWindow, measure
from nerves.metrics.following import MetricsFollower
from tests.nerves.bench import Bench, bench
from tests.nerves.test_core import RATE, SMALL, ask, unplug


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stimulation.db"


def follow(lab: Bench, follower: MetricsFollower, seconds: int) -> None:
    for _ in range(seconds):
        lab.run(1.0)
        follower.take()
    follower.renew()


def test_N8_the_figures_are_those_of_the_detected_spikes(path: Path) -> None:
    with bench(path) as lab:
        follower = MetricsFollower(lab.core)
        follower.take()
        follow(lab, follower, 12)
        assert follower.latest is None, "the window is still short"
        assert follower.window() is None
        lease = lab.lease(3)
        outcome = lab.ask(ask(lease.id, 3, phases=SMALL))
        assert outcome.decision.accepted
        follow(lab, follower, 11)
        found = follower.latest
        assert found is not None
        _, spikes, _ = lab.core.spikes.read(0, 100_000)
        inside = spikes.frames < found.end_frame
        assert found.end_frame == lab.core.next_frame
        assert found.array.pulses == 1
        assert found.array.spikes == inside.sum() > 500
        window = SpikeWindow.of(
            0, found.end_frame, spikes.frames[inside], spikes.electrodes[inside], spikes.uv[inside], 32
        )
        direct, _ = measure(window, float(RATE), np.ones(32, np.bool_), 1)
        assert found.array == direct
        assert 0.3 < found.array.figures["sttc"] < 0.9, "the simulated culture fires in network bursts"
        assert found.array.figures["network_bursts_min"] >= 2.0
        assert 15.0 < np.nanmedian(found.electrodes.amplitude_uv) < 200.0


def test_N5_N8_muted_electrodes_are_left_out_and_lost_frames_begin_a_new_window(path: Path) -> None:
    with bench(path) as lab:
        follower = MetricsFollower(lab.core)
        unplug(lab, [2], 1.0)
        follower.take()
        for _ in range(22):
            unplug(lab, [2], 1.0)
            follower.take()
        follower.renew()
        assert follower.latest is not None
        assert lab.core.firing().states[2] is ElectrodeState.DEAD
        assert np.isnan(follower.latest.electrodes.rate_hz[2])
        assert np.isfinite(follower.latest.electrodes.rate_hz[3])
        lab.crystal.stall(2.0)
        follow(lab, follower, 3)
        assert lab.core.gaps == 1
        assert follower.latest is None
