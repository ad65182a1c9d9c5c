"""Fifty rigs in one controller process, over TCP to labs in another: loop lag, missed samples, CPU and memory."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from choroid.common.child import python
from choroid.common.examples import bench_rig
from choroid.common.signals import stop_on_signals
from controller.core.clock import Clock
from controller.core.discarded import Discarded
from controller.core.state import State
from controller.hazards.rest import rest_periods
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.process.outside import with_sink
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from drivers.transport.opener import open_real
from sim.lab import SimulatedLab

RIGS = 50
WARM_UP_S, FOR_S = 10.0, 60.0
LOOK_S = 0.01


class _Samples:
    """A sink that records when each reading was taken."""

    name = "samples"
    causes: Mapping[str, str] = MappingProxyType({})
    discarded: tuple[Discarded, ...] = ()

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {}

    def offer(self, state: State) -> None:
        for point, reading in state.readings.items():
            times = self.times.setdefault(point, [])
            if not times or times[-1] != reading.at_s:
                times.append(reading.at_s)


def bench_rigs(rigs: int = RIGS, for_s: float = FOR_S) -> dict[str, Any]:
    """Measure with real time and real sockets; takes `for_s` and a little more."""
    with reached_rigs(rigs) as reached, tempfile.TemporaryDirectory(prefix="choroid-rigs-") as folder:
        return asyncio.run(_watch(reached, Path(folder), for_s))


@contextmanager
def reached_rigs(count: int) -> Iterator[list[Rig]]:
    """Yield bench rigs without nerves, whose devices are simulated over TCP by another process."""
    rig = load_rig(bench_rig(), models=MODELS)
    command = python("verification.bench.rigs", str(count))
    labs = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE)  # noqa: S603  (our own module)
    assert labs.stdout is not None  # noqa: S101  (a pipe was asked for)
    try:
        ends: list[dict[str, str]] = json.loads(labs.stdout.readline())
        yield [_pointed(rig, number, of) for number, of in enumerate(ends)]
    finally:
        labs.terminate()
        labs.communicate()


def _pointed(rig: Rig, number: int, ends: dict[str, str]) -> Rig:
    devices = {name: spec.model_copy(update={"link": ends[spec.link]}) for name, spec in rig.devices.items()}
    return rig.model_copy(update={"name": f"bench-{number}", "devices": devices, "nerves": None})


async def _watch(rigs: list[Rig], folder: Path, for_s: float) -> dict[str, Any]:
    """Run the controllers of `rigs` for `for_s` after a warm-up; return the figures."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    sinks = [_Samples() for _ in rigs]
    controllers = [_controller(rig, sink, folder / rig.name) for rig, sink in zip(rigs, sinks, strict=True)]
    await asyncio.gather(*(controller.start() for controller in controllers))
    ticking = [asyncio.create_task(controller.run(stop)) for controller in controllers]
    await asyncio.sleep(WARM_UP_S)
    begin_s, begin_cpu_s = loop.time(), time.process_time()
    lags_ms = await loop_lags_ms(begin_s, for_s)
    cpu_s = time.process_time() - begin_cpu_s
    took_s = loop.time() - begin_s
    stop.set()
    await asyncio.gather(*ticking)
    samples, missed = _sampled(rigs, sinks, begin_s)
    alarms = sum(controller.alarms.raised for controller in controllers)
    requests = sum(controller.devices.transactions for controller in controllers)
    await asyncio.gather(*(controller.close() for controller in controllers))
    lags_ms.sort()
    return {
        "rigs": len(rigs),
        "seconds": round(took_s, 1),
        "lag_p50_ms": round(lags_ms[len(lags_ms) // 2], 2),
        "lag_p99_ms": round(lags_ms[len(lags_ms) * 99 // 100], 2),
        "lag_max_ms": round(lags_ms[-1], 2),
        "samples": samples,
        "samples_missed": missed,
        "alarms": alarms,
        "requests": requests,
        "cpu_pct_of_one_core": round(100 * cpu_s / took_s, 1),
        "memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def _controller(rig: Rig, sink: _Samples, data: Path) -> Controller:
    data.mkdir()
    return Controller(
        rig=rig,
        opener=open_real,
        storage=Storage(data),
        clock=Clock(follow_system=True),
        parts=(*map(with_sink, (sink,)),),
    )


async def loop_lags_ms(begin_s: float, for_s: float) -> list[float]:
    """Return by how much the loop was late (ms) at each look until `for_s` after `begin_s`."""
    loop = asyncio.get_running_loop()
    lags_ms = []
    while loop.time() - begin_s < for_s:
        due_s = loop.time() + LOOK_S
        await asyncio.sleep(LOOK_S)
        lags_ms.append(1e3 * (loop.time() - due_s))
    return lags_ms


def _sampled(rigs: list[Rig], sinks: list[_Samples], begin_s: float) -> tuple[int, int]:
    """Return the counts of samples since `begin_s` and of pauses longer than one and a half intervals."""
    samples = missed = 0
    for rig, sink in zip(rigs, sinks, strict=True):
        rest_s = rest_periods(rig)
        for point, times in sink.times.items():
            mine = [at for at in times if at >= begin_s]
            samples += len(mine)
            missed += sum(later - earlier > 1.5 * rest_s[point.partition(".")[0]] for earlier, later in pairwise(mine))
    return samples, missed


async def _labs(count: int) -> None:
    """Run the other process: `count` labs over TCP until it is ended."""
    stop = asyncio.Event()
    stop_on_signals(stop, None)
    rig = load_rig(bench_rig(), models=MODELS)
    labs = [SimulatedLab(rig, seed=number) for number in range(count)]
    print(json.dumps([await lab.serve_tcp() for lab in labs]), flush=True)
    await stop.wait()
    for lab in labs:
        await lab.close()


if __name__ == "__main__":
    asyncio.run(_labs(int(sys.argv[1])))
