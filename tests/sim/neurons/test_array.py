"""The simulated array: deterministic, alive, answering, and in step with its rate-level model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sim.neurons.array import SAMPLE_RATE_HZ, UV_PER_UNIT, SimulatedArray
from sim.neurons.rates import RateModel

PULSE = [(200.0, -1.0), (200.0, 1.0)]


def fired_hz(seed: int, health: float, seconds: float) -> NDArray[np.float64]:
    """Spikes a second of each neuron of the sample-level array, counted where they are fired (no noise is
    drawn).
    """
    array = SimulatedArray(32, seed, health=health)
    counts = np.zeros(32)
    add = array._add

    def count(electrode: int, frame: int, wave: NDArray[np.float32]) -> None:
        counts[electrode] += 1
        add(electrode, frame, wave)

    array._add = count  # type: ignore[method-assign]
    for start in range(0, round(seconds * SAMPLE_RATE_HZ), 250):
        array._fire(start)
    return counts / seconds


@pytest.mark.parametrize("health", [1.0, 0.8, 0.6, 0.4, 0.2])
def test_the_rate_model_and_the_array_fire_at_the_same_rate(health: float) -> None:
    """Means over ten minutes agree within 10 % for the array as a whole, and for each neuron within what
    chance allows: 12 % of its own rate and four standard deviations of its count, bursts counted as
    clusters of spikes.
    """
    seconds = 600.0
    measured = fired_hz(21, health, seconds)
    model = RateModel(32, 21)
    expected = np.mean([model.rates_hz(health, t) for t in np.arange(0.0, seconds, 10.0)], axis=0)
    assert measured.sum() == pytest.approx(expected.sum(), rel=0.10)
    cluster = 1.0 + model.network.burst_hz(health) * 0.3
    allowed = 0.12 * expected + 4.0 * np.sqrt(expected * cluster / seconds) + 4.0 / seconds
    assert np.all(np.abs(measured - expected) <= allowed)


def test_dead_tissue_is_silent_and_more_health_fires_more() -> None:
    assert fired_hz(3, 0.0, 60.0).sum() == 0
    assert RateModel(32, 3).rates_hz(0.0, 0.0).sum() == 0
    model = [RateModel(32, 3).rates_hz(health, 0.0).sum() for health in np.linspace(0, 1, 11)]
    assert model == sorted(model)
    assert 20.0 < model[-1] < 400.0


@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.integers(1, 900), min_size=1, max_size=8), pulse_at=st.integers(2_000, 3_000))
def test_same_seed_and_pulses_give_the_same_samples_whatever_the_block_size(sizes: list[int], pulse_at: int) -> None:
    whole = SimulatedArray(8, 5)
    whole.stimulate(2, pulse_at, PULSE)
    expected = whole.generate(8_000)
    array = SimulatedArray(8, 5)
    array.stimulate(2, pulse_at, PULSE)
    parts = []
    turn = 0
    while array.next_frame < 8_000:
        parts.append(array.generate(min(sizes[turn % len(sizes)], 8_000 - array.next_frame)))
        turn += 1
    np.testing.assert_array_equal(np.concatenate(parts), expected)


def test_another_seed_is_another_specimen() -> None:
    assert not np.array_equal(SimulatedArray(8, 1).generate(500), SimulatedArray(8, 2).generate(500))


def test_stimulation_evokes_spikes_in_proportion_to_charge_and_health() -> None:
    def evoked(current_ua: float, health: float) -> float:
        array = SimulatedArray(32, 9, health=health)
        quiet = SimulatedArray(32, 9, health=health)
        electrode = int(np.argmax(array.network.vigour(0.6) * (array.network.base_hz > 0)))
        for k in range(40):
            at = 10_000 * k + 100
            array.generate(at - array.next_frame)
            array.stimulate(electrode, at, [(200.0, -current_ua), (200.0, current_ua)])
        array.generate(410_000 - array.next_frame)
        quiet.generate(410_000)
        return (array.spikes - quiet.spikes) / 40

    strong = evoked(1.5, 1.0)
    assert strong > 2.0
    assert evoked(0.1, 1.0) < 0.3 * strong
    assert evoked(1.5, 0.5) < 0.7 * strong
    assert evoked(1.5, 0.0) == 0.0


def test_a_pulse_given_at_once_again_is_answered_less() -> None:
    """The tissue needs a few hundred milliseconds to recover."""

    def evoked(gap_frames: int) -> int:
        array = SimulatedArray(32, 9)
        quiet = SimulatedArray(32, 9)
        for k in range(30):
            at = 200 + k * gap_frames
            array.generate(at - array.next_frame)
            array.stimulate(9, at, [(200.0, -1.5), (200.0, 1.5)])
        array.generate(350_000 - array.next_frame)
        quiet.generate(350_000)
        return array.spikes - quiet.spikes

    assert evoked(250) < 0.5 * evoked(10_000)


def test_the_artefact_saturates_near_and_fades_with_distance_and_time() -> None:
    array = SimulatedArray(32, 4)
    array.generate(250)
    array.stimulate(0, 300, PULSE)
    samples = np.abs(array.generate(500).astype(float)) * UV_PER_UNIT
    during = samples[50:60]
    assert during[:, 0].max() > 6_000.0
    assert 300.0 < during[:, 1].max() < 6_000.0
    assert during[:, 31].max() < during[:, 1].max() / 3
    assert samples[50 + 10 + 120 :, 1:10].max() < 250.0


def test_frames_of_the_past_cannot_be_stimulated() -> None:
    array = SimulatedArray(4, 1)
    array.generate(1_000)
    with pytest.raises(ValueError, match="1000 is next"):
        array.stimulate(0, 999, PULSE)


def test_one_lead_is_open_and_the_others_are_sound() -> None:
    kohm = np.array(SimulatedArray(32, 12).impedances_kohm())
    assert (kohm > 2_000.0).sum() == 1
    assert ((kohm > 50.0) & (kohm < 800.0)).sum() == 31
