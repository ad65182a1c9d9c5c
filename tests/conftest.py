"""How coroutine tests run: on a real or a virtual loop, and never leaving a task behind (R3)."""

from __future__ import annotations

import asyncio
import gc
import inspect
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Coroutine, Generator, Iterator
from importlib.util import find_spec
from multiprocessing import resource_tracker
from typing import Any

import pytest
from hypothesis import Phase, settings

from tests.compiling import begin
from tests.processes import lives

settings.register_profile(
    "mutants", derandomize=True, deadline=None, database=None, phases=(Phase.explicit, Phase.generate)
)
"""For `make mutate`: the same examples for every mutant, and no time spent on a smaller example of a failure."""
settings.register_profile("suite", settings(), deadline=None)
settings.load_profile("suite")
"""An example has no time limit of its own: a busy machine would fail it. `--hypothesis-profile` still chooses another one."""

# Tests start programs as users do: with the bytecode of the last start. Where the environment forbids that, as in many
# containers, each of some hundred processes would compile all of Choroid for itself (a second).
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


_compilers: list[subprocess.Popen[bytes]] = []


def pytest_configure(config: pytest.Config) -> None:
    """Begin to compile plant and electrode engine before several processes collect the tests."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        _compilers.extend(begin())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished() -> None:
    """Give no test to any process before all is compiled."""
    for compiler in _compilers:
        if compiler.wait():
            pytest.exit(f"{compiler.args!r} failed; what it said is above")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector away from what the collection makes: it is some million objects that live to the end.

    A full collection would search them each time, for a second and more, in the middle of any test.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.unfreeze = _stay_frozen
        gc.set_threshold(YOUNG)


BEGUN_FIRST = ("tests/tools/test_probe_real.py",)
"""Files of one long test that would otherwise begin last: then all other processes have nothing left to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of those files first."""
    items.sort(key=lambda item: not item.nodeid.startswith(BEGUN_FIRST))


YOUNG = 10_000
"""So many new objects are searched at a time; Python's own 700 take a twentieth of the time of simulations in the suite."""
THAWED_EACH = 50
_unfreeze, _thaws = gc.unfreeze, itertools.count(1)


def _stay_frozen() -> None:
    """In the place of `gc.unfreeze`, which simulations and trials call at their end: thaw only each so many times.

    What is frozen meanwhile is garbage of few tests, and is collected then.
    """
    if next(_thaws) % THAWED_EACH == 0:
        _unfreeze()
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def _tracker_lives() -> Iterator[None]:
    """Name the test that ends multiprocessing's resource tracker; without this check a later test fails for it."""
    tracker: int = getattr(resource_tracker._resource_tracker, "_pid", None) or 0
    lived = lives(tracker)
    yield
    if lived and not lives(tracker):
        pytest.fail("the test has ended multiprocessing's resource tracker, a child of this process that others need")


@pytest.fixture(autouse=True)
def _process_stays_as_it_was() -> Iterator[None]:
    """Name the test that changes priority, processors or scheduling of this process, which all later tests share."""
    before = _speed()
    yield
    after = _speed()
    if after != before:
        os.sched_setaffinity(0, before[1])
        pytest.fail(f"the test has changed priority, processors or scheduling of this process: {before}, then {after}")


def _speed() -> tuple[int, set[int], int, float]:
    return (
        os.getpriority(os.PRIO_PROCESS, 0),
        os.sched_getaffinity(0),
        os.sched_getscheduler(0),
        sys.getswitchinterval(),
    )


LONGEST_S = 120.0
TURNS_TO_END = 4
"""Turns of the loop in which a task that was cancelled comes to its end; one of aiomqtt is cancelled by a callback."""
GRPC_ENDS_WITHIN_S = 5.0
"""Time in which gRPC ends the tasks of a closed call; a thread of its own reports the end to the loop."""


def _other_tasks() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not task.done()]


async def _no_task_left(coroutine: Coroutine[Any, Any, None]) -> None:
    await coroutine
    for _ in range(TURNS_TO_END):
        await asyncio.sleep(0)
    # gRPC's own tasks run compiled coroutines, which inspect does not take for coroutines.
    if of_grpc := [task for task in _other_tasks() if not inspect.iscoroutine(task.get_coro())]:
        await asyncio.wait(of_grpc, timeout=GRPC_ENDS_WITHIN_S)
    left = _other_tasks()
    if left:
        names = ", ".join(repr(task.get_coro()) for task in left)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        pytest.fail(f"{len(left)} task(s) still pending at the end of the test (R3): {names}")


async def _bounded(coroutine: Coroutine[Any, Any, None], longest_s: float) -> None:
    """Give up after `longest_s`; in this task, since wait_for()'s own would count as left behind."""
    async with asyncio.timeout(longest_s):
        await coroutine


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests; with the mark `virtual_time` on the virtual-time loop, with `scaled_time` on the demo's."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    coroutine = _no_task_left(pyfuncitem.obj(**arguments))
    if pyfuncitem.get_closest_marker("virtual_time"):
        from sim.virtual_time import run_virtual

        run_virtual(coroutine)
        return True
    within = pyfuncitem.get_closest_marker("within_s")
    longest_s = within.args[0] if within else LONGEST_S
    if scaled := pyfuncitem.get_closest_marker("scaled_time"):
        from sim.virtual_time import run_scaled

        (speed,) = scaled.args
        run_scaled(_bounded(coroutine, longest_s * speed), speed)
    else:
        asyncio.run(_bounded(coroutine, longest_s))
    return True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that needs a real program or module fails under CI when it is missing, and says how to get it."""
    for mark in item.iter_markers("needs"):
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
        if not any(shutil.which(program, path=path) for program in mark.args):
            _missing(f"{' or '.join(mark.args)} is not installed; on Debian: apt-get install {mark.args[0]}")
    for mark in item.iter_markers("needs_module"):
        module, extra = mark.args
        if find_spec(module) is None:
            _missing(f"{module} is not installed; pip install --constraint constraints.txt '.[{extra}]'")


def _missing(message: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
