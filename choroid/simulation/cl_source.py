"""The simulated culture as a data source of cl-sdk's simulator, so that programs of the CL API run on tissue that learns.

Set `CL_SDK_DATA_SOURCE` to `choroid.simulation.cl_source:culture`, or to `choroid.simulation.cl_source:frozen_culture` for
the control whose synapses do not learn. cl-sdk is not a dependency: it calls these functions.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nerves.detections import blanks_after
from nerves.detector import SpikeDetector, warm_up
from sim.neurons.array import SAMPLE_RATE_HZ, UV_PER_UNIT, SimulatedArray, compiled
from sim.neurons.twins import Twin

BEFORE, AFTER = 25, 50
"""Samples of a spike before and from its timestamp on."""
AHEAD_FRAMES = AFTER
"""So far is the culture ahead of what is read: spikes are found 0.8 ms after their trough, and their samples end later."""
BEGIN_FRAMES = SAMPLE_RATE_HZ
"""Frames before the first that is read, in which the detector finds the noise level."""

ChannelSpike = tuple[int, int, NDArray[np.float32], float]
"""Frame, channel, samples without their mean (µV), mean (µV)."""


class DelayedCulture:
    """Gives frames with the spikes in them. The culture is 2 ms ahead of what is read, so a pulse reaches it 2 ms late."""

    def __init__(self, electrodes: int, seed: int, twin: Twin) -> None:
        """Grow the culture and let its first second pass.

        Args:
            electrodes: How many electrodes the array has.
            seed: Of the culture and of all that is drawn.
            twin: The culture itself, or a control.
        """
        self._array = SimulatedArray(electrodes, seed, twin=twin)
        self._detector = SpikeDetector(electrodes, SAMPLE_RATE_HZ, UV_PER_UNIT)
        self._kept = np.zeros((0, electrodes), np.int16)
        self._found: list[tuple[int, int]] = []
        self._offset: int | None = None
        """Frame of the array less the timestamp of it."""
        self._advance(BEGIN_FRAMES)

    def read(self, first: int, count: int) -> tuple[NDArray[np.int16], list[ChannelSpike]]:
        """Return the next frames and their spikes.

        Args:
            first: Timestamp of the first frame. What was skipped since the last call is passed over.
            count: How many frames.

        Returns:
            The frames, int16, shape (frames, channels), and the spikes in the order of their timestamps.

        Raises:
            ValueError: The frames have passed already.
        """
        if self._offset is None:
            self._offset = BEGIN_FRAMES - first
        begin = first + self._offset
        end = begin + count
        self._advance(end + AHEAD_FRAMES - self._array.next_frame)
        at = begin - self._array.next_frame + len(self._kept)
        if at < BEFORE:
            raise ValueError(f"frame {first} has passed; this source is read in order")
        frames = self._kept[at : at + count]
        due = [each for each in self._found if begin <= each[0] < end]
        spikes = [self._spike(frame, channel, at + frame - begin) for frame, channel in due]
        self._found = [each for each in self._found if each[0] >= end]
        self._kept = self._kept[at + count - BEFORE :]
        return frames, spikes

    def stimulate(self, timestamp: int, channel: int, phases: Sequence[tuple[float, float]]) -> None:
        """Deliver a pulse, at the earliest with the next frame of the culture.

        Args:
            timestamp: When it begins.
            channel: Where.
            phases: Duration (µs) and current (µA) of each phase.
        """
        at = max(timestamp + (self._offset or 0), self._array.next_frame)
        self._array.stimulate(channel, at, phases)
        length_s = sum(duration_us for duration_us, _ in phases) * 1e-6
        self._detector.blank(blanks_after(channel, at, length_s, SAMPLE_RATE_HZ))

    def _advance(self, frames: int) -> None:
        """Let frames pass, and find their spikes."""
        if frames <= 0:
            return
        first = self._array.next_frame
        new = self._array.generate(frames)
        spikes = self._detector.process(new, first)
        self._found += zip(spikes.frames.tolist(), spikes.electrodes.tolist(), strict=True)
        self._kept = np.concatenate([self._kept, new])

    def _spike(self, frame: int, channel: int, at: int) -> ChannelSpike:
        window = self._kept[at - BEFORE : at + AFTER, channel].astype(np.float32) * np.float32(UV_PER_UNIT)
        mean = float(window.mean())
        return frame - (self._offset or 0), channel, window - np.float32(mean), mean


def culture(seed: int = 7, electrodes: int = 64, twin: str = "plastic") -> Any:
    """Return the culture as a source of cl-sdk's simulator.

    Args:
        seed: Of the culture and of all that is drawn.
        electrodes: How many channels there are; programs of the CL API expect 64.
        twin: `plastic` is the culture itself; `frozen`, `shuffled`, `zero` and `random_stimulation` are controls.

    Returns:
        A `cl.sim.SimulatorDataSource`.

    Raises:
        ImportError: cl-sdk is not installed.
        ValueError: There is no such twin.
    """
    sim: Any = importlib.import_module("cl.sim")
    kind = Twin(twin)
    # Both the program and the simulator's own process come here: what is compiled by the first is there for the second.
    compiled()
    warm_up(electrodes)

    class CultureSource(sim.SimulatorDataSource):  # type: ignore[misc]
        """Adapts :class:`DelayedCulture`; the simulator's own process calls it."""

        metadata = sim.SimulatorDataSourceMetadata(
            channel_count=electrodes, frames_per_second=SAMPLE_RATE_HZ, uV_per_sample_unit=UV_PER_UNIT, seekable=False
        )

        def open(self) -> None:
            self._culture = DelayedCulture(electrodes, seed, kind)

        def read(self, from_timestamp: int, frame_count: int) -> Any:
            frames, spikes = self._culture.read(from_timestamp, frame_count)
            return sim.DataSourceBatch(frames, [sim.DataSourceSpike(*spike) for spike in spikes])

        def on_stim(self, stim: Any) -> None:
            phases = list(zip(stim.phase_durations_us, stim.phase_currents_uA, strict=True))
            self._culture.stimulate(stim.timestamp, stim.channel, phases)

    return CultureSource()


def frozen_culture(seed: int = 7, electrodes: int = 64) -> Any:
    """Return the control of :func:`culture` whose synapses do not learn.

    Args:
        seed: That of the culture.
        electrodes: How many channels there are.

    Returns:
        A `cl.sim.SimulatorDataSource`.

    Raises:
        ImportError: cl-sdk is not installed.
    """
    return culture(seed, electrodes, Twin.FROZEN)
