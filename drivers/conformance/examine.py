"""Try properties on benches, each on its own loop, and collect the verdicts. A call that hangs, blocks or spins is ended."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from drivers.conformance.bench import Bench
from drivers.conformance.properties import PROPERTIES
from drivers.conformance.trying import NotApplicable, Property

REPEAT_S = 0.5
"""Interval at which the alarm is repeated for a driver that swallows it (s)."""


class GaveUp(BaseException):
    """The trial has lasted too long; not an Exception, so that a driver which swallows those does not swallow this."""


@contextmanager
def _watchdog(max_s: float) -> Iterator[None]:
    """Raise :class:`GaveUp` in the running code when the block has not ended after `max_s` seconds of real time.

    Works only in the main thread of a system with interval timers; elsewhere the block runs without a limit.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    rung: list[float] = []
    text = f"it has not ended after {max_s:g} s of real time: it hangs, blocks or spins"

    def ring(*_: object) -> NoReturn:
        rung.append(max_s)
        if (loop := asyncio._get_running_loop()) is not None:
            loop.stop()  # an exception within a callback ends only that callback
        raise GaveUp(text)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max_s, REPEAT_S)
    try:
        yield
    except Exception as error:
        if rung:
            raise GaveUp(text) from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


Runner = Callable[[Coroutine[Any, Any, None]], object]
"""Runs one coroutine to its end on a new loop: asyncio.run, or a virtual-time loop."""


@dataclass(frozen=True, slots=True)
class PropertyVerdict:
    """Holds the verdict for one driver and one property; `told` has the reason unless it simply passed."""

    model: str
    property: str
    outcome: Literal["pass", "fail", "n/a"]
    told: str = ""


MAX_REAL_S = 120.0
"""A property on one driver takes about a second; a hanging driver is aborted after this real time (s)."""
MAX_LOOP_S = 200_000.0
"""The same in loop time (s)."""


def examine(
    bench: Bench, run: Runner, properties: Mapping[str, Property] = PROPERTIES, *, max_s: float = MAX_REAL_S
) -> list[PropertyVerdict]:
    """Examine one driver: try every property on its bench.

    Args:
        bench: The driver with its far end.
        run: Runs the examination of one property to its end, on a loop of its own.
        properties: What is examined, by name.
        max_s: Longest real time for one property (s). One that has not ended by then fails, and the next one is tried.

    Returns:
        A verdict for each property. Any exception of the driver is a failure of the driver.
    """
    return [_verdict(bench, name, one, run, max_s) for name, one in properties.items()]


def _verdict(bench: Bench, name: str, one: Property, run: Runner, max_s: float) -> PropertyVerdict:
    async def bounded() -> None:
        async with asyncio.timeout(MAX_LOOP_S):
            await one.holds(bench)

    try:
        with _watchdog(max_s):
            run(bounded())
    except NotApplicable as why:
        return PropertyVerdict(bench.model, name, "n/a", str(why))
    except (Exception, GaveUp) as error:  # an assertion of the kit, or any exception that the driver did not handle
        told = str(error) if isinstance(error, AssertionError | GaveUp) else f"{type(error).__name__}: {error}"
        return PropertyVerdict(bench.model, name, "fail", told)
    return PropertyVerdict(bench.model, name, "pass")
