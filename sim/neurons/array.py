"""A simulated electrode array, sample by sample: 25,000 frames a second of noise, spikes, bursts and answers.

Samples are int16, 0.195 µV a unit, made ahead in ticks of 10 ms and added up: noise, field potentials and
mains hum, spontaneous spikes, and on top whatever stimulation evokes. The same seed and the same pulses
give the same samples, whatever the size of the blocks that are asked for. There is no clock here: frames
exist when they are generated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim.neurons.network import BURST_LENGTH_S, REFRACTORY_S, Network

SAMPLE_RATE_HZ = 25_000
UV_PER_UNIT = 0.195
TICK_FRAMES = 250
HORIZON_FRAMES = 25_000
"""How far ahead of the frame that is read an evoked spike may lie."""

NOISE_UV = 9.0
OPEN_NOISE_UV = 25.0
HUM_UV = 8.0
FIELD_UV = 18.0
SPIKE_FRAMES = 60
TROUGH_FRAME = 15
SATURATION_UV = 32_767 * UV_PER_UNIT

EVOKED_HALF_NC = 0.12
"""Phase charge at which the stimulated electrode's neuron answers every second time."""

EVOKED_SLOPE = 5.0
REACH_UM = 250.0
DIRECT_LATENCY_S = (0.007, 0.012)
LATE_LATENCY_S = (0.015, 0.05)
LATE_SPIKES = 1.2
"""Polysynaptic spikes a responding neuron adds on average."""

RECOVERY_S = 0.15
"""Time constant with which a neuron recovers after it has answered."""

BURST_CHANCE = 0.1
BURST_REST_S = 2.0
ARTEFACT_UV_UA = 2500.0
ARTEFACT_DECAY_S = 0.0008


def spike_shape(width: float) -> NDArray[np.float32]:
    """Return an extracellular spike of unit trough, shape (SPIKE_FRAMES,): a sharp fall, then a slower, smaller rise."""
    t = (np.arange(SPIKE_FRAMES) - TROUGH_FRAME) / SAMPLE_RATE_HZ * 1e3
    trough = np.exp(-0.5 * (t / (0.11 * width)) ** 2)
    after = 0.32 * np.exp(-0.5 * ((t - 0.55 * width) / (0.28 * width)) ** 2)
    return (after - trough).astype(np.float32)


class SimulatedArray:
    """One specimen on one array. `health` (0 to 1) may be set at any time and takes effect with the next
    tick.
    """

    def __init__(self, electrodes: int, seed: int, *, health: float = 1.0, first_second: float = 0.0) -> None:
        self.network = Network.grown(electrodes, seed)
        self.electrodes = electrodes
        self.health = health
        self._first_second = first_second
        self._noise_rng = np.random.default_rng([seed, 1])
        self._spike_rng = np.random.default_rng([seed, 2])
        self._answer_rng = np.random.default_rng([seed, 3])
        shapes = np.random.default_rng([seed, 4])
        open_lead = self.network.impedance_kohm > 2000.0
        self._noise_uv = np.where(open_lead, OPEN_NOISE_UV, NOISE_UV).astype(np.float32)
        self._hum_uv = (HUM_UV * np.where(open_lead, 10.0, 1.0) * shapes.uniform(0.5, 1.5, electrodes)).astype(
            np.float32
        )
        self._field_uv = (FIELD_UV * shapes.uniform(0.6, 1.4, electrodes)).astype(np.float32)
        self._templates = [spike_shape(width) for width in shapes.uniform(0.8, 1.4, electrodes)]
        apart = self.network.position_um[:, None, :] - self.network.position_um[None, :, :]
        self._distance_um = np.hypot(apart[..., 0], apart[..., 1])
        # Rows of what is still to come, frame f in row f % length: drawn ticks, and evoked spikes further
        # ahead.
        self._length = HORIZON_FRAMES + 4 * TICK_FRAMES + SPIKE_FRAMES
        self._ahead = np.zeros((self._length, electrodes), np.float32)
        self._drawn = 0
        self._next = 0
        self._last_spike = np.full(electrodes, -(1 << 40), np.int64)
        self._last_answer = np.full(electrodes, -(1 << 40), np.int64)
        self._burst_until = 0
        self._burst_from = 0
        self.spikes = 0
        """Spikes fired so far, evoked ones included."""

    @property
    def next_frame(self) -> int:
        """Return the number of the next frame."""
        return self._next

    def impedances_kohm(self) -> tuple[float, ...]:
        """Return the magnitude at 1 kHz of each electrode; one lead is open."""
        return tuple(float(z) for z in self.network.impedance_kohm)

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
        """Deliver a pulse of `phases` (µs, µA) that begins at `at_frame`, which must not have been
        generated yet.

        Raises ValueError for a frame that is past or further ahead than a tick can hold.
        """
        if not self._next <= at_frame < self._next + HORIZON_FRAMES // 2:
            raise ValueError(f"frame {at_frame} cannot be stimulated when {self._next} is next")
        self._artefact(electrode, at_frame, phases)
        self._answer(electrode, at_frame, max(abs(us * ua) for us, ua in phases) / 1000.0)

    def _draw(self) -> None:
        """Add the spontaneous activity of the next tick: background, then spikes of each neuron."""
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
        tick_s = TICK_FRAMES / SAMPLE_RATE_HZ
        drive = self.network.tonic_hz(self.health, self._first_second + start / SAMPLE_RATE_HZ)
        begins = self._spike_rng.random() < self.network.bursts_hz(self.health) * tick_s
        if begins and start >= self._burst_until:
            self._burst_from = start
            self._burst_until = start + round(BURST_LENGTH_S * SAMPLE_RATE_HZ)
        if self._burst_from <= start < self._burst_until:
            drive = drive + self.network.burst_hz(self.health)
        counts = self._spike_rng.poisson(drive * tick_s)
        for electrode in np.flatnonzero(counts):
            for offset in np.sort(self._spike_rng.integers(0, TICK_FRAMES, counts[electrode])):
                self._spike(int(electrode), start + int(offset))

    def _spike(self, electrode: int, frame: int) -> bool:
        """Let a neuron fire at `frame` unless it is refractory; returns whether it did."""
        if abs(frame - self._last_spike[electrode]) < REFRACTORY_S * SAMPLE_RATE_HZ:
            return False
        self._last_spike[electrode] = max(frame, self._last_spike[electrode])
        size = self.network.trough_uv[electrode] * (0.6 + 0.4 * min(max(self.health, 0.0), 1.0))
        self._add(electrode, frame, self._templates[electrode] * np.float32(size))
        self.spikes += 1
        return True

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

    def _answer(self, electrode: int, at_frame: int, charge_nc: float) -> None:
        """Evoke spikes: one directly, some through synapses, now and then a network burst."""
        near = np.exp(-self._distance_um[electrode] / REACH_UM)
        drive = EVOKED_SLOPE * math.log(max(charge_nc, 1e-6) / EVOKED_HALF_NC) + 4.0 * (near - 1.0)
        since_s = (at_frame - self._last_answer) / SAMPLE_RATE_HZ
        recovered = 1.0 - np.exp(-np.maximum(since_s, 0.0) / RECOVERY_S)
        chance = recovered * self.network.vigour(self.health) / (1.0 + np.exp(-drive))
        chance[self.network.base_hz == 0.0] = 0.0
        rng = self._answer_rng
        answering = rng.random(self.electrodes) < chance
        for responder in np.flatnonzero(answering):
            self._last_answer[responder] = at_frame
            latencies = [
                rng.uniform(*DIRECT_LATENCY_S),
                *rng.uniform(*LATE_LATENCY_S, rng.poisson(LATE_SPIKES)),
            ]
            for latency_s in sorted(latencies):
                self._spike(int(responder), at_frame + round(latency_s * SAMPLE_RATE_HZ))
        rested = at_frame - self._burst_until > BURST_REST_S * SAMPLE_RATE_HZ
        if answering.any() and rested and rng.random() < BURST_CHANCE * min(max(self.health, 0.0), 1.0):
            self._burst_from = at_frame + round(0.02 * SAMPLE_RATE_HZ)
            self._burst_until = self._burst_from + round(BURST_LENGTH_S * SAMPLE_RATE_HZ)
