"""The array without samples: the same culture as with samples, blanking, and no learning when it is frozen."""

from __future__ import annotations

import numpy as np
import pytest

from sim.neurons.array import SAMPLE_RATE_HZ, SimulatedArray
from sim.neurons.conditions import TissueConditions
from sim.neurons.rates import RateModel
from sim.neurons.spike_array import BLANKED_S, BLANKED_THERE_S, DEAD_TIME_S, SpikeArray

PULSE = ((200.0, -3.0), (200.0, 3.0))


def test_the_same_spikes_whatever_the_windows() -> None:
    once, parts = SpikeArray(32, 5), SpikeArray(32, 5)
    electrode, at_s = once.advance(3.0, [(1.5, 9, PULSE)])
    found = [parts.advance(0.5, [(0.0, 9, PULSE)] if number == 3 else ()) for number in range(6)]
    assert np.array_equal(electrode, np.concatenate([part for part, _ in found]))
    assert np.allclose(at_s, np.concatenate([part for _, part in found]))
    assert len(at_s) > 20
    assert np.all(np.diff(at_s) >= 0.0)


def test_the_neurons_fire_as_on_the_array_with_samples() -> None:
    """Both have the same culture, seed and pulses; so the network fires the same number of spikes."""
    samples, spikes = SimulatedArray(32, 6), SpikeArray(32, 6)
    samples.generate(2 * SAMPLE_RATE_HZ)
    fired = 0
    for _ in range(8):
        who, _ = spikes._network.advance(625, TissueConditions())
        fired += len(who)
    assert fired == samples.spikes


def test_rates_are_those_of_the_rate_level_model() -> None:
    array = SpikeArray(32, 7)
    electrode, _ = array.advance(120.0)
    model = RateModel(32, 7).rates_hz(TissueConditions(), 60.0)
    rates = np.bincount(electrode, minlength=32) / 120.0
    assert rates.sum() == pytest.approx(model.sum(), rel=0.35)
    assert np.corrcoef(rates, model)[0, 1] > 0.8


def test_nothing_is_found_while_blanked_and_two_spikes_are_apart() -> None:
    array = SpikeArray(32, 8)
    for _ in range(40):
        begin = array.now_s
        electrode, at_s = array.advance(0.25, [(0.1, 14, PULSE)])
        after = at_s - begin - 0.1
        assert not np.any((after >= 0.0) & (after < BLANKED_S - 1e-9))
        assert not np.any((electrode == 14) & (after >= 0.0) & (after < BLANKED_THERE_S - 1e-9))
        for each in range(32):
            assert np.all(np.diff(at_s[electrode == each]) > DEAD_TIME_S - 4e-4)


def test_a_pulse_is_answered_near_its_electrode() -> None:
    array = SpikeArray(32, 9)
    array.advance(20.0)
    near = [
        e for e in range(32) if 0 < np.hypot(*(array.culture.electrode_um[e] - array.culture.electrode_um[14])) < 300
    ]
    answered, idle = 0, 0
    for _ in range(30):
        begin = array.now_s
        electrode, at_s = array.advance(1.0, [(0.5, 14, PULSE)])
        of_near = np.isin(electrode, near)
        answered += int((of_near & (at_s > begin + 0.5) & (at_s < begin + 0.55)).sum())
        idle += int((of_near & (at_s > begin + 0.4) & (at_s < begin + 0.45)).sum())
    assert answered > 3 * idle + 10


def test_frozen_synapses_do_not_learn() -> None:
    array = SpikeArray(32, 10)
    array.advance(5.0)
    array.freeze()
    before = array._network.weights
    array.advance(5.0, [(0.2 * n, 14, PULSE) for n in range(20)])
    assert np.array_equal(before, array._network.weights)


def test_a_pulse_outside_the_time_of_the_call_is_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        SpikeArray(32, 1).advance(0.1, [(0.2, 3, PULSE)])


def test_an_open_lead_is_not_usable() -> None:
    array = SpikeArray(32, 3)
    assert len(array.usable()) == 31
    assert all(array.culture.impedance_kohm[e] < 2000.0 for e in array.usable())
