"""The spiking network: statistics of published cultures, learning by spike timing, and its rate-level model."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sim.neurons.array import STEP_FRAMES, TICK_FRAMES, SimulatedArray
from sim.neurons.conditions import TissueConditions
from sim.neurons.culture import NeuralCulture
from sim.neurons.rates import RateModel
from sim.neurons.spiking import SpikingNetwork
from sim.neurons.twins import Twin
from verification.bench.culture import Activity, fired


@pytest.mark.parametrize(("electrodes", "seed"), [(32, 1), (32, 2), (32, 3), (256, 4)])
def test_spontaneous_activity_lies_in_the_range_of_published_cultures(electrodes: int, seed: int) -> None:
    """Ranges and their sources: docs/nerves.md, “The simulated culture”."""
    culture = NeuralCulture.grown(electrodes, seed)
    network = SpikingNetwork(culture, seed)
    fired(network, 10.0)
    seconds = 120.0 if electrodes < 100 else 60.0
    found = Activity.of(*fired(network, seconds), culture.neurons, seconds)
    assert 0.5 < found.rate_hz < 6.0
    assert found.rate_p95_hz > 1.6 * found.rate_median_hz, "rates are skewed"
    assert 2.0 < found.bursts_a_minute < 20.0
    assert 0.1 < found.burst_s < 0.6
    assert 0.3 < found.in_bursts < 0.95
    assert found.cv > 1.2
    assert culture.excitatory.mean() == pytest.approx(0.8, abs=0.1)


def test_connections_fall_off_with_distance() -> None:
    culture = NeuralCulture.grown(256, 1)
    s = culture.synapses
    apart = np.hypot(*(culture.position_um[s.source] - culture.position_um[s.target]).T)
    anywhere = np.hypot(
        *(culture.position_um[s.source] - culture.position_um[np.random.default_rng(1).permutation(s.target)]).T
    )
    assert np.median(apart) < 0.5 * np.median(anywhere)
    assert np.corrcoef(apart, s.delay)[0, 1] > 0.95


def test_synapses_keep_their_strength_without_stimulation() -> None:
    """Ten minutes of spontaneous bursts change single weights, not the mean, and not which is strong."""
    culture = NeuralCulture.grown(32, 2)
    network = SpikingNetwork(culture, 2)
    first = Activity.of(*fired(network, 120.0), culture.neurons, 120.0)
    fired(network, 360.0)
    last = Activity.of(*fired(network, 120.0), culture.neurons, 120.0)
    learning = culture.excitatory[culture.synapses.source] & culture.excitatory[culture.synapses.target]
    grown, now = culture.synapses.weight[learning], network.weights[learning]
    assert now.mean() == pytest.approx(grown.mean(), rel=0.1)
    assert np.corrcoef(grown, now)[0, 1] > 0.9
    assert 0.01 < np.abs(now / grown - 1.0).mean() < 0.2
    assert np.array_equal(network.weights[~learning], culture.synapses.weight[~learning])
    assert last.rate_hz == pytest.approx(first.rate_hz, rel=0.4)


def near(culture: NeuralCulture, electrode: int) -> NDArray[np.bool_]:
    """Return which neurons a pulse at an electrode reaches; none is near two electrodes."""
    found: NDArray[np.bool_] = np.hypot(*(culture.position_um - culture.electrode_um[electrode]).T) < 95.0
    return found


def paired(twin: Twin, seed: int, pairs: int) -> tuple[float, float]:
    """Stimulate two neighbours 10 ms apart; return the factor on the weights from the first to the second, and back."""
    array = SimulatedArray(32, seed, twin=twin)
    culture, network = array.culture, array._network
    s = culture.synapses
    learning = culture.excitatory[s.source] & culture.excitatory[s.target]
    one, two, there, back = next(
        (one, two, there, back)
        for one, two in permutations(range(array.electrodes), 2)
        if (there := learning & near(culture, one)[s.source] & near(culture, two)[s.target]).sum() >= 4
        and (back := learning & near(culture, two)[s.source] & near(culture, one)[s.target]).sum() >= 4
    )
    before = network.weights
    tick = 0

    def advance(seconds: float) -> None:
        nonlocal tick
        for _ in range(round(seconds * 25_000 / TICK_FRAMES)):
            array._excite(tick * TICK_FRAMES)
            network.advance(TICK_FRAMES // STEP_FRAMES, array.conditions)
            tick += 1

    for _ in range(pairs):
        array._pulses.append((tick * TICK_FRAMES, one, 0.6))
        advance(0.01)
        array._pulses.append((tick * TICK_FRAMES, two, 0.6))
        advance(0.49)
    changed = network.weights / before
    return float(changed[there].mean()), float(changed[back].mean())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sixty_pairs_change_synapses_as_published(seed: int) -> None:
    """Bi and Poo (1998): sixty pairs a second or so apart strengthen by tens of percent, and weaken the way back."""
    there, back = paired(Twin.PLASTIC, seed, 60)
    assert 1.2 < there < 1.8
    assert 0.4 < back < 0.85


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_paired_pulses_strengthen_the_way_from_the_first_to_the_second(seed: int) -> None:
    there, back = paired(Twin.PLASTIC, seed, 300)
    assert there > 1.5
    assert back < 0.6


def test_the_frozen_twin_learns_nothing() -> None:
    assert paired(Twin.FROZEN, 1, 50) == (1.0, 1.0)


CASES = [
    TissueConditions(),
    TissueConditions(alive=0.95),
    TissueConditions(alive=0.85),
    TissueConditions(alive=0.65),
    TissueConditions(alive=0.3),
    TissueConditions(ph=7.2),
    TissueConditions(ph=7.55),
    TissueConditions(oxygen_mm=0.02),
    TissueConditions(temperature_c=34.0),
    TissueConditions(ammonia_mm=1.0),
    TissueConditions(ammonia_mm=2.5),
]


@pytest.mark.parametrize("conditions", CASES, ids=str)
def test_the_rate_model_fires_as_the_network(conditions: TissueConditions) -> None:
    """Mean of all electrodes over two minutes and three specimens: within a quarter; the same electrodes fire most."""
    expected, measured = np.zeros((2, 3)), np.zeros((2, 3))
    likeness = []
    for number, seed in enumerate((21, 22, 23)):
        culture = NeuralCulture.grown(32, seed)
        network = SpikingNetwork(culture, seed + 100, plastic=False)
        fired(network, 8.0, conditions)
        who, _ = fired(network, 120.0, conditions)
        rates = (np.bincount(who, minlength=culture.neurons) / 120.0) @ culture.recorded()
        model = RateModel(32, seed).rates_hz(conditions, 60.0)
        expected[0, number], measured[0, number] = model.mean(), rates.mean()
        likeness.append(np.corrcoef(model, rates)[0, 1])
    assert measured[0].mean() == pytest.approx(expected[0].mean(), rel=0.25, abs=0.1)
    assert min(likeness) > 0.8


def test_dead_tissue_is_silent_and_more_living_tissue_fires_more() -> None:
    model = RateModel(32, 3)
    rates = [model.rates_hz(TissueConditions(alive=alive), 0.0).sum() for alive in np.linspace(0, 1, 11)]
    assert rates[0] == 0.0
    assert 20.0 < rates[-1] < 400.0
    assert all(later > 0.8 * earlier for earlier, later in pairwise(rates))
    network = SpikingNetwork(NeuralCulture.grown(32, 3), 3)
    assert len(fired(network, 20.0, TissueConditions(alive=0.0))[0]) == 0
    assert len(fired(network, 20.0, TissueConditions(oxygen_mm=0.0))[0]) == 0


def test_ammonia_weakens_inhibition_and_heat_blocks() -> None:
    assert TissueConditions(ammonia_mm=2.0).inhibition == pytest.approx(0.5)
    assert [TissueConditions(ammonia_mm=mm).glutamate for mm in (0.0, 1.0, 2.5, 9.0)] == [1.0, 1.0, 2.0, 3.0]
    assert TissueConditions(temperature_c=43.0).excitability == 0.0
    assert TissueConditions(temperature_c=34.0).excitability < TissueConditions().excitability == 1.0


def test_nothing_is_compiled_after_the_start_of_an_array() -> None:
    """A step that compiles would stop the frames of an array in real time; homeostasis begins after six minutes."""
    program = (
        "from sim.neurons import array, spiking\n"
        "array.compiled()\n"
        "kernels = (spiking._advance, spiking._scale, array._add_spikes)  # those that Python calls\n"
        "before = [len(kernel.signatures) for kernel in kernels]\n"
        "one = array.SimulatedArray(16, 3)\n"
        "one.stimulate(1, 100, [(200.0, -1.0), (200.0, 1.0)])\n"
        "one.generate(25_000)\n"
        "spiking._scale(one._network._neurons, one._network._wiring, one._network._target_hz, 0.1)\n"
        "assert min(before) >= 1, before\n"
        "assert before == [len(kernel.signatures) for kernel in kernels]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, cwd=Path(__file__).parents[3])
