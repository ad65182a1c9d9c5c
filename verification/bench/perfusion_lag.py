"""Does the electrode array delay the perfusion loop? Loop lag of a controller without and with engine and busy agent.

Devices are reached over TCP, in real time. The agent stimulates in a process of its own, as often as its lease allows.
Periods without and with the array alternate, so that other load of the machine is on both sides.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from choroid.client.nerves import AsyncNervesClient
from choroid.client.nerves_terms import PulsePhase
from choroid.common.child import python
from choroid.common.examples import bench_rig
from choroid.running.listening import EngineNerves
from choroid.running.local_agent import ENDPOINT
from controller.core.clock import Clock
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.process.outside import with_nerves
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from drivers.transport.opener import open_real
from verification.bench.rigs import loop_lags_ms, reached_rigs

PERIODS = 3
FOR_S, WARM_UP_S = 30.0, 5.0
POLL_S = 0.05
PULSE = [PulsePhase(200, -1.0), PulsePhase(200, 1.0)]
EVERY_S = 0.05


def bench_perfusion_lag(periods: int = PERIODS, for_s: float = FOR_S) -> dict[str, Any]:
    """Measure; takes about `2 * periods * for_s`. Keys carry the unit."""
    lags: dict[bool, list[float]] = {False: [], True: []}
    pulses = 0
    array = load_rig(bench_rig(), models=MODELS).nerves
    with reached_rigs(1) as (rig,):
        for number in range(2 * periods):
            busy = bool(number % 2)
            with tempfile.TemporaryDirectory(prefix="choroid-lag-") as folder:
                tried = rig.model_copy(update={"nerves": array if busy else None})
                found, delivered = asyncio.run(_period(tried, Path(folder), for_s))
            lags[busy] += found
            pulses += delivered
    figures: dict[str, Any] = {"seconds_each": periods * for_s, "pulses": pulses}
    for busy, name in ((False, "without_nerves"), (True, "with_nerves")):
        p50, p99 = np.percentile(lags[busy], [50, 99])
        figures |= {f"lag_p50_{name}_ms": round(float(p50), 2), f"lag_p99_{name}_ms": round(float(p99), 2)}
    figures["lag_p99_change_ms"] = round(figures["lag_p99_with_nerves_ms"] - figures["lag_p99_without_nerves_ms"], 2)
    return figures


async def _period(rig: Rig, folder: Path, for_s: float) -> tuple[list[float], int]:
    """Return the lags (ms) of one period, and how many pulses were delivered meanwhile."""
    nerves = EngineNerves(rig, folder, 1) if rig.nerves else None
    controller = Controller(
        rig=rig,
        opener=open_real,
        storage=Storage(folder),
        clock=Clock(follow_system=True),
        stimulator=nerves,
        parts=(with_nerves(nerves),),
    )
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    agent = None
    try:
        if nerves is not None:
            nerves.start(controller.edges)
            while nerves.engine is None:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
            command = python("verification.bench.perfusion_lag", str(folder / ENDPOINT), str(WARM_UP_S + for_s + 5.0))
            agent = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            assert agent.stdout is not None  # noqa: S101  (a pipe was asked for)
            await agent.stdout.readline()
        await asyncio.sleep(WARM_UP_S)
        found = await loop_lags_ms(loop.time(), for_s)
        delivered = 0 if agent is None else int((await agent.communicate())[0])
        return found, delivered
    finally:
        if agent is not None and agent.returncode is None:
            agent.kill()
            await agent.wait()
        stop.set()
        await ticking
        await controller.close()
        if nerves is not None:
            await nerves.close()


async def _agent(where: str, for_s: float) -> int:
    """Stimulate for some seconds; return how many pulses were delivered."""
    delivered = 0
    loop = asyncio.get_running_loop()
    async with AsyncNervesClient.from_file(where) as nerves:
        kohm = (await nerves.info()).impedance_kohm
        electrodes = [e for e, each in enumerate(kohm) if 10 < each < 2000][:4]
        lease = (await nerves.acquire_lease(electrodes, ttl_ms=2000)).lease
        print("begun", flush=True)
        end_s = loop.time() + for_s
        while loop.time() < end_s:
            await nerves.renew_lease(lease)
            answer = await nerves.stimulate(lease, electrodes[:1], PULSE, purpose="benchmark")
            delivered += sum(pulse.HasField("delivered_frame") for pulse in answer.pulses)
            await asyncio.sleep(EVERY_S)
    return delivered


if __name__ == "__main__":
    print(asyncio.run(_agent(sys.argv[1], float(sys.argv[2]))), flush=True)
