"""Time until the rig is at its basal state after the loss of its controller, and false takeovers of a healthy one.

A lab on TCP in this process, a guard and a controller in their own processes; the plant reports when every output
is at its basal state. An out-of-memory kill is SIGKILL by the kernel, so `killed` represents it. Then busy
processes load the machine while the controller is healthy: each takeover is a false one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from choroid.common.child import python
from choroid.common.examples import bench_rig
from choroid.common.failure import UserError
from choroid.running.guarding import write_plan
from choroid.simulation.lab import pointing_at
from controller.guard.wire import LOG, PLAN, connect, receive, send
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from controller.safety.limits import basal_states
from drivers.commands import Level, Run, Stop, Switch
from drivers.registry import MODELS
from drivers.strict_yaml import load_yaml
from sim.lab import SimulatedLab
from sim.plant.plant import Plant
from verification.bench.guard_host import SLEEP, SPIN

CASES = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "spinning": SPIN, "sleeping": SLEEP}
ROUNDS = 3
BUSY = 30
LOAD_S = 60.0
START_S = 120.0
POLL_S = 0.01
SETTLE_S = 5.0
"""Duration of the load before a controller is lost (s)."""
ANSWER_S = 0.02
TOLERANCE = 0.01


class ToldPlant(Plant):
    """A plant that knows the last command of its devices, and whether that is the rig's basal state."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig, seed=1, now=asyncio.get_running_loop().time)
        self._basal = basal_states(rig)
        (heart,) = rig.organs.hearts.values()
        self._heart = rig.lines[heart.line].pump or ""
        self.told: dict[str, float] = {}

    def set_pump(self, point: str, flow_ul_min: float) -> None:
        """See :class:`Plant`."""
        self.told[point] = flow_ul_min
        super().set_pump(point, flow_ul_min)

    def set_switch(self, point: str, on: bool) -> None:
        """See :class:`Plant`."""
        self.told[point] = float(on)
        super().set_switch(point, on)

    def set_position(self, point: str, position: float) -> None:
        """See :class:`Plant`."""
        self.told[point] = position
        super().set_position(point, position)

    def set_gas(self, point: str, flow_ml_min: float) -> None:
        """See :class:`Plant`."""
        self.told[point] = flow_ml_min
        super().set_gas(point, flow_ml_min)

    def at_basal(self) -> bool:
        """Return whether every output is at its basal state."""
        for point, command in self._basal.items():
            match command:
                case Run(flow_ul_min=value) | Level(value=value):
                    wanted = value
                case Switch(on=on):
                    wanted = float(on)
                case Stop():
                    wanted = 0.0
                case _:
                    raise TypeError(f"{command} is no basal state")
            if abs(self.told.get(point, 0.0) - wanted) > max(TOLERANCE * wanted, 0.1):
                return False
        return True

    def at_work(self) -> bool:
        """Return whether the controller keeps the heart above its basal flow."""
        basal = self._basal[self._heart]
        return isinstance(basal, Run) and self.told.get(self._heart, 0.0) > 1.5 * basal.flow_ul_min


class _Bench:
    """Lab, guard and controller."""

    def __init__(self, folder: Path, plant: ToldPlant, lab: SimulatedLab) -> None:
        self.data = folder / "data"
        self.plant = plant
        self.lab = lab
        self._said = folder / "said.log"
        self._rig = folder / "served.yaml"
        self.processes: list[subprocess.Popen[bytes]] = []

    async def begin(self, source: Path) -> None:
        """Serve the lab and start the guard."""
        described: dict[str, Any] = load_yaml(pointing_at(source, await self.lab.serve_tcp()))
        described.pop("nerves", None)
        self._rig.write_text(yaml.safe_dump(described, sort_keys=False, allow_unicode=True), encoding="utf-8")
        self.data.mkdir()
        write_plan(load_rig(self._rig, models=MODELS), self.data)
        self._start(python("controller.guard", str(self.data / PLAN)))
        await self.until(lambda: bool(self.status()), "the guard answers")

    async def controller(self) -> subprocess.Popen[bytes]:
        """Start a controller; return when it is at work."""
        process = self._start(python("verification.bench.guard_host", str(self._rig), str(self.data)))
        watched: Callable[[], bool] = lambda: self.status().get("controller") == process.pid  # noqa: E731
        await self.until(watched, "the guard watches the controller")
        await self.until(self.plant.at_work, "the controller is at work")
        await asyncio.sleep(2.0)
        return process

    async def to_basal(self, how: int, busy: int = 0) -> float:
        """Lose a controller while `busy` processes load the machine; return the time to the basal state (s)."""
        process = await self.controller()
        with _loaded(busy):
            await asyncio.sleep(SETTLE_S if busy else 0.0)
            begun_s = _now_s()
            process.send_signal(how)
            await self.until(self.plant.at_basal, "the rig is at its basal state")
            took_s = _now_s() - begun_s
        await self.gone(process)
        return took_s

    async def gone(self, process: subprocess.Popen[bytes]) -> None:
        """End a controller."""
        process.kill()
        process.wait()
        await self.until(lambda: self.status().get("state") == "at rest", "the guard is done")

    def status(self) -> dict[str, Any]:
        """Return the guard's status; empty when it does not answer."""
        with contextlib.suppress(OSError), connect(self.data) as connection:
            send(connection, {"status": True})
            select.select([connection], [], [], ANSWER_S)  # the lab pauses meanwhile
            for message in receive(connection) or ():
                found: dict[str, Any] = message.get("status", {})
                return found
        return {}

    def takeovers(self) -> int:
        """Return how often the guard has brought the rig to its basal state."""
        return (self.data / LOG).read_text(encoding="utf-8").count("to its basal state")

    async def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait until `true()`, with a time limit."""
        until_s = _now_s() + START_S
        while not true():
            if _now_s() > until_s:
                tail = "\n".join(self._said.read_text(encoding="utf-8").splitlines()[-5:])
                raise UserError(f"it did not happen within {START_S:g} s: {what}. The processes said: {tail}")
            await asyncio.sleep(POLL_S)

    async def end(self) -> None:
        """End everything."""
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        await self.lab.close()

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        with self._said.open("ab") as said:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said)  # noqa: S603  (our own command)
        self.processes.append(process)
        return process


def bench_guard(rounds: int = ROUNDS, load_s: float = LOAD_S, busy: int = BUSY) -> dict[str, Any]:
    """Lose `rounds` controllers in each way, then load the machine with `busy` processes for `load_s`; return the
    figures.
    """
    with tempfile.TemporaryDirectory(prefix="choroid-guard-") as folder:
        with contextlib.suppress(
            OSError
        ):  # the lab stands for hardware, which no load slows down; its children are as usual
            os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        try:
            return asyncio.run(_measure(Path(folder), rounds, load_s, busy))
        finally:
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


async def _measure(folder: Path, rounds: int, load_s: float, busy: int) -> dict[str, Any]:
    rig = load_rig(bench_rig())
    plant = ToldPlant(rig)
    bench = _Bench(folder, plant, SimulatedLab(rig, seed=1, plant=plant))
    figures: dict[str, Any] = {}
    loaded_rounds = max(1, rounds // 3)
    try:
        await bench.begin(bench_rig())
        for name, how in CASES.items():
            took = [await bench.to_basal(how) for _ in range(rounds)]
            figures |= _figures(name, took)
        controller = await bench.controller()
        before = bench.takeovers()
        lost_s, due_s = 0.0, _now_s() + load_s
        with _loaded(busy):
            while _now_s() < due_s:
                await asyncio.sleep(0.5)
                lost_s = max(lost_s, bench.status().get("longest_silence_s", 0.0))
                if controller.poll() is not None:
                    break
            figures |= {
                f"load {busy}: for (s)": load_s,
                f"load {busy}: load average at the end": os.getloadavg()[0],
                f"load {busy}: false takeovers (0)": bench.takeovers() - before,
                f"load {busy}: longest time between two beats (s)": lost_s,
            }
        await bench.gone(controller)
        for name, how in CASES.items():
            figures |= _figures(f"load {busy}: {name}", [await bench.to_basal(how, busy) for _ in range(loaded_rounds)])
    finally:
        await bench.end()
    return figures


def _figures(name: str, took_s: list[float]) -> dict[str, float]:
    print(f"  {name}: {', '.join(f'{each:.2f}' for each in took_s)} s", file=sys.stderr, flush=True)
    return {f"{name}: to basal, median (s)": statistics.median(took_s), f"{name}: to basal, max (2 s)": max(took_s)}


@contextlib.contextmanager
def _loaded(busy: int) -> Iterator[None]:
    """Load the machine with processes that use a processor all the time, at the usual priority."""
    words = [*python("choroid")[:2], "-c", "while True: pass"]
    processes = [subprocess.Popen(words) for _ in range(busy)]  # noqa: S603  (our own command)
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _now_s() -> float:
    return time.monotonic()  # noqa: TID251  (real processes)
