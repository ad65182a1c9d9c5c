"""Recording: what is lost, what it costs, and whether SpikeInterface reads back what the card gave.

The card makes cheap frames: white noise of 9 µV that repeats each second, with the number of the frame in two channels, so
that a lost or doubled frame cannot pass for another. White noise is the hardest case for compression. All else is real: core
with spike detection, buffer, writer's process, disk. Busy processes, if asked for, have the same priority as the writer.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.core.clock import Clock
from nerves.cards.contract import ArrayInfo, CardState, FrameBlock, Impedance, Pulse, SelfCheck
from nerves.core import Core
from nerves.detector import warm_up
from nerves.envelope import Envelope
from nerves.ledger import StimulationLedger
from nerves.precedence import take_precedence
from nerves.recording.layout import RecordingPlan
from nerves.recording.recorded import ArrayRecording, open_recording
from nerves.recording.service import RecordingService

RATE_HZ = 25_000
BLOCK_FRAMES = 25
CARD_BUFFER_FRAMES = 12_500
"""Frames that the card keeps for an engine that is late (0.5 s); older ones are lost, as with the simulated array."""
NOISE_UNITS = 46.0
COUNTER_BITS = 15
MAX_FILL = 0.5
"""Without pacing, the card waits while the buffer is fuller than this."""
SETTLE_S = 2.0
COMPARED_FRAMES = 50_000


class NoiseCard:
    """A card that gives known frames, in real time or as fast as they are taken."""

    def __init__(self, electrodes: int, *, paced: bool) -> None:
        self.info = ArrayInfo(
            name=f"noise on {electrodes} channels",
            electrodes=electrodes,
            sample_rate_hz=float(RATE_HZ),
            uv_per_unit=0.195,
            material="Pt",
            diameter_um=30.0,
            block_frames=BLOCK_FRAMES,
            lead_frames=5,
            time_step_us=20.0,
            current_step_ua=0.01,
            compliance_v=7.0,
            simulated=True,
            stimulates=False,
            measures_impedance=False,
        )
        noise = np.random.default_rng(1).standard_normal((RATE_HZ, electrodes), np.float32)
        self._noise = (noise * NOISE_UNITS).astype(np.int16)
        self._paced = paced
        self._next = 0
        self._began_s = time.perf_counter()  # noqa: TID251
        self.lost_frames = 0
        self.latest_s = 0.0
        """The longest time that a block waited for the engine."""

    @property
    def state(self) -> CardState:
        """Return that it works."""
        return CardState.CONNECTED

    def frames(self, first: int, end: int) -> NDArray[np.int16]:
        """Return the frames from `first` up to (not including) `end`, as they were or will be."""
        numbers = np.arange(first, end)
        samples = np.take(self._noise, numbers % RATE_HZ, axis=0)
        samples[:, 0] = numbers & ((1 << COUNTER_BITS) - 1)
        samples[:, 1] = numbers >> COUNTER_BITS
        return samples

    def now_frame(self) -> int:
        """Return the card's clock."""
        return int((time.perf_counter() - self._began_s) * RATE_HZ) if self._paced else self._next  # noqa: TID251

    def read(self) -> FrameBlock:
        """Return the next block."""
        first = self._next
        if self._paced:
            behind = self.now_frame() - first - BLOCK_FRAMES
            self.latest_s = max(self.latest_s, behind / RATE_HZ)
            if behind > CARD_BUFFER_FRAMES:
                self.lost_frames += behind
                first += behind
            while (ahead := first + BLOCK_FRAMES - self.now_frame()) > 0:
                time.sleep(ahead / RATE_HZ)  # noqa: TID251
        self._next = first + BLOCK_FRAMES
        return FrameBlock(first, self.frames(first, self._next))

    def stimulate(self, pulse: Pulse) -> None:
        """Ignore a pulse: the core has none to give."""

    def cancel(self) -> None:
        """Have nothing to cancel."""

    def impedances(self) -> tuple[Impedance | None, ...]:
        """Return that none is known."""
        return (None,) * self.info.electrodes

    def measure_impedances(self) -> tuple[Impedance | None, ...]:
        """Return that none is known."""
        return self.impedances()

    def self_test(self) -> tuple[SelfCheck, ...]:
        """Return that there is nothing to test."""
        return (SelfCheck("frames", True, "they are computed"),)

    def close(self) -> None:
        """Have nothing to let go."""


@dataclass
class _Feed:
    """The thread between card and core, as in the engine."""

    card: NoiseCard
    core: Core
    service: RecordingService
    paced: bool
    stopping: bool = False
    cpu_s: float = 0.0

    def run(self) -> None:
        if self.paced:
            take_precedence()
        began_s = time.thread_time()
        while not self.stopping:
            block = self.card.read()
            self.service.tap.take(block, self.core.step(block))
            while not self.paced and self.service.tap.fill > MAX_FILL and not self.stopping:
                time.sleep(0.001)  # noqa: TID251
        self.cpu_s = time.thread_time() - began_s


def bench_recording(
    *, channels: int = 256, record_s: float = 20.0, paced: bool = True, busy: int = 0, folder: str | None = None
) -> dict[str, Any]:
    """Record, read back through SpikeInterface, and return the figures.

    Args:
        channels: Number of channels, at 25 kHz.
        record_s: Recorded time by the card's clock.
        paced: Frames come in real time; otherwise as fast as core and disk take them.
        busy: Number of processes that compute without end meanwhile.
        folder: Where the recording goes for the time of the benchmark; a temporary folder if left out.
    """
    home = Path(tempfile.mkdtemp(prefix="choroid-recording-", dir=folder))
    try:
        with _busy(busy):
            figures = asyncio.run(_record(home, channels, record_s, paced))
        recording = open_recording(home / "recordings", "bench")
        card = NoiseCard(channels, paced=False)
        return {"channels": channels, "paced": paced, "busy": busy, **figures, **_read_back(recording, card)}
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _busy(number: int) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-P", "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def _record(home: Path, channels: int, record_s: float, paced: bool) -> dict[str, Any]:
    clock = Clock(follow_system=True)
    card = NoiseCard(channels, paced=paced)
    warm_up(channels)
    core = Core(card, StimulationLedger(home / "stimulation.db", card.info, clock.utc_text()), Envelope())
    service = RecordingService(
        core, RecordingPlan(str(home / "recordings"), quota_bytes=1e12, min_free_bytes=2e9), clock
    )
    feed = _Feed(card, core, service, paced)
    thread = threading.Thread(target=feed.run, name="card")
    children_s = _children_s()
    thread.start()
    try:
        await service.start("bench", "benchmark", "benchmark")
        first, lost, began_s = core.next_frame, card.lost_frames, time.perf_counter()  # noqa: TID251
        card.latest_s = 0.0
        while core.next_frame - first < record_s * RATE_HZ:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        wall_s = time.perf_counter() - began_s  # noqa: TID251
        feed.stopping = True
        thread.join()
        feed.service.tap.close("the benchmark is over")
        await _closed(service)
    finally:
        feed.stopping = True
        thread.join()
        await service.close()
        core.close()
    return {
        "array_s": (core.next_frame - first) / RATE_HZ,
        "wall_s": wall_s,
        "lost_by_card_frames": card.lost_frames - lost,
        "lost_by_writer_frames": service.status.lost_frames - (card.lost_frames - lost),
        "longest_wait_of_a_block_ms": card.latest_s * 1e3,
        "engine_cpu_share": feed.cpu_s / wall_s,
        "writer_cpu_share": (_children_s() - children_s) / wall_s,
        "load": os.getloadavg()[0],
    }


async def _closed(service: RecordingService) -> None:
    """Wait until the writer has written all."""
    while service.status.name:  # noqa: ASYNC110
        await asyncio.sleep(0.1)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _read_back(recording: ArrayRecording, card: NoiseCard) -> dict[str, Any]:
    """Compare what SpikeInterface reads with what the card gave."""
    import spikeinterface.core as si

    read = si.read_zarr(recording.path)
    equal = 0
    for number, segment in enumerate(recording.segments):
        for begin in range(0, len(segment.traces), COMPARED_FRAMES):
            end = min(begin + COMPARED_FRAMES, len(segment.traces))
            traces = read.get_traces(segment_index=number, start_frame=begin, end_frame=end)
            given = card.frames(segment.first_frame + begin, segment.first_frame + end)
            equal += int((traces == given).all(axis=1).sum())
    frames = recording.frames
    raw = frames * card.info.electrodes * 2
    stored = sum(path.stat().st_size for path in recording.path.rglob("*") if path.is_file())
    gaps = recording.table("gaps")
    return {
        "frames": frames,
        "frames_equal_through_spikeinterface": equal,
        "frames_in_gaps": int((gaps["end_frame"] - gaps["first_frame"]).sum()),
        "raw_mb": raw / 1e6,
        "stored_mb": stored / 1e6,
        "compression": raw / stored,
        "drift_ppm": recording.clock.drift_ppm,
        "complete": recording.complete,
    }
