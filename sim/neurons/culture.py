"""The culture on the array: where its neurons are, how they are connected, and what each electrode sees of them.

Four fifths of the neurons are excitatory. Connections fall off exponentially with distance and conduct at 0.3 m/s. Weights
and intrinsic drives are lognormal, so a few neurons fire much more than most (Sharf 2022 reports skewed rates and
connectivity). Each electrode sees the neurons near it, and each neuron is seen by the electrodes near it, with an amplitude
that falls with distance. Spikes are 30 to 200 µV. It is a plausible specimen, not a fit to one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

STEP_S = 0.0004
"""Time step of the network (s): ten frames at 25 kHz."""
EXCITATORY_SHARE = 0.8
NEURONS_PER_ELECTRODE = 2
MIN_NEURONS = 160
"""Fewer neurons show no network bursts with a steady rate."""
PITCH_UM = 200.0
INPUTS = 30.0
"""Mean number of synapses onto a neuron."""
REACH_UM = 300.0
"""Distance at which the chance of a connection has fallen to 1/e."""
MAX_CHANCE = 0.9
CONDUCTION_UM_PER_MS = 300.0
SYNAPSE_MS = 1.0
EXCITATORY_WEIGHT = 0.18
"""Median peak of the response to one excitatory spike of a rested synapse, in units of the firing threshold."""
INHIBITORY_WEIGHT = 0.5
WEIGHT_SPREAD, INPUT_SPREAD, DRIVE_SPREAD = 0.8, 0.5, 0.9
"""Standard deviations of the logarithm: of a synapse's weight, of a neuron's share of input, of its intrinsic drive."""
DRIVE_HZ = 0.9
"""Median rate of the intrinsic depolarisations of a neuron."""
NEAR_UM = 25.0
"""Distance within which each electrode with contact has one neuron."""
AMPLITUDE_UV, AMPLITUDE_SPREAD = 110.0, 0.35
HALF_UM = 45.0
"""Distance at which the amplitude of a spike has fallen to half."""
UNSEEN_UV = 4.0
"""Amplitude below which a neuron is left out of an electrode's signal."""
CLEAR_UV = 45.0
"""Amplitude from which a detector finds nearly every spike: five times the noise."""
MAX_DELAY_STEPS = 63
DRIFT_SHARE = 0.15
"""Amplitude of the slow drift of a neuron's drive."""
DRIFT_S = (900.0, 7200.0)
"""Range of the drift's period."""


@dataclass(frozen=True, slots=True)
class Synapses:
    """Connections sorted by source. `first[i]` to `first[i + 1]` are those that neuron `i` makes.

    `incoming` lists the same connections by target: those onto neuron `j` are `incoming[first_in[j]:first_in[j + 1]]`.
    """

    first: Ints
    source: Ints
    target: Ints
    delay: Ints
    weight: Floats
    first_in: Ints
    incoming: Ints


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the electrodes see: neuron `i` has the amplitudes `uv` (µV) at `electrode`, from `first[i]` to `first[i + 1]`."""

    first: Ints
    electrode: Ints
    uv: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class NeuralCulture:
    """Neurons, synapses and electrodes of one specimen.

    Positions have the shape (n, 2), in µm. `dies_at` is the share of living neurons (0 to 1) at and below which a neuron is
    silent. `electrode_um` and `impedance_kohm` have one entry for each electrode.
    """

    position_um: Floats
    excitatory: NDArray[np.bool_]
    drive_hz: Floats
    dies_at: Floats
    drift_period_s: Floats
    drift_phase: Floats
    synapses: Synapses
    footprint: Footprint
    electrode_um: Floats
    impedance_kohm: Floats

    @classmethod
    def grown(cls, electrodes: int, seed: int, electrode_um: Floats | None = None) -> NeuralCulture:
        """Return the specimen of this seed. One electrode of eight sees nothing; one (if there are eight) is broken.

        Args:
            electrodes: Number of electrodes.
            seed: Decides all randomness.
            electrode_um: Positions of the electrodes, shape (electrodes, 2); left out, a square grid of :data:`PITCH_UM`.
        """
        rng = np.random.default_rng([seed, 0x6E65])
        columns = math.ceil(math.sqrt(electrodes))
        grid = np.arange(electrodes)
        if electrode_um is None:
            electrode_um = np.stack([grid % columns, grid // columns], axis=1).astype(np.float64) * PITCH_UM
        deaf = rng.permutation(electrodes)[: electrodes // 8]
        impedance = rng.lognormal(math.log(220.0), 0.2, electrodes)
        if electrodes >= 8:
            impedance[deaf[0]] = 8000.0  # an open lead: nothing is recorded, and more noise
        position_um = _positions(rng, electrode_um, np.setdiff1d(grid, deaf))
        neurons = len(position_um)
        excitatory = rng.random(neurons) < EXCITATORY_SHARE
        return cls(
            position_um=position_um,
            excitatory=excitatory,
            drive_hz=rng.lognormal(math.log(DRIVE_HZ), DRIVE_SPREAD, neurons).clip(0.05, 12.0),
            dies_at=rng.uniform(0.02, 0.45, neurons),
            drift_period_s=rng.uniform(*DRIFT_S, neurons),
            drift_phase=rng.uniform(0.0, 2.0 * math.pi, neurons),
            synapses=_synapses(rng, position_um, excitatory),
            footprint=_footprint(rng, position_um, electrode_um, deaf),
            electrode_um=electrode_um,
            impedance_kohm=impedance,
        )

    @property
    def neurons(self) -> int:
        """Return the number of neurons."""
        return len(self.position_um)

    @property
    def electrodes(self) -> int:
        """Return the number of electrodes."""
        return len(self.electrode_um)

    def vigour(self, alive: float) -> Floats:
        """Return the activity of each neuron (0 to 1) when a share of the tissue is alive: 0 below its own threshold."""
        share = (min(max(alive, 0.0), 1.0) - self.dies_at) / (1.0 - self.dies_at)
        return np.maximum(share, 0.0)

    def drift(self, t_s: float) -> Floats:
        """Return the slow drift of each neuron's drive around 1."""
        return 1.0 + DRIFT_SHARE * np.sin(2.0 * math.pi * t_s / self.drift_period_s + self.drift_phase)

    def recorded(self) -> NDArray[np.bool_]:
        """Return which neuron each electrode records clearly, shape (neurons, electrodes)."""
        found = np.zeros((self.neurons, self.electrodes), np.bool_)
        neuron = np.repeat(np.arange(self.neurons), np.diff(self.footprint.first))
        clear = self.footprint.uv >= CLEAR_UV
        found[neuron[clear], self.footprint.electrode[clear]] = True
        return found


def _positions(rng: np.random.Generator, electrode_um: Floats, contacts: NDArray[np.int64]) -> Floats:
    """Return one neuron near each electrode with contact, and the others anywhere between and around the electrodes."""
    near = electrode_um[contacts] + rng.normal(0.0, NEAR_UM, (len(contacts), 2))
    others = max(MIN_NEURONS, NEURONS_PER_ELECTRODE * len(electrode_um)) - len(contacts)
    low, high = electrode_um.min(axis=0) - PITCH_UM / 2, electrode_um.max(axis=0) + PITCH_UM / 2
    return np.concatenate([near, rng.uniform(low, high, (others, 2))])


def _distances(ones: Floats, others: Floats) -> Floats:
    apart = ones[:, None, :] - others[None, :, :]
    return np.hypot(apart[..., 0], apart[..., 1])


def _synapses(rng: np.random.Generator, position_um: Floats, excitatory: NDArray[np.bool_]) -> Synapses:
    neurons = len(position_um)
    distance = _distances(position_um, position_um)
    chance = np.exp(-distance / REACH_UM)
    np.fill_diagonal(chance, 0.0)
    chance = np.minimum(chance * (INPUTS * neurons / chance.sum()), MAX_CHANCE)
    source, target = np.nonzero(rng.random((neurons, neurons)) < chance)
    delay_s = (SYNAPSE_MS + distance[source, target] / CONDUCTION_UM_PER_MS) / 1e3
    spread = rng.lognormal(-0.5 * WEIGHT_SPREAD**2, WEIGHT_SPREAD, len(source))
    share = rng.lognormal(0.0, INPUT_SPREAD, neurons)
    weight = np.where(excitatory[source], EXCITATORY_WEIGHT * spread * share[target], INHIBITORY_WEIGHT)
    incoming = np.argsort(target, kind="stable")
    numbers = np.arange(neurons + 1)
    return Synapses(
        first=np.searchsorted(source, numbers).astype(np.int32),
        source=source.astype(np.int32),
        target=target.astype(np.int32),
        delay=np.clip(np.round(delay_s / STEP_S), 1, MAX_DELAY_STEPS).astype(np.int32),
        weight=weight,
        first_in=np.searchsorted(target[incoming], numbers).astype(np.int32),
        incoming=incoming.astype(np.int32),
    )


def _footprint(
    rng: np.random.Generator, position_um: Floats, electrode_um: Floats, deaf: NDArray[np.int64]
) -> Footprint:
    peak = rng.lognormal(math.log(AMPLITUDE_UV), AMPLITUDE_SPREAD, len(position_um)).clip(50.0, 220.0)
    uv = peak[:, None] / (1.0 + (_distances(position_um, electrode_um) / HALF_UM) ** 2)
    uv[:, deaf] = 0.0
    neuron, electrode = np.nonzero(uv >= UNSEEN_UV)
    first = np.searchsorted(neuron, np.arange(len(position_um) + 1)).astype(np.int32)
    return Footprint(first, electrode.astype(np.int32), uv[neuron, electrode].astype(np.float32))
