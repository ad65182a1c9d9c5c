"""A core with its array, a tap and a writer in one process and virtual time, for the tests of recordings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nerves.cards.contract import FrameBlock
from nerves.cards.geometry import ArrayGeometry
from nerves.recording.handover import HandoverReceiver, HandoverSender, make_memory
from nerves.recording.layout import RecordingPlan
from nerves.recording.recorded import ArrayRecording, recordings
from nerves.recording.session import WriterSession
from nerves.recording.tap import RecordingOrder, RecordingTap
from tests.nerves.bench import Bench

BEGAN_US = 1_767_225_600_000_000
"""2026-01-01."""
IDENTITY = {"rig": "bench", "chambers": {"chamber": {"tissue": "o1"}}}


@dataclass
class RecordedBench:
    """Everything between the array and the store. `drain` is when the writer works."""

    lab: Bench
    tap: RecordingTap
    sender: HandoverSender
    receiver: HandoverReceiver
    writer: WriterSession
    folder: Path
    drained: bool = True
    said: list[dict[str, Any]] = field(default_factory=list)
    blocks: list[FrameBlock] = field(default_factory=list)

    def begin(self, name: str = "one", **changes: Any) -> None:
        """Begin a recording with the next block."""
        self.tap.order(RecordingOrder(name, "ada", "a test", **changes))

    def end(self) -> ArrayRecording:
        """End the recording; return it."""
        self.tap.order(RecordingOrder("", "", "it is enough"))
        self.run(0.002)
        self.drain()
        return recordings(self.folder)[-1]

    def run(self, seconds: float) -> None:
        """Step array, core and tap; the writer takes what there is unless `drained` is false."""
        end = self.lab.core.next_frame + round(seconds * 25_000)
        while self.lab.core.next_frame < end:
            block = self.lab.array.read()
            self.blocks.append(block)
            self.tap.take(block, self.lab.core.step(block))
            if self.drained:
                self.drain()

    def drain(self) -> None:
        """Let the writer take all there is."""
        self.sender.ring()
        self.receiver.wait(0.0)
        while self.receiver.waiting_bytes:
            for message in self.receiver.messages():
                self.writer.take(message)
        self.writer.tick()

    def truth(self, first_frame: int, end_frame: int) -> NDArray[np.int16]:
        """Return the samples that the array gave."""
        first = self.blocks[0].first_frame
        samples = np.concatenate([block.samples for block in self.blocks])
        return samples[first_frame - first : end_frame - first]

    def alarms(self) -> list[str]:
        """Return the texts of the alarms so far."""
        _, events, _ = self.lab.core.events.read(0, None)
        return [event.text for event in events if event.kind.value == "ALARM"]


@contextmanager
def recorded_bench(
    folder: Path,
    *,
    electrodes: int = 4,
    buffer_bytes: int = 8 << 20,
    geometry: ArrayGeometry | None = None,
    **plan: Any,
) -> Iterator[RecordedBench]:
    """Yield a bench whose recordings go to `folder`."""
    lab = Bench(folder.parent / f"{folder.name}.db", electrodes=electrodes, geometry=geometry)
    planned = RecordingPlan(str(folder), min_free_bytes=0.0, identity=IDENTITY, **plan)

    def utc_us() -> int:
        return BEGAN_US + round(lab.crystal.now_s * 1e6)

    def utc_text() -> str:
        return f"2026-01-01T00:00:{lab.crystal.now_s:06.3f}Z"

    tap = RecordingTap(lab.core, planned, utc_us, utc_text)
    memory = make_memory(buffer_bytes)
    reading, writing = os.pipe()
    said: list[dict[str, Any]] = []
    sender, receiver = HandoverSender(memory, writing), HandoverReceiver(memory, reading)
    tap.connect(sender)
    bench = RecordedBench(lab, tap, sender, receiver, WriterSession(said.append, utc_text), folder, said=said)
    lab.run = bench.run  # type: ignore[method-assign,assignment]  # also what its other methods step passes the tap
    try:
        yield bench
    finally:
        for descriptor in (memory, reading, writing):
            os.close(descriptor)
        lab.core.close()
