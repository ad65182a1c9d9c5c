"""The spiking network of a culture: leaky integrate-and-fire neurons with plastic synapses, one numba kernel.

The membrane potential is measured in units of the firing threshold above rest. Excitation is a fast (AMPA, 3 ms) and a slow
(NMDA, 80 ms) current, inhibition a conductance (GABA, 8 ms). Spikes deplete a synapse (short-term depression; Tsodyks and
Markram 1997), raise the threshold for a fraction of a second (adaptation) and for tens of seconds (fatigue). Depression ends
a network burst, and its recovery determines when the next can begin. Weights between excitatory neurons follow spike timing
(STDP, multiplicative with soft bounds; van Rossum 2000), and each neuron scales its inputs slowly towards its own former rate
(homeostasis; Turrigiano 2008). Constants are those of cortical neurons in round figures; the resulting statistics, with
published ones, are in docs/nerves.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from sim.neurons.conditions import TissueConditions
from sim.neurons.culture import STEP_S, Floats, Ints, NeuralCulture

MEMBRANE_S, AMPA_S, NMDA_S, GABA_S = 0.020, 0.003, 0.080, 0.008
NMDA_SHARE = 0.05
"""Peak of the slow current in relation to that of the fast one."""
GABA_REST = 0.3
"""Reversal potential of inhibition below rest."""
GABA_GAIN = 0.4
REFRACTORY_S = 0.0032
RECOVERY_S = 4.0
"""Time constant with which a depleted synapse recovers."""
STRESSED_RELEASE = 0.5
"""Share that the synapses of a neuron without vigour release [P]."""
RESOURCE_AT_START = 0.6
"""About the mean of a culture that bursts; rested synapses would begin with a burst of the whole culture."""
RELEASE = np.array([0.2, 0.12])
"""Share of its resource that a spike releases: inhibitory, excitatory."""
ADAPTATION, ADAPTATION_S = 0.15, 0.12
FATIGUE, FATIGUE_S = 0.004, 20.0
KICK = (0.4, 1.65)
"""Range of an intrinsic depolarisation, in thresholds."""
TRACE_S = 0.020
"""Window of spike timing."""
POTENTIATION = 0.01
"""Sixty pairs of spikes, 8 ms apart and once a second, strengthen a synapse by about half (Bi and Poo 1998)."""
DEPRESSION = 1.5 * POTENTIATION
BOUND = 2.5
"""Maximum weight of a synapse in relation to the one it was grown with. Chance coincidences keep the grown weight: DEPRESSION
is `BOUND - 1` times POTENTIATION."""
BEFORE_S, AFTER_S = 0.034, 0.075
"""Time constants with which a spike regains its effect on learning after another of the same neuron, as the presynaptic and
as the postsynaptic one (Froemke and Dan 2002). Without it, a network burst of a quarter of a second undoes what hundreds of
pairs have taught."""
SCALING_S = 600.0
"""Time constant of the homeostasis."""
RATE_S = 120.0
"""Time constant with which a neuron measures its own rate."""
SLOWLY_STEPS = 2500
"""Steps between two updates of what changes slowly: homeostasis and drift."""
RING = 64
MIN_V = -0.6


class Constants(NamedTuple):
    """Factors of one step, in the order in which the kernel uses them."""

    membrane: float
    ampa: float
    nmda: float
    gaba: float
    adaptation: float
    fatigue: float
    recovery: float
    trace: float
    rate: float
    ampa_gain: float
    nmda_gain: float
    gaba_gain: float


class Wiring(NamedTuple):
    """The synapses as the kernel uses them; the weights are a copy that changes."""

    first: Ints
    source: Ints
    target: Ints
    delay: Ints
    weight: Floats
    grown: Floats
    first_in: Ints
    incoming: Ints
    excitatory: NDArray[np.bool_]


class Neurons(NamedTuple):
    """State of the neurons; one row of the last three for each step ahead."""

    v: Floats
    resting: Ints
    ampa: Floats
    nmda: Floats
    gaba: Floats
    adaptation: Floats
    fatigue: Floats
    resource: Floats
    before: Floats
    after: Floats
    last: NDArray[np.int64]
    rate: Floats
    excitation: Floats
    inhibition: Floats
    evoked: Floats


def _decay(tau_s: float) -> float:
    return math.exp(-STEP_S / tau_s)


def _gain(tau_s: float) -> float:
    """Return the current by which one spike moves a membrane at rest by one threshold at the peak."""
    i, v, peak = 1.0, 0.0, 0.0
    for _ in range(5000):
        v = v * _decay(MEMBRANE_S) + i
        i *= _decay(tau_s)
        peak = max(peak, v)
    return 1.0 / peak


CONSTANTS = Constants(
    _decay(MEMBRANE_S),
    _decay(AMPA_S),
    _decay(NMDA_S),
    _decay(GABA_S),
    _decay(ADAPTATION_S),
    _decay(FATIGUE_S),
    1.0 - _decay(RECOVERY_S),
    _decay(TRACE_S),
    1.0 - _decay(RATE_S),
    _gain(AMPA_S),
    NMDA_SHARE * _gain(AMPA_S),
    GABA_GAIN * _gain(GABA_S),
)
REFRACTORY_STEPS = round(REFRACTORY_S / STEP_S)


@numba.njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def _decayed(row, neurons, k):  # type: ignore[no-untyped-def]
    """Let one step pass for what no neuron reads of another: decay, and what arrives. The loop runs on vectors."""
    excitation, inhibition = neurons.excitation[row], neurons.inhibition[row]
    resource, adaptation, fatigue, rate = neurons.resource, neurons.adaptation, neurons.fatigue, neurons.rate
    ampa, nmda, gaba = neurons.ampa, neurons.nmda, neurons.gaba
    for i in range(len(resource)):
        resource[i] += (1.0 - resource[i]) * k.recovery
        adaptation[i] *= k.adaptation
        fatigue[i] *= k.fatigue
        rate[i] -= rate[i] * k.rate
        ampa[i] = ampa[i] * k.ampa + k.ampa_gain * excitation[i]
        nmda[i] = nmda[i] * k.nmda + k.nmda_gain * excitation[i]
        gaba[i] = gaba[i] * k.gaba + k.gaba_gain * inhibition[i]
        excitation[i] = 0.0
        inhibition[i] = 0.0


@numba.njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def _fire(i, step, neurons, wiring, k, vigour, inhibition, plastic):  # type: ignore[no-untyped-def]
    """Let a neuron fire: it rests, its synapses release and, between excitatory neurons, learn."""
    excites = wiring.excitatory[i]
    since_s = (step - neurons.last[i]) * STEP_S
    neurons.last[i] = step
    effect_before, effect_after = 1.0 - math.exp(-since_s / BEFORE_S), 1.0 - math.exp(-since_s / AFTER_S)
    neurons.v[i] = 0.0
    neurons.resting[i] = REFRACTORY_STEPS
    neurons.adaptation[i] += ADAPTATION
    neurons.fatigue[i] += FATIGUE
    released = RELEASE[1 if excites else 0] * neurons.resource[i]
    neurons.resource[i] -= released
    share = released / RELEASE[1 if excites else 0] * (STRESSED_RELEASE + (1.0 - STRESSED_RELEASE) * vigour[i])
    for s in range(wiring.first[i], wiring.first[i + 1]):
        j = wiring.target[s]
        row = (step + wiring.delay[s]) % RING
        if not excites:
            neurons.inhibition[row, j] += share * wiring.weight[s] * inhibition
            continue
        neurons.excitation[row, j] += share * wiring.weight[s]
        if plastic and wiring.excitatory[j]:
            wiring.weight[s] -= DEPRESSION * effect_before * neurons.after[j] * wiring.weight[s]
    if plastic and excites:
        for n in range(wiring.first_in[i], wiring.first_in[i + 1]):
            s = wiring.incoming[n]
            if wiring.excitatory[wiring.source[s]]:
                room = BOUND * wiring.grown[s] - wiring.weight[s]
                wiring.weight[s] += POTENTIATION * effect_after * neurons.before[wiring.source[s]] * room
    neurons.before[i] += effect_before
    neurons.after[i] += effect_after
    neurons.rate[i] += k.rate / STEP_S


@numba.njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def _advance(first_step, steps, neurons, wiring, k, kick, vigour, inhibition, plastic, rng, who, when):  # type: ignore[no-untyped-def]
    """Advance by some steps. Return the number of spikes, which are in `who` and `when`."""
    count = 0
    for step in range(first_step, first_step + steps):
        row = step % RING
        _decayed(row, neurons, k)
        for i in range(len(neurons.v)):
            neurons.before[i] *= k.trace
            neurons.after[i] *= k.trace
            evoked = neurons.evoked[row, i]
            neurons.evoked[row, i] = 0.0
            if neurons.resting[i] > 0:
                neurons.resting[i] -= 1
                continue
            v = neurons.v[i] * k.membrane + neurons.ampa[i] + neurons.nmda[i] + evoked
            v -= neurons.gaba[i] * (v + GABA_REST)
            if rng.random() < kick[i]:
                v += KICK[0] + (KICK[1] - KICK[0]) * rng.random()
            neurons.v[i] = max(v, MIN_V)
            if v >= 1.0 + neurons.adaptation[i] + neurons.fatigue[i] and vigour[i] > 0.0:
                _fire(i, step, neurons, wiring, k, vigour, inhibition, plastic)
                who[count] = i
                when[count] = step
                count += 1
    return count


@numba.njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def _scale(neurons, wiring, target_hz, share):  # type: ignore[no-untyped-def]
    """Scale the excitatory inputs of each neuron towards its former rate."""
    for j in range(len(neurons.v)):
        if not wiring.excitatory[j]:
            continue
        error = (target_hz[j] - neurons.rate[j]) / max(target_hz[j], 0.1)
        factor = 1.0 + share * min(max(error, -1.0), 1.0)
        for n in range(wiring.first_in[j], wiring.first_in[j + 1]):
            s = wiring.incoming[n]
            if wiring.excitatory[wiring.source[s]]:
                wiring.weight[s] = min(wiring.weight[s] * factor, BOUND * wiring.grown[s])


class SpikingNetwork:
    """The neurons of a culture in time. The same seed, pulses and conditions give the same spikes.

    A frozen network (`plastic=False`) has the same synapses, which do not learn.
    """

    def __init__(self, culture: NeuralCulture, seed: int, *, plastic: bool = True, first_second: float = 0.0) -> None:
        neurons = culture.neurons
        self._first_second = first_second
        self._drift = culture.drift(first_second)
        self.culture = culture
        self.plastic = plastic
        self._rng = np.random.default_rng([seed, 2])
        self._step = 0
        synapses = culture.synapses
        self._wiring = Wiring(
            synapses.first,
            synapses.source,
            synapses.target,
            synapses.delay,
            synapses.weight.copy(),
            synapses.weight,
            synapses.first_in,
            synapses.incoming,
            culture.excitatory,
        )
        self._neurons = Neurons(
            v=np.zeros(neurons),
            resting=np.zeros(neurons, np.int32),
            ampa=np.zeros(neurons),
            nmda=np.zeros(neurons),
            gaba=np.zeros(neurons),
            adaptation=np.zeros(neurons),
            fatigue=np.zeros(neurons),
            resource=np.full(neurons, RESOURCE_AT_START),
            before=np.zeros(neurons),
            after=np.zeros(neurons),
            last=np.full(neurons, -RING * SLOWLY_STEPS, np.int64),
            rate=np.zeros(neurons),
            excitation=np.zeros((RING, neurons)),
            inhibition=np.zeros((RING, neurons)),
            evoked=np.zeros((RING, neurons)),
        )
        self._target_hz = np.zeros(neurons)
        """Rate that homeostasis keeps: that of the first minutes."""
        self._who = np.empty(0, np.int32)
        self._when = np.empty(0, np.int64)

    @property
    def step(self) -> int:
        """Return the number of the next step."""
        return self._step

    @property
    def weights(self) -> Floats:
        """Return the present weights, in the order of the culture's synapses."""
        return self._wiring.weight.copy()

    def advance(self, steps: int, conditions: TissueConditions) -> tuple[Ints, NDArray[np.int64]]:
        """Advance by some steps; return who fired, and in which step, in order of time."""
        room = steps * self.culture.neurons // REFRACTORY_STEPS + self.culture.neurons
        if len(self._who) < room:
            self._who, self._when = np.empty(room, np.int32), np.empty(room, np.int64)
        vigour = self.culture.vigour(conditions.alive)
        kick = self.culture.drive_hz * self._drift * STEP_S * vigour * conditions.excitability
        count = _advance(
            self._step,
            steps,
            self._neurons,
            self._wiring,
            CONSTANTS._replace(nmda_gain=CONSTANTS.nmda_gain * conditions.glutamate),
            kick,
            vigour,
            conditions.inhibition,
            self.plastic,
            self._rng,
            self._who,
            self._when,
        )
        before, self._step = self._step // SLOWLY_STEPS, self._step + steps
        if self._step // SLOWLY_STEPS != before:
            self._drift = self.culture.drift(self._first_second + self._step * STEP_S)
            if self.plastic:
                self._keep_rate()
        return self._who[:count].copy(), self._when[:count].copy()

    def evoke(self, strength: Floats, latency_s: Floats) -> None:
        """Depolarise each neuron by `strength` (in thresholds) after a latency of less than 25 ms."""
        ahead = np.clip(np.round(latency_s / STEP_S), 1, RING - 1).astype(np.int64)
        neurons = np.arange(self.culture.neurons)
        self._neurons.evoked[(self._step + ahead) % RING, neurons] += strength

    def _keep_rate(self) -> None:
        """Scale inputs once a second; for the first minutes the neuron only measures its rate."""
        learning_s = self._step * STEP_S
        if learning_s < 3.0 * RATE_S:
            self._target_hz[:] = self._neurons.rate / (1.0 - math.exp(-learning_s / RATE_S))
            return
        _scale(self._neurons, self._wiring, self._target_hz, SLOWLY_STEPS * STEP_S / SCALING_S)


def warm_up() -> None:
    """Compile (or load from the cache) the network, homeostasis included, which begins minutes later."""
    network = SpikingNetwork(NeuralCulture.grown(1, 0), 0)
    network.advance(1, TissueConditions())
    _scale(network._neurons, network._wiring, network._target_hz, 0.0)
