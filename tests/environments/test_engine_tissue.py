"""An environment on a real engine process: windows in the time of the array, pulses through the governor, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from choroid import NervesError
from choroid.environments.engine_tissue import EngineTissue
from choroid.tissue.window import SitePulse
from tests.nerves.test_gateway import start, stop


@pytest.fixture(scope="module")
def nerves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    data = tmp_path_factory.mktemp("engine")
    engine = start(data, seed=7)
    path = data / "agent.json"
    path.write_text(json.dumps({"address": engine.address, "token": engine.agent_token}))
    yield path
    assert stop(engine) == 0


def test_a_window_holds_the_spikes_of_its_time_and_pulses_are_delivered(nerves: Path) -> None:
    tissue = EngineTissue(nerves)
    try:
        assert tissue.electrodes == 32
        assert len(tissue.usable()) == 31
        found = [tissue.window(0.5, [SitePulse(0.1, tissue.usable()[n], 2.0) for n in (12, 13, 14)]) for _ in range(4)]
        assert sum(len(spikes.at_s) for spikes in found) > 0
        assert all(np.all((spikes.at_s >= 0.0) & (spikes.at_s < 0.5)) for spikes in found)
        assert all(np.all(np.diff(spikes.at_s) >= 0.0) for spikes in found)
        records = list(tissue._client.ledger(limit=1000))
        assert len(records) >= 4
    finally:
        tissue.close()


def test_N1_a_pulse_beyond_the_envelope_is_refused_with_its_reasons(nerves: Path) -> None:
    tissue = EngineTissue(nerves)
    try:
        with pytest.raises(NervesError, match="refuses a pulse of 40 µA"):
            tissue.window(0.1, [SitePulse(0.0, tissue.usable()[3], 40.0)])
    finally:
        tissue.close()


def test_the_same_environment_runs_on_the_engine(nerves: Path) -> None:
    environment = gymnasium.make("choroid/ReservoirVowels-v0", nerves=nerves)
    observation, _ = environment.reset(seed=3)
    counted = float(observation[:32].sum())
    for action in range(5):
        observation, reward, ended, truncated, info = environment.step(np.int64(action))
        assert environment.observation_space.contains(observation)
        assert reward == info["score"]
        assert not ended
        assert not truncated
        counted += float(observation[:32].sum())
    assert counted > 0.0
    environment.close()
    again = EngineTissue(nerves)  # the lease has ended with the episode
    again.close()
