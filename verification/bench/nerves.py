"""Load of the electrode pipeline, and latency from a spike to a stimulation.

Latencies are measured by the array's clock: from the frame of the spike's trough to the frame at which the array began
the pulse; so they include everything between, also the filter's delay and the wait for the end of a block. Target:
p50 ≤ 2 ms and p99 ≤ 5 ms in process, p99 ≤ 10 ms over loopback; 1,024 channels × 20 kHz in ≤ 10 % of a core.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc.aio
import numpy as np

from choroid.client.wire import nerves_pb2 as pb
from choroid.client.wire import nerves_pb2_grpc as pb_grpc
from choroid.common.child import python
from choroid.running.card_process import CardProcess
from choroid.running.nerves_handle import LEDGER
from choroid.running.simulated_card import simulated_card
from nerves import ledger
from nerves.cards.contract import Phase
from nerves.commands import LeaseCommand
from nerves.core import Core
from nerves.detections import Spikes
from nerves.detector import LOW_DELAY, Detection, SpikeDetector, SpikeFilter, warm_up
from nerves.engine import undisturbed
from nerves.envelope import Envelope
from nerves.governor import Request
from nerves.leases import Lease
from nerves.ledger import StimulationLedger
from nerves.precedence import take_precedence
from sim.neurons.array import SAMPLE_RATE_HZ

PULSE = (Phase(100.0, -0.4), Phase(100.0, 0.4))
IN_PROCESS_S = 20.0
GATEWAY_ANSWERS = 300
GATEWAY_REQUESTS = 400
"""The bench ends after so many requests: a machine that is too busy never gives the wanted number of answers."""
APART_FRAMES = 500
"""Frames from one answered spike to the next: at most fifty answers a second, below every budget."""

TOLERANCE_FRAMES = 250
"""10 ms, the maximum of the envelope; later answers are dropped, and counted as unanswered."""


def bench_nerves() -> dict[str, Any]:
    """Run all benchmarks of the nerves; takes about a minute. Keys carry the unit."""
    figures: dict[str, Any] = {}
    for electrodes, rate_hz in ((32, 25_000), (1024, 20_000)):
        figures |= _pipeline(electrodes, rate_hz)
    figures |= _simulated_array()
    figures |= _latency("in_process", *_in_process())
    for block_frames in (25, 12, 5):
        latencies = _in_process(block_frames, electrodes=64, reflex_filter=LOW_DELAY)
        figures |= _latency(f"low_delay_blocks_of_{block_frames}", *latencies)
    figures |= _latency("gateway", *asyncio.run(_gateway()))
    return figures


def _pipeline(electrodes: int, rate_hz: int) -> dict[str, float]:
    """Measure filter and detector on 1 ms blocks of noise with spikes."""
    rng = np.random.default_rng(1)
    frames = rate_hz // 1000
    blocks = []
    for _ in range(200):
        block = rng.normal(0.0, 45.0, (frames, electrodes))
        block[rng.integers(0, frames - 8) :][:8, rng.integers(0, electrodes, 1 + electrodes // 64)] -= 500.0
        blocks.append(block.astype(np.int16))
    detector = SpikeDetector(electrodes, float(rate_hz), 0.195)
    frame = found = 0
    times = []
    for turn in range(4_000):
        began = time.perf_counter()  # noqa: TID251  (a benchmark)
        found += len(detector.process(blocks[turn % len(blocks)], frame))
        times.append(time.perf_counter() - began)  # noqa: TID251
        frame += frames
    us = np.array(times[1_000:]) * 1e6
    name = f"pipeline_{electrodes}_ch_{rate_hz // 1000}_khz"
    return {
        f"{name}_load_pct": float(us.mean()) / 10.0,
        f"{name}_block_p50_us": float(np.percentile(us, 50)),
        f"{name}_block_max_us": float(us.max()),
        f"{name}_spikes": found,
    }


def _simulated_array() -> dict[str, float]:
    """Return the cost of the simulated array and the whole core, as a share of one core in real time."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds + 1e-9

    with tempfile.TemporaryDirectory() as folder:
        array = simulated_card(electrodes=32, seed=1, clock=lambda: now[0], sleep=sleep)
        core = Core(array, StimulationLedger(Path(folder) / "ledger.db", array.info, ""), Envelope())
        generating = stepping = 0.0
        for turn in range(5_500):
            began = time.perf_counter()  # noqa: TID251
            block = array.read()
            between = time.perf_counter()  # noqa: TID251
            core.step(block)
            if turn >= 500:
                generating += between - began
                stepping += time.perf_counter() - between  # noqa: TID251
        core.close()
    return {"simulated_array_32_ch_load_pct": generating / 5.0 * 100, "core_32_ch_load_pct": stepping / 5.0 * 100}


def _in_process(
    block_frames: int = 25, *, electrodes: int = 32, reflex_filter: SpikeFilter | None = None
) -> tuple[list[float], Counter[str]]:
    """Return latencies, and unanswered spikes by reason, of a reflex in the engine, with its card in another process."""
    latencies: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        warm_up(electrodes)
        block_s = block_frames / SAMPLE_RATE_HZ
        card = {"electrodes": electrodes, "material": "Pt", "diameter_um": 30.0, "seed": 1}
        array = CardProcess({**card, "options": {"block_s": block_s}})
        stored = StimulationLedger(Path(folder) / "ledger.db", array.info, "")
        core = Core(array, stored, Envelope(), detection=Detection(reflex_filter=reflex_filter))
        leases: list[Any] = []
        asked: list[int] = []

        def reflex(spikes: Spikes, now: int) -> Sequence[Request]:
            if not leases or not len(spikes) or (asked and now - asked[-1] < APART_FRAMES):
                return []
            asked.append(int(spikes.frames[0]))
            assert isinstance(leases[0], Lease)  # noqa: S101
            electrode = len(asked) % 4
            latest = now + array.info.lead_frames + TOLERANCE_FRAMES
            return [Request("bench", leases[0].id, (electrode,), PULSE, not_after=latest, tier="engine")]

        core.reflexes.append(reflex)
        core.submit(LeaseCommand("acquire", "bench", leases.append, electrodes=(0, 1, 2, 3), ttl_s=10.0))

        def run() -> None:
            take_precedence()
            began: list[int] = []
            renew_at = 100_000
            while core.next_frame < IN_PROCESS_S * array.info.sample_rate_hz:
                block = array.read()
                core.step(block)
                began += [delivery.frame for delivery in block.deliveries if delivery.frame is not None]
                if core.next_frame >= renew_at:
                    renew_at += 100_000
                    core.submit(LeaseCommand("renew", "bench", lambda _: None, lease=leases[0].id))
            latencies.extend((frame - spike) / 25.0 for frame, spike in _paired(began, asked))

        with undisturbed():
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        core.close()
        return latencies, _unanswered(Path(folder) / "ledger.db")


def _unanswered(file: Path) -> Counter[str]:
    """Count by their reasons the requests that the ledger holds as refused or as not delivered."""
    why: Counter[str] = Counter()
    last = 0
    while records := ledger.read(file, after=last, limit=ledger.MAX_ROWS):
        last = records[-1].id
        for record in records:
            if not record.accepted:
                why[f"refused by {record.limiting}: {record.reasons[0]}"] += 1
            why.update(f"{pulse.state}: {pulse.detail}" for pulse in record.pulses if pulse.state != "delivered")
    return why


def _paired(began: list[int], asked: list[int]) -> list[tuple[int, int]]:
    """Return each pulse with the latest spike before it."""
    spikes = np.array(asked)
    return [(frame, int(spikes[np.searchsorted(spikes, frame) - 1])) for frame in began]


async def _gateway() -> tuple[list[float], Counter[str]]:
    """Return the same for a remote agent on loopback that answers each spike as soon as it receives it."""
    with tempfile.TemporaryDirectory() as folder:
        card = {"electrodes": 32, "material": "Pt", "diameter_um": 30.0, "seed": 1}
        config = {"card": card, "data_dir": folder}
        engine = await asyncio.create_subprocess_exec(
            *python("choroid.running.nerves_process"),
            "--config",
            json.dumps(config),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert engine.stdout is not None  # noqa: S101
        assert engine.stdin is not None  # noqa: S101
        said = json.loads(await engine.stdout.readline())
        token = (("authorization", f"Bearer {said['agent_token']}"),)
        try:
            async with grpc.aio.insecure_channel(said["address"]) as channel:
                stub: pb_grpc.NervesAsyncStub = pb_grpc.NervesStub(channel)
                latencies = await _answer_spikes(stub, token)
        finally:
            engine.stdin.close()
            await engine.wait()
        return latencies, _unanswered(Path(folder) / LEDGER)


async def _answer_spikes(stub: pb_grpc.NervesAsyncStub, token: tuple[tuple[str, str]]) -> list[float]:
    request = pb.AcquireLeaseRequest(electrodes=[0, 1, 2, 3], ttl_ms=10_000)
    lease = (await stub.AcquireLease(request, metadata=token)).lease
    latencies: list[float] = []
    last = asked = 0
    stream = stub.StreamSpikes(pb.StreamSpikesRequest(), metadata=token)
    async for batch in stream:
        if batch.frames[0] - last < APART_FRAMES:
            continue
        last = batch.frames[0]
        stimulation = pb.StimulateRequest(
            lease=lease,
            electrodes=[asked % 4],
            phases=[pb.Phase(duration_us=phase.duration_us, current_ua=phase.current_ua) for phase in PULSE],
            purpose="benchmark",
        )
        asked += 1
        reply = await stub.Stimulate(stimulation, metadata=token)
        if reply.accepted and reply.pulses[0].HasField("delivered_frame"):
            latencies.append((reply.pulses[0].delivered_frame - last) / 25.0)
        if asked % 20 == 0:
            await stub.RenewLease(pb.RenewLeaseRequest(lease=lease), metadata=token)
        if len(latencies) >= GATEWAY_ANSWERS or asked >= GATEWAY_REQUESTS:
            break
    stream.cancel()
    await stream.code()
    return latencies


def _latency(name: str, latencies_ms: list[float], unanswered: Counter[str]) -> dict[str, Any]:
    ms = np.array(latencies_ms or [float("nan")])
    return {
        f"spike_to_stim_{name}_p50_ms": float(np.percentile(ms, 50)),
        f"spike_to_stim_{name}_p99_ms": float(np.percentile(ms, 99)),
        f"spike_to_stim_{name}_max_ms": float(ms.max()),
        f"spike_to_stim_{name}_answers": len(ms),
        f"spike_to_stim_{name}_unanswered": unanswered.total(),
        f"spike_to_stim_{name}_unanswered_why": "; ".join(f"{count} {why}" for why, count in unanswered.most_common()),
    }
