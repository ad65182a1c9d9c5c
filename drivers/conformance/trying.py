"""Tools of all properties: retries, comparison with the truth, and a coroutine whose every await is observed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from drivers.commands import Command
from drivers.conformance.bench import Bench
from drivers.conformance.stage import Stage, accepted_commands
from drivers.device import Device
from drivers.errors import DeviceError


class NotApplicable(Exception):
    """The property does not apply to this driver; the text says why."""


@dataclass(frozen=True, slots=True)
class Property:
    """`meaning` completes the sentence “the driver …”."""

    meaning: str
    holds: Callable[[Bench], Coroutine[Any, Any, None]]


def expect(condition: bool, context: str) -> None:
    """Raise AssertionError with `message` unless `condition`; unlike a bare assert it works under python -O."""
    if not condition:
        raise AssertionError(context)


async def turning_on(bench: Bench) -> list[tuple[str, Command]]:
    """Return commands that turn outputs on, by point; raise NotApplicable for a driver without outputs."""
    commands = await accepted_commands(bench)
    if not commands:
        raise NotApplicable("it has no outputs")
    return commands


Work = tuple[str, Callable[[], Awaitable[object]]]


def works_of(device: Device, commands: Sequence[tuple[str, Command]]) -> list[Work]:
    """Return every possible call of a device: each reading, the next result, each status, and `commands`."""
    works: list[Work] = [(f"reading {point}", sensor.read) for point, sensor in device.sensors.items()]
    if device.results is not None:
        works.append(("fetching a result", device.results.fetch))
    works += [(f"status of {point}", actuator.status) for point, actuator in device.actuators.items()]
    for point, command in commands:
        works.append((f"{command} to {point}", partial(device.actuators[point].apply, command)))
    return works


def near_truth(stage: Stage, point: str, value: float, context: str) -> None:
    """Raise AssertionError unless `value` is the truth at `point`; `context` begins the message."""
    sense = stage.bench.senses.get(point)
    truth = stage.far.measured().get(point)
    if sense is None or truth is None:
        raise AssertionError(
            f"the bench does not say what is true at {point}, so no reading of it can be judged;"
            " name it in Bench.senses and in the far end's measured()"
        )
    expect(
        abs(value - truth) <= sense.drift or sense.near(value, truth),
        f"{context}, {point} reads {value:g} {sense.unit}; the truth is {truth:g} {sense.unit}",
    )


async def patiently(work: Callable[[], Awaitable[Any]]) -> Any:
    """Retry for the time that a driver may need to synchronise."""
    for attempt in range(12):
        try:
            return await work()
        except DeviceError:
            if attempt == 11:
                raise
            await asyncio.sleep(0.4)
    return None


async def tried(work: Awaitable[object]) -> str:
    """Await `work`; return "done", or the name of the DeviceError that it raised."""
    try:
        await work
    except DeviceError as error:
        return type(error).__name__
    return "done"


def now_s() -> float:
    """Return the loop time (s)."""
    return asyncio.get_running_loop().time()


class SteppedCoroutine:
    """A coroutine whose every await is observed: timed, and cancelled `after_s` seconds into one of them."""

    def __init__(
        self, work: Awaitable[object], cancel_at: int | None = None, after_s: float = 0.0, most: int | None = None
    ) -> None:
        self._work = work
        self._cancel_at = cancel_at
        self._after_s = after_s
        self._max_awaits = most
        """Maximum number of awaits; more raise an AssertionError."""
        self.lasted_s: list[float] = []
        """Duration of each await in loop time (s)."""
        self.longest_s = 0.0
        """Maximum time that the loop was blocked between two awaits, on the real clock (s)."""

    async def whole(self) -> object:
        """Run it to its end, in the task that awaits this."""
        return await self

    def __await__(self) -> Generator[Any, Any, object]:
        inner = self._work.__await__()
        error: BaseException | None = None
        while True:
            began = time.perf_counter()  # noqa: TID251  (only the real clock sees a call that blocks)
            try:
                future = next(inner) if error is None else inner.throw(error)
            except StopIteration as end:
                result: object = end.value
                return result
            finally:
                self.longest_s = max(self.longest_s, time.perf_counter() - began)  # noqa: TID251
            task = asyncio.current_task()
            if len(self.lasted_s) == self._cancel_at and task is not None:
                asyncio.get_running_loop().call_later(self._after_s, task.cancel)
            since_s = now_s()
            error = None
            if self._max_awaits is not None and len(self.lasted_s) >= self._max_awaits:
                error = AssertionError(
                    f"it awaits more than {self._max_awaits} times in one call: it polls without waiting"
                )
                continue
            try:
                yield future
            except BaseException as caught:
                error = caught
            self.lasted_s.append(now_s() - since_s)
