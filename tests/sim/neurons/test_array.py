"""The simulated array: deterministic, alive and answering."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.neurons.array import SAMPLE_RATE_HZ, UV_PER_UNIT, SimulatedArray
from sim.neurons.conditions import TissueConditions
from sim.neurons.pulses import charge_nc
from sim.neurons.twins import Twin

PULSE = [(200.0, -1.0), (200.0, 1.0)]


def contact(array: SimulatedArray) -> int:
    """Return the electrode that records most neurons."""
    return int(np.argmax(array.culture.recorded().sum(axis=0)))


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


def test_stimulation_evokes_spikes_in_proportion_to_charge_and_living_tissue() -> None:
    def evoked(current_ua: float, health: float) -> float:
        array = SimulatedArray(32, 9, health=health)
        electrode = contact(array)
        found = 0
        for k in range(40):
            at = 12_500 * k + 10_000
            array.generate(at - 1_000 - array.next_frame)
            before = array.spikes
            array.generate(1_000)
            spontaneous = array.spikes - before
            array.stimulate(electrode, at, [(200.0, -current_ua), (200.0, current_ua)])
            before = array.spikes
            array.generate(1_000)
            found += array.spikes - before - spontaneous
        return found / 40

    strong = evoked(1.5, 1.0)
    assert strong > 2.0
    assert evoked(0.1, 1.0) < 0.3 * strong
    assert evoked(1.5, 0.5) < 0.8 * strong
    assert evoked(1.5, 0.0) == 0.0


def test_tired_tissue_answers_less_and_recovers() -> None:
    """A train of 100 Hz sets off a network burst and depletes synapses; a pulse shortly after it is answered less."""
    tired, rested = 0, 0
    array = SimulatedArray(32, 9)
    pulse = [(200.0, -1.5), (200.0, 1.5)]

    def answer() -> int:
        array.stimulate(contact(array), array.next_frame + 100, pulse)
        before = array.spikes
        array.generate(100 + 500)
        return array.spikes - before

    for _ in range(10):
        array.generate(150_000)
        rested += answer()
        for _ in range(60):
            array.stimulate(contact(array), array.next_frame + 100, pulse)
            array.generate(250)
        array.generate(1_250)
        tired += answer()
    assert tired < 0.7 * rested


def test_the_artefact_saturates_near_and_fades_with_distance_and_time() -> None:
    array = SimulatedArray(32, 4)
    array.generate(250)
    array.stimulate(0, 300, PULSE)
    samples = np.abs(array.generate(500).astype(float)) * UV_PER_UNIT
    during = samples[50:60]
    assert during[:, 0].max() > 6_000.0
    assert 300.0 < during[:, 1].max() < 6_000.0
    assert during[:, 31].max() < during[:, 1].max() / 3
    assert samples[50 + 10 + 120 :, 1:10].max() < 400.0


def test_frames_of_the_past_cannot_be_stimulated() -> None:
    array = SimulatedArray(4, 1)
    array.generate(1_000)
    with pytest.raises(ValueError, match="1000 is next"):
        array.stimulate(0, 999, PULSE)


def test_one_lead_is_open_and_the_others_are_sound() -> None:
    kohm = np.array(SimulatedArray(32, 12).impedances_kohm())
    assert (kohm > 2_000.0).sum() == 1
    assert ((kohm > 50.0) & (kohm < 800.0)).sum() == 31


def spike_samples(array: SimulatedArray, seconds: float) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the number of samples below −60 µV after a moving mean, by electrode: spikes, not slow potentials."""
    samples = array.generate(round(seconds * SAMPLE_RATE_HZ)).astype(float) * UV_PER_UNIT
    window = 25
    smooth = np.apply_along_axis(lambda x: np.convolve(x, np.ones(window) / window, mode="same"), 0, samples)
    return np.asarray(((samples - smooth) < -60.0).sum(axis=0), np.int64)


def test_a_neuron_is_seen_by_neighbouring_electrodes() -> None:
    """Some neurons lie between electrodes: at least one in ten is seen by more than one, faintly."""
    footprint = SimulatedArray(32, 3).culture.footprint
    assert (np.diff(footprint.first) > 1).mean() > 0.1


def test_tissue_without_oxygen_falls_silent_and_fires_again() -> None:
    array = SimulatedArray(16, 6)
    array.generate(SAMPLE_RATE_HZ)

    def fired(seconds: int) -> int:
        before = array.spikes
        array.generate(seconds * SAMPLE_RATE_HZ)
        return array.spikes - before

    lively = fired(10)
    array.conditions = TissueConditions(oxygen_mm=0.0)
    array.generate(SAMPLE_RATE_HZ)  # what is under way ends
    assert fired(5) == 0
    array.conditions = TissueConditions()
    array.generate(5 * SAMPLE_RATE_HZ)
    assert fired(10) > 0.3 * lively


def test_the_twin_without_spikes_shows_noise_and_artefacts_only() -> None:
    zero, alive = SimulatedArray(16, 7, twin=Twin.ZERO), SimulatedArray(16, 7)
    sound = zero.impedances_kohm().index(min(zero.impedances_kohm()))
    assert spike_samples(zero, 8.0)[sound] == 0
    assert spike_samples(alive, 8.0).sum() > 100
    zero.stimulate(0, zero.next_frame + 100, PULSE)
    assert np.abs(zero.generate(500).astype(float)).max() * UV_PER_UNIT > 6_000.0


def test_the_shuffled_twin_shows_the_same_spikes_on_other_electrodes_that_change() -> None:
    plain, shuffled = SimulatedArray(16, 7), SimulatedArray(16, 7, twin=Twin.SHUFFLED)
    sound = np.array(plain.impedances_kohm()) < 2_000.0
    ones, others = [], []
    for _ in range(2):
        ones.append(spike_samples(plain, 10.0)[sound])
        others.append(spike_samples(shuffled, 10.0)[sound])
    assert plain.spikes == shuffled.spikes
    assert not np.array_equal(ones[0], others[0])
    assert np.corrcoef(ones[0], ones[1])[0, 1] > 0.9
    assert np.corrcoef(others[0], others[1])[0, 1] < 0.5


def test_random_stimulation_reaches_other_electrodes() -> None:
    plain, random = SimulatedArray(16, 7), SimulatedArray(16, 7, twin=Twin.RANDOM_STIMULATION)
    for array in (plain, random):
        for k in range(20):
            array.stimulate(2, 300 + 250 * k, PULSE)
    assert plain._twins.stimulated(2) == 2
    assert len({random._twins.stimulated(2) for _ in range(20)}) > 5


def test_a_pulse_in_steps_does_to_the_neurons_what_its_whole_charge_does() -> None:
    whole = charge_nc([(200.0, -1.0), (200.0, 1.0)])
    assert charge_nc([(100.0, -1.0), (60.0, 0.0), (100.0, -1.0), (50.0, 2.0), (100.0, 1.0)]) == whole == 0.2
    assert charge_nc([(100.0, -1.0), (200.0, 1.0), (100.0, -1.0)]) == whole
