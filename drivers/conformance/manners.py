"""Properties of a driver as part of its process: one clock, no threads, no leaks, and an end to every wait.

The ids in brackets are those of docs/behaviours.md (C3, R1 to R4).
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import sysconfig
import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from drivers.commands import Command, Dispense, Stop
from drivers.conformance.bench import Bench
from drivers.conformance.stage import SETTLE_S, accepted_commands, on_stage
from drivers.conformance.trying import expect, now_s, works_of
from drivers.device import Device
from drivers.errors import DeviceError

MAX_SILENT_S = 6.0
"""Maximum time until a call to a silent device fails (s): a stop that was not received has been retried by then."""
MAX_ENDED_S = 60.0
WARM_POLLS, POLLS = 20, 70
GROWTH_BYTES = 4096
_STDLIB = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))
_KIT = str(Path(__file__).resolve().parent)
_DIRECT = frozenset(
    {
        "time",
        "time_ns",
        "monotonic",
        "monotonic_ns",
        "perf_counter",
        "perf_counter_ns",
        "sleep",
        "now",
        "utcnow",
        "today",
    }
)
"""Clocks and sleeps other than the loop's, by the name of their C function."""
_INDIRECT = frozenset(
    {"start_new_thread", "start_joinable_thread", "fork", "fork_exec", "urandom", "random", "getrandbits"}
)
"""Threads, processes and randomness, whichever module of the standard library provides them."""


async def gives_up_in_time(bench: Bench) -> None:
    """Check that every call to a silent device fails in time with a DeviceError; none hangs or invents an answer
    (C3).
    """
    commands = await accepted_commands(bench)
    async with on_stage(bench) as stage:
        works = works_of(stage.device, [*commands, *((point, Stop()) for point in stage.device.actuators)])
        for name, work in works:
            expect(await stage.recovered(), f"before {name}: it is not verified again after silence")
            for each in stage.device.sensors.values():
                await each.read()
            await asyncio.sleep(SETTLE_S)
            stage.requests = lambda data: None
            since_s = now_s()
            try:
                async with asyncio.timeout(MAX_ENDED_S):
                    value = await work()
            except DeviceError:
                pass
            except TimeoutError as error:
                raise AssertionError(f"{name}: the device is silent, and the call has not ended after 60 s") from error
            except Exception as error:
                raise AssertionError(
                    f"{name}: the device is silent, and it raises {error!r}, no DeviceError"
                ) from error
            else:
                raise AssertionError(f"{name}: the device is silent, and the call ends without an error ({value!r})")
            lasted_s = now_s() - since_s
            expect(
                lasted_s <= MAX_SILENT_S,
                f"{name}: the device is silent, and the bus is kept for {lasted_s:.1f} s; {MAX_SILENT_S:g} s are the most",
            )
            stage.let_all_pass()


async def leaves_nothing_behind(bench: Bench) -> None:
    """Check that after use and closing no task, thread or descriptor is left, and that polls do not leak memory
    (R3, R4).
    """
    commands = await accepted_commands(bench)
    tasks, threads, descriptors = asyncio.all_tasks(), set(threading.enumerate()), _descriptors()
    async with on_stage(bench) as stage:
        device = stage.device
        await _use_twice(device, commands)
        works = works_of(device, [])
        grown = 0
        with _traced():
            for number in range(POLLS):
                stage.peer.sent.clear()
                if number == WARM_POLLS:
                    stage.link.capture.forget()
                    grown = _traced_bytes()
                await asyncio.sleep(SETTLE_S)
                for _, work in works:
                    await work()
            stage.link.capture.forget()
            grown = _traced_bytes() - grown
        await device.close()
    await asyncio.sleep(0)
    left = [str(task.get_coro()) for task in asyncio.all_tasks() - tasks if not task.done()]
    expect(not left, f"closed, it leaves {len(left)} task{'s' * (len(left) != 1)} behind: {'; '.join(left)[:200]}")
    alive = [thread.name for thread in threading.enumerate() if thread not in threads]
    expect(not alive, f"closed, it leaves threads behind: {', '.join(alive)}")
    open_now = _descriptors() - descriptors
    expect(not open_now, f"closed, it leaves {len(open_now)} open file descriptors behind")
    most = GROWTH_BYTES + 16 * len(works) * (POLLS - WARM_POLLS)
    expect(grown <= most, f"{POLLS - WARM_POLLS} polls made its memory grow by {grown} bytes")


async def _use_twice(device: Device, commands: Sequence[tuple[str, Command]]) -> None:
    """Execute every command, read back and stop its output, and verify the device; twice."""
    for number in range(2):
        for point, command in commands:
            again = (
                Dispense(command.volume_ul, command.flow_ul_min, f"{number}")
                if isinstance(command, Dispense)
                else command
            )
            await device.actuators[point].apply(again)
            await device.actuators[point].status()
            await device.actuators[point].apply(Stop())
        await device.verify()


async def lives_by_the_loop(bench: Bench) -> None:
    """Check that only the loop's clock and sleep are used, and neither threads, processes nor randomness (R2)."""
    commands = await accepted_commands(bench)
    async with on_stage(bench) as stage:
        works = [("verify", stage.device.verify), *works_of(stage.device, commands), ("close", stage.device.close)]
        for name, work in works:
            with _watched() as seen:
                await work()
            for actuator in stage.device.actuators.values():
                await actuator.apply(Stop())
            await asyncio.sleep(SETTLE_S)
            expect(not seen, f"{name} calls {seen[0] if seen else ''}, which is not the loop's")


@contextmanager
def _watched() -> Iterator[list[str]]:
    """Collect each call of a forbidden C function by code outside of the standard library and this kit."""
    seen: list[str] = []

    def profile(frame: FrameType, event: str, function: Any) -> None:
        if event != "c_call":
            return
        name = getattr(function, "__name__", "")
        module = getattr(function, "__module__", None)
        if name in _DIRECT and module in ("time", None) and _owner_matters(name, function):
            caller: FrameType | None = frame
        elif name in _INDIRECT:
            caller = frame
            while (
                caller is not None
                and caller.f_code.co_filename.startswith(_STDLIB)
                and "site-packages" not in (caller.f_code.co_filename)
            ):
                caller = caller.f_back
        else:
            return
        if caller is not None and not _of_kit(caller.f_code.co_filename):
            seen.append(f"{module or 'datetime'}.{name} in {Path(caller.f_code.co_filename).name}:{caller.f_lineno}")

    before, callbacks = sys.getprofile(), gc.callbacks[:]
    gc.callbacks.clear()  # a collection may run at any time, and its callbacks are no part of the driver
    sys.setprofile(profile)
    try:
        yield seen
    finally:
        sys.setprofile(before)
        gc.callbacks[:] = callbacks


def _owner_matters(name: str, function: Any) -> bool:
    """Return whether a C function of this name is a clock only for some owners: of the module `time`, or of a date."""
    owner = getattr(function, "__self__", None)
    return (
        getattr(owner, "__name__", "") in ("time", "datetime", "date") if name in ("now", "utcnow", "today") else True
    )


def _of_kit(file: str) -> bool:
    """Return whether code belongs to the kit, the standard library or the loop, not to a driver."""
    path = Path(file)
    return (
        (file.startswith(_STDLIB) and "site-packages" not in file)
        or str(path.parent) == _KIT
        or path.name == "virtual_time.py"
    )


def _descriptors() -> set[str]:
    """Return the open file descriptors of this process, where the system lists them."""
    try:
        return set(os.listdir("/proc/self/fd"))
    except OSError:
        return set()


@contextmanager
def _traced() -> Iterator[None]:
    was = tracemalloc.is_tracing()
    if not was:
        tracemalloc.start()
    try:
        yield
    finally:
        if not was:
            tracemalloc.stop()


def _traced_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
