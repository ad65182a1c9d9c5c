"""Blocks of frames from the card process to the engine, through shared memory: one writer, one reader, no lock.

A fixed number of slots is written and read in turn. Each side only writes its own counter. A full queue loses blocks, never
overwrites one: the engine sees a gap. The reader's counter is also its sign of life.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from nerves.cards.contract import CardFault, CardState, FrameBlock, Impedance

_WRITTEN, _READ, _FRAME, _FRAME_NS, _MEASURED = range(5)
_COUNTERS = 8
_HEAD = 3
"""Numbers at the head of a slot: first frame, frames, bytes of text."""
_TEXT_BYTES = 16_384
_BUFFERED_S = 2.0
ReplayedPulse = tuple[int, Sequence[tuple[float, float]]]
"""Electrode, and duration (µs) and current (µA) of each phase."""
Told = tuple[int, int | None, str, ReplayedPulse | None]
"""What became of a pulse: its id, the frame at which it began (or None), the reason when it was dropped, and what it was when
it is of a recording."""


class BlockQueue:
    """Queues blocks on a shared file. The writer makes it with :meth:`create`; the reader opens the same descriptor."""

    def __init__(self, descriptor: int, electrodes: int, block_frames: int, sample_rate_hz: float) -> None:
        self.descriptor = descriptor
        self._electrodes = electrodes
        self._slots = _slots(block_frames, sample_rate_hz)
        slot = _slot_bytes(electrodes, block_frames)
        self._map = mmap.mmap(descriptor, _total_bytes(electrodes, block_frames, sample_rate_hz))
        self._counters = np.frombuffer(self._map, np.int64, _COUNTERS)
        offset = _COUNTERS * 8
        self._kohm = np.frombuffer(self._map, np.float64, electrodes, offset)
        self._kohm_frame = np.frombuffer(self._map, np.int64, electrodes, offset + 8 * electrodes)
        offset += 16 * electrodes
        self._heads = [np.frombuffer(self._map, np.int64, _HEAD, offset + n * slot) for n in range(self._slots)]
        self._samples = [
            np.frombuffer(self._map, np.int16, block_frames * electrodes, offset + n * slot + 8 * _HEAD)
            for n in range(self._slots)
        ]
        self._texts = [offset + (n + 1) * slot - _TEXT_BYTES for n in range(self._slots)]

    @classmethod
    def create(cls, electrodes: int, block_frames: int, sample_rate_hz: float) -> BlockQueue:
        """Make a new queue in memory that ends with the last process that has it open.

        Args:
            electrodes: Electrodes of the array.
            block_frames: Largest number of frames in a block.
            sample_rate_hz: Frames in a second; the queue has room for 2 s of them.

        Returns:
            The writer's end; the reader opens its `descriptor`.
        """
        descriptor = os.memfd_create("choroid-frames", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _total_bytes(electrodes, block_frames, sample_rate_hz))
        return cls(descriptor, electrodes, block_frames, sample_rate_hz)

    def put(self, block: FrameBlock, told: Sequence[Told]) -> int | None:
        """Write one block. Writer only.

        Args:
            block: The block; its deliveries are not written.
            told: What became of pulses; as many of them as have room are written.

        Returns:
            How many of `told` were written; None when the queue is full and nothing was.
        """
        written = int(self._counters[_WRITTEN])
        if written - int(self._counters[_READ]) >= self._slots:
            return None
        slot = written % self._slots
        text, taken = _text(told, block.faults)
        count = len(block.samples)
        self._samples[slot][: count * self._electrodes] = block.samples.reshape(-1)
        self._map[self._texts[slot] : self._texts[slot] + len(text)] = text
        self._heads[slot][:] = (block.first_frame, count, len(text))
        self._counters[_WRITTEN] = written + 1
        return taken

    def take(self) -> tuple[FrameBlock, list[Told]] | None:
        """Read the next block, without the deliveries, and what became of pulses; None when there is none. Reader only."""
        read = int(self._counters[_READ])
        if read == int(self._counters[_WRITTEN]):
            return None
        slot = read % self._slots
        first, count, length = (int(value) for value in self._heads[slot])
        samples = self._samples[slot][: count * self._electrodes].reshape(count, self._electrodes).copy()
        said: dict[str, Any] = {}
        if length:
            said = json.loads(self._map[self._texts[slot] : self._texts[slot] + length])
        self._counters[_READ] = read + 1
        faults = tuple(CardFault(CardState(state), tuple(which), why) for state, which, why in said.get("faults", ()))
        told = [(number, frame, why, pulse) for number, frame, why, pulse in said.get("told", ())]
        return FrameBlock(first, samples, (), faults), told

    @property
    def read(self) -> int:
        """How many blocks the reader has taken: its sign of life."""
        return int(self._counters[_READ])

    def set_clock(self, frame: int, at_ns: int) -> None:
        """Publish when a frame was sampled. Writer only.

        Args:
            frame: The frame.
            at_ns: When, by the machine's steady clock (ns).
        """
        self._counters[_FRAME] = frame
        self._counters[_FRAME_NS] = at_ns

    def clock(self) -> tuple[int, int]:
        """Return the latest published frame and its time (ns)."""
        return int(self._counters[_FRAME]), int(self._counters[_FRAME_NS])

    def set_impedances(self, impedances: Sequence[Impedance | None]) -> None:
        """Publish the impedances. Writer only.

        Args:
            impedances: One for each electrode; None where none was measured.
        """
        self._counters[_MEASURED] += 1  # odd while it writes
        self._kohm[:] = [np.nan if each is None else each.kohm for each in impedances]
        self._kohm_frame[:] = [-1 if each is None else each.at_frame for each in impedances]
        self._counters[_MEASURED] += 1

    def impedances(self) -> tuple[Impedance | None, ...]:
        """Return the published impedances."""
        while True:
            version = int(self._counters[_MEASURED])
            kohm, frames = self._kohm.tolist(), self._kohm_frame.tolist()
            if version % 2 == 0 and version == int(self._counters[_MEASURED]):
                break
        if version == 0:
            return (None,) * self._electrodes
        return tuple(None if frame < 0 else Impedance(value, frame) for value, frame in zip(kohm, frames, strict=True))


def _slots(block_frames: int, sample_rate_hz: float) -> int:
    return max(8, round(_BUFFERED_S * sample_rate_hz / block_frames))


def _slot_bytes(electrodes: int, block_frames: int) -> int:
    samples = -(-2 * electrodes * block_frames // 8) * 8
    return 8 * _HEAD + samples + _TEXT_BYTES


def _total_bytes(electrodes: int, block_frames: int, sample_rate_hz: float) -> int:
    slots = _slots(block_frames, sample_rate_hz)
    return 8 * _COUNTERS + 16 * electrodes + slots * _slot_bytes(electrodes, block_frames)


def _text(told: Sequence[Told], faults: Sequence[CardFault]) -> tuple[bytes, int]:
    """Return faults and as many fates as have room, and how many those are."""
    if not told and not faults:
        return b"", 0
    said: dict[str, Any] = {"faults": [(fault.state.value, fault.electrodes, fault.text[:500]) for fault in faults]}
    taken = len(told)
    while True:
        said["told"] = [(number, frame, why[:200], pulse) for number, frame, why, pulse in told[:taken]]
        text = json.dumps(said).encode()
        if len(text) <= _TEXT_BYTES:
            return text, taken
        if not taken:  # more electrodes than fit by name: the first ones stand for all
            said["faults"] = [(state, which[: len(which) // 2], why) for state, which, why in said["faults"]]
        taken //= 2
