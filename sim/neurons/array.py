"""A simulated electrode array, sample by sample: 25,000 frames a second of noise, spikes, bursts and responses.

Samples are int16, 0.195 µV a unit, made ahead in ticks of 2 ms and added up: noise, field potentials and mains hum, the
spikes of the culture as each electrode sees them, and the artefacts of stimulation. The same seed and the same pulses give
the same samples, whatever the size of the blocks that are asked for. There is no clock here: frames exist when they are
generated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numba
import numpy as np
from numpy.typing import NDArray

from sim.neurons.conditions import TissueConditions
from sim.neurons.culture import STEP_S, Floats, NeuralCulture
from sim.neurons.pulses import PulseEffects, charge_nc
from sim.neurons.spiking import SpikingNetwork, warm_up
from sim.neurons.twins import Twin, Twins

SAMPLE_RATE_HZ = 25_000
UV_PER_UNIT = 0.195
STEP_FRAMES = round(STEP_S * SAMPLE_RATE_HZ)
TICK_FRAMES = 5 * STEP_FRAMES
HORIZON_FRAMES = 25_000
"""How far ahead of the frame that is read an artefact may lie."""

NOISE_UV = 9.0
OPEN_NOISE_UV = 25.0
HUM_UV = 8.0
FIELD_UV = 18.0
SPIKE_FRAMES = 60
TROUGH_FRAME = 15
SATURATION_UV = 32_767 * UV_PER_UNIT
WIDTHS = np.linspace(0.8, 1.4, 7)
"""Widths of the spike shapes; each neuron has one of them."""
TIRED, TIRED_S = 0.3, 0.05
"""Share by which a spike is smaller at once after another, and the time constant of that."""

ARTEFACT_UV_UA = 2500.0
ARTEFACT_DECAY_S = 0.0008


def spike_shape(width: float) -> NDArray[np.float32]:
    """Return an extracellular spike of unit trough, shape (SPIKE_FRAMES,): a sharp fall, then a slower, smaller rise."""
    t = (np.arange(SPIKE_FRAMES) - TROUGH_FRAME) / SAMPLE_RATE_HZ * 1e3
    trough = np.exp(-0.5 * (t / (0.11 * width)) ** 2)
    after = 0.32 * np.exp(-0.5 * ((t - 0.55 * width) / (0.28 * width)) ** 2)
    return (after - trough).astype(np.float32)


@numba.njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def _add_spikes(ahead, who, frames, size, first, electrode, uv, shape, shapes):  # type: ignore[no-untyped-def]
    """Add each spike to the electrodes that see its neuron."""
    length = ahead.shape[0]
    for n in range(len(who)):
        i = who[n]
        wave = shapes[shape[i]]
        for e in range(first[i], first[i + 1]):
            scale = np.float32(uv[e] * size[n])
            row = frames[n] % length
            for sample in wave:
                ahead[row, electrode[e]] += scale * sample
                row = row + 1 if row + 1 < length else 0


def compiled() -> None:
    """Compile (or load from the cache) what an array in real time needs, before its first frame and for later."""
    warm_up()
    array = SimulatedArray(1, 0)
    while not array.spikes:
        array.generate(TICK_FRAMES)


class SimulatedArray:
    """One specimen on one array. `conditions` may be replaced at any time and take effect with the next tick.

    `twin` is a control of experiments on learning (:mod:`sim.neurons.twins`).
    """

    def __init__(
        self,
        electrodes: int,
        seed: int,
        *,
        health: float = 1.0,
        first_second: float = 0.0,
        twin: Twin = Twin.PLASTIC,
        positions_um: Floats | None = None,
    ) -> None:
        """Grow a specimen; `positions_um` are those of the electrodes, shape (electrodes, 2); left out, a square grid."""
        self.culture = NeuralCulture.grown(electrodes, seed, positions_um)
        self.electrodes = electrodes
        self.conditions = TissueConditions(alive=health)
        self._network = SpikingNetwork(self.culture, seed, plastic=twin is not Twin.FROZEN, first_second=first_second)
        self._twins = Twins(twin, electrodes, seed)
        self._noise_rng = np.random.default_rng([seed, 1])
        self._effects = PulseEffects(self.culture, seed)
        shapes = np.random.default_rng([seed, 4])
        open_lead = self.culture.impedance_kohm > 2000.0
        self._noise_uv = np.where(open_lead, OPEN_NOISE_UV, NOISE_UV).astype(np.float32)
        self._hum_uv = (HUM_UV * np.where(open_lead, 10.0, 1.0) * shapes.uniform(0.5, 1.5, electrodes)).astype(
            np.float32
        )
        self._field_uv = (FIELD_UV * shapes.uniform(0.6, 1.4, electrodes)).astype(np.float32)
        self._shapes = np.stack([spike_shape(width) for width in WIDTHS])
        neurons = self.culture.neurons
        self._shape = shapes.integers(0, len(WIDTHS), neurons)
        apart = self.culture.electrode_um[:, None, :] - self.culture.electrode_um[None, :, :]
        self._distance_um = np.hypot(apart[..., 0], apart[..., 1])
        # Rows of what is still to come, frame f in row f % length: drawn ticks, and artefacts further ahead.
        self._length = HORIZON_FRAMES + 4 * TICK_FRAMES + SPIKE_FRAMES
        self._ahead = np.zeros((self._length, electrodes), np.float32)
        self._pulses: list[tuple[int, int, float]] = []
        """Pulses that the network has not received: frame, electrode, charge (nC)."""
        self._drawn = 0
        self._next = 0
        self._last_spike = np.full(neurons, -(1 << 40), np.int64)
        self.spikes = 0
        """Spikes fired so far by all neurons."""

    @property
    def next_frame(self) -> int:
        """Return the number of the next frame."""
        return self._next

    @property
    def health(self) -> float:
        """Return the share of living tissue, 0 to 1."""
        return self.conditions.alive

    def impedances_kohm(self) -> tuple[float, ...]:
        """Return the magnitude at 1 kHz of each electrode; one lead is open."""
        return tuple(float(z) for z in self.culture.impedance_kohm)

    def prepare(self, frames: int) -> None:
        """Draw what the next `frames` frames bring, so that they can be generated at once when their time comes."""
        while self._drawn < self._next + frames:
            self._draw()

    def generate(self, frames: int) -> NDArray[np.int16]:
        """Return the next `frames` frames, shape (frames, electrodes)."""
        out = np.empty((frames, self.electrodes), np.int16)
        done = 0
        while done < frames:
            if self._next == self._drawn:
                self._draw()
            row = self._next % self._length
            count = min(frames - done, self._drawn - self._next, self._length - row)
            ready = self._ahead[row : row + count]
            units = np.rint(ready * np.float32(1.0 / UV_PER_UNIT))
            out[done : done + count] = units.clip(-32_768, 32_767)
            ready[:] = 0.0
            self._next += count
            done += count
        return out

    def stimulate(self, electrode: int, at_frame: int, phases: Sequence[tuple[float, float]]) -> None:
        """Deliver a pulse of `phases` (µs, µA) that begins at `at_frame`, which must not have been generated yet.

        Raises:
            ValueError: The frame is past, or further ahead than can be held.
        """
        if not self._next <= at_frame < self._next + HORIZON_FRAMES // 2:
            raise ValueError(f"frame {at_frame} cannot be stimulated when {self._next} is next")
        self._artefact(electrode, at_frame, phases)
        self._pulses.append((at_frame, electrode, charge_nc(phases)))

    def _draw(self) -> None:
        """Add what the next tick brings: background, then the spikes of the culture."""
        start = self._drawn
        rows = slice(start % self._length, None)
        noise = self._noise_rng.standard_normal((TICK_FRAMES, self.electrodes), dtype=np.float32)
        noise *= self._noise_uv
        t = (start + np.arange(TICK_FRAMES)) / SAMPLE_RATE_HZ
        vigour = np.float32(0.3 + 0.7 * min(max(self.health, 0.0), 1.0))
        field = np.sin(2 * math.pi * 7.3 * t) * np.sin(2 * math.pi * 0.31 * t) + 0.5 * np.sin(2 * math.pi * 17.9 * t)
        noise += np.outer(field.astype(np.float32) * vigour, self._field_uv)
        noise += np.outer(np.sin(2 * math.pi * 50.0 * t).astype(np.float32), self._hum_uv)
        first = self._ahead[rows][:TICK_FRAMES]
        first += noise[: len(first)]
        if len(first) < TICK_FRAMES:
            self._ahead[: TICK_FRAMES - len(first)] += noise[len(first) :]
        self._drawn += TICK_FRAMES
        self._fire(start)

    def _fire(self, start: int) -> None:
        """Advance the network by a tick, and add its spikes to what the electrodes see."""
        self._excite(start)
        who, steps = self._network.advance(TICK_FRAMES // STEP_FRAMES, self.conditions)
        self.spikes += len(who)
        shown = self._twins.shown(start / SAMPLE_RATE_HZ)
        if not len(who) or shown is None:
            return
        frames = steps * STEP_FRAMES
        footprint = self.culture.footprint
        electrode = footprint.electrode if shown is self._twins.all else shown[footprint.electrode]
        size = self._sizes(who, frames).astype(np.float32)
        _add_spikes(
            self._ahead,
            who,
            frames,
            size,
            footprint.first,
            electrode,
            footprint.uv,
            self._shape,
            self._shapes,
        )

    def _sizes(self, who: NDArray[np.int32], frames: NDArray[np.int64]) -> Floats:
        """Return the sizes of spikes in relation to those of a rested neuron of healthy tissue."""
        since_s = (frames - self._last_spike[who]) / SAMPLE_RATE_HZ
        self._last_spike[who] = frames
        size: Floats = 1.0 - TIRED * np.exp(-since_s / TIRED_S)
        return size * (0.6 + 0.4 * min(max(self.health, 0.0), 1.0))

    def _excite(self, start: int) -> None:
        """Give the network the pulses that begin before the end of the tick."""
        due = [pulse for pulse in self._pulses if pulse[0] < start + TICK_FRAMES]
        if not due:
            return
        self._pulses = [pulse for pulse in self._pulses if pulse[0] >= start + TICK_FRAMES]
        for at_frame, electrode, charge in due:
            strength, latency_s = self._effects.drawn(self._twins.stimulated(electrode), charge)
            # A pulse of a tick that is drawn already arrives at its end; latencies are longer than a tick.
            early_s = min((at_frame - start) / SAMPLE_RATE_HZ, TICK_FRAMES / SAMPLE_RATE_HZ)
            self._network.evoke(strength, latency_s + early_s)

    def _add(self, electrode: int, frame: int, wave: NDArray[np.float32]) -> None:
        row = frame % self._length
        head = wave[: self._length - row]
        self._ahead[row : row + len(head), electrode] += head
        if len(head) < len(wave):
            self._ahead[: len(wave) - len(head), electrode] += wave[len(head) :]

    def _artefact(self, electrode: int, at_frame: int, phases: Sequence[tuple[float, float]]) -> None:
        """Add the artefact of a pulse at the amplifiers: saturating nearby, weaker with distance, then decaying."""
        ends = np.cumsum([us for us, _ in phases]) * 1e-6 * SAMPLE_RATE_HZ
        frames = np.arange(math.ceil(ends[-1]))
        phase = np.minimum(np.searchsorted(ends, frames, side="right"), len(phases) - 1)
        during = np.array([ua for _, ua in phases])[phase]
        tail = np.exp(-np.arange(round(5 * ARTEFACT_DECAY_S * SAMPLE_RATE_HZ)) / (ARTEFACT_DECAY_S * SAMPLE_RATE_HZ))
        wave = np.concatenate([during, phases[-1][1] * tail])
        reach = ARTEFACT_UV_UA / (1.0 + (self._distance_um[electrode] / 60.0) ** 1.5)
        for other in range(self.electrodes):
            seen = wave * (reach[other] if other != electrode else 8.0 * ARTEFACT_UV_UA)
            self._add(other, at_frame, seen.clip(-SATURATION_UV, SATURATION_UV).astype(np.float32))
