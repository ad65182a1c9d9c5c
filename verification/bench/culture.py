"""The simulated culture: statistics of its spontaneous activity, what pairing of pulses changes, and what the array costs."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.neurons.array import SAMPLE_RATE_HZ, SimulatedArray
from sim.neurons.conditions import TissueConditions
from sim.neurons.culture import STEP_S, NeuralCulture
from sim.neurons.spiking import SpikingNetwork

SEEDS = (1, 2, 3)
SECONDS = 120.0
SETTLING_S = 10.0
ADVANCE_STEPS = 250
BIN_S = 0.025
BURST_BEGINS_HZ, BURST_ENDS_HZ = 10.0, 4.0
"""Mean rate of all neurons in a bin at which a network burst begins and ends."""
MIN_INTERVALS = 20
COST_S = 4.0


@dataclass(frozen=True, slots=True)
class Activity:
    """Statistics of spontaneous activity. `in_bursts` is a share of the spikes, `cv` the median of the neurons' intervals."""

    rate_hz: float
    rate_median_hz: float
    rate_p95_hz: float
    bursts_a_minute: float
    burst_s: float
    in_bursts: float
    cv: float

    @classmethod
    def of(cls, who: NDArray[np.int32], when_s: NDArray[np.float64], neurons: int, seconds: float) -> Activity:
        """Return the statistics of spikes: the neuron and the time (s) of each."""
        rates = np.bincount(who, minlength=neurons) / seconds
        bursts = _bursts(np.bincount((when_s / BIN_S).astype(int), minlength=round(seconds / BIN_S)) / neurons / BIN_S)
        inside = sum(int(((when_s >= begin) & (when_s < end)).sum()) for begin, end in bursts)
        intervals = [np.diff(when_s[who == neuron]) for neuron in range(neurons)]
        cvs = [each.std() / each.mean() for each in intervals if len(each) >= MIN_INTERVALS]
        return cls(
            float(rates.mean()),
            float(np.median(rates)),
            float(np.percentile(rates, 95)),
            len(bursts) / seconds * 60.0,
            float(np.mean([end - begin for begin, end in bursts])) if bursts else 0.0,
            inside / max(len(when_s), 1),
            float(np.median(cvs)) if cvs else 0.0,
        )


def _bursts(mean_hz: NDArray[np.float64]) -> list[tuple[float, float]]:
    found, begin = [], -1
    for number, rate in enumerate(mean_hz):
        if begin < 0 and rate > BURST_BEGINS_HZ:
            begin = number
        elif begin >= 0 and rate < BURST_ENDS_HZ:
            found.append((begin * BIN_S, number * BIN_S))
            begin = -1
    return found


def fired(
    network: SpikingNetwork, seconds: float, conditions: TissueConditions | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Run a network; return who fired, and when (s from the begin)."""
    begin, who, when = network.step, [], []
    for _ in range(round(seconds / (ADVANCE_STEPS * STEP_S))):
        neurons, steps = network.advance(ADVANCE_STEPS, conditions or TissueConditions())
        who.append(neurons)
        when.append((steps - begin) * STEP_S)
    return np.concatenate(who), np.concatenate(when)


def bench_culture() -> dict[str, Any]:
    """Return the statistics of three small specimens and a large one, and the cost of 32 and 1,024 channels.

    The cost is the CPU time (s) for one second of samples.
    """
    figures: dict[str, Any] = {}
    for electrodes, seed in (*((32, seed) for seed in SEEDS), (1024, SEEDS[0])):
        culture = NeuralCulture.grown(electrodes, seed)
        network = SpikingNetwork(culture, seed)
        fired(network, SETTLING_S)
        found = asdict(Activity.of(*fired(network, SECONDS), culture.neurons, SECONDS))
        figures[f"{electrodes} electrodes, seed {seed}"] = {name: round(value, 2) for name, value in found.items()}
    for electrodes in (32, 1024):
        array = SimulatedArray(electrodes, SEEDS[0])
        array.generate(SAMPLE_RATE_HZ)
        started = time.process_time()
        for _ in range(round(COST_S * 1000)):
            array.generate(SAMPLE_RATE_HZ // 1000)
        figures[f"{electrodes} channels, CPU s for 1 s"] = round((time.process_time() - started) / COST_S, 3)
    return figures
