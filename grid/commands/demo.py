"""`choroid grid demo`: a whole grid on this computer, each part a process of its own, as it would be on many computers.

A hub, its page, two members, a laboratory with a simulated rig, and an agent that submits a model. The demo is the
operator who approves them. When it ends, by Ctrl-C, SIGTERM or an error, every process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from choroid.common.examples import example
from choroid.common.failure import UserError
from choroid.demo.parts import DemoParts, demo_parts
from choroid.running.data_folder import ENDPOINT
from controller.children.accounts import family_of
from controller.children.patience import ChildSilent, Patience

MEMBERS, LAB = ("member-1", "member-2"), "lab"
NERVES = "nerves.json"
"""What the electrode engine of a rig leaves when it is ready."""
CHOROID = (sys.executable, "-P", "-m", "choroid")
START_S = 600.0
"""Longest start of a part (s in which it could run): on a fresh checkout the simulator is compiled first."""
GRADED_S = 1800.0
"""Longest time until the first model is graded (s in which all parts could run)."""
POLL_S = 0.5
MAX_LOOK_S = 5.0
"""Longest time between two looks that is counted (s); a look reads logs and files."""


@dataclass(frozen=True, slots=True)
class HubOperator:
    """What the demo does as operator and as member; the grid's package has it, which the commands alone import.

    `states` returns the state of each member by name, `approve` approves one, and `ranking` returns the rows of a board as
    the member of a data folder sees it.
    """

    states: Callable[[Path], Mapping[str, str]]
    approve: Callable[[Path, str], object]
    ranking: Callable[[Path, str], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class GridDemo:
    """How the demo is started: data folder, port of the page (0: any), board, policy of the hub (None: the default)."""

    data: Path
    port: int
    board: str
    policy: Path | None = None

    @property
    def hub(self) -> Path:
        """Return the hub's data folder."""
        return self.data / "hub"

    @property
    def rig(self) -> Path:
        """Return the rig's data folder."""
        return self.data / "rig"


Story = Callable[["GridDemo", HubOperator, DemoParts], Coroutine[Any, Any, None]]
"""What a demo shows; it goes on until it is cancelled."""


def grid_demo(settings: GridDemo, operator: HubOperator, story: Story | None = None) -> None:
    """Run the demo until Ctrl-C or SIGTERM.

    Args:
        settings: How it is started.
        operator: What it does as operator and member.
        story: What it shows; by default an agent that submits a model.

    Raises:
        UserError: A part has ended or does not start; the message has its last lines.
    """
    asyncio.run(_until_stopped(settings, operator, story or _show))


@contextlib.contextmanager
def demo_folder(data: Path | None) -> Iterator[Path]:
    """Yield `data`, or a temporary folder for the time of the block."""
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
        yield data.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="choroid-grid-demo-", ignore_cleanup_errors=True) as text:
        yield Path(text)


async def _until_stopped(settings: GridDemo, operator: HubOperator, story: Story) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with demo_parts(settings.data / "logs") as parts:
        tasks = [
            asyncio.create_task(work, name=name)
            for name, work in (
                ("stop", _wait(stop)),
                ("watch", parts.watch()),
                ("work", story(settings, operator, parts)),
            )
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            say("the demo ends")


async def _show(settings: GridDemo, operator: HubOperator, parts: DemoParts) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    await start_hub(settings, parts)
    await _start_rig(settings, parts)
    address = (settings.hub / "address.txt").read_text(encoding="utf-8").strip()
    for name in MEMBERS:
        where = ("--name", name, "--data", str(settings.data / name))
        await parts.start(name, *CHOROID, "grid", "join", address, *where)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_laboratory(settings, address, operator, parts))
        for name in MEMBERS:
            await admitted(name, settings.hub, operator, parts)
        member = settings.data / MEMBERS[0]
        script = str(example("grid_agent.py"))
        await parts.start("agent", sys.executable, "-P", script, str(member), settings.board, ends=True)
        row = await graded(settings.data / MEMBERS[1], settings.board, operator, parts)
        took_s = loop.time() - start
        say(f"{settings.board}: {row['name']} is graded, score {row['published']:.4g}, {took_s:.0f} s after the start")
    await asyncio.Event().wait()


async def _laboratory(settings: GridDemo, address: str, operator: HubOperator, parts: DemoParts) -> None:
    """Join the rig to the hub as soon as its electrode engine runs."""
    await until((settings.rig / ENDPOINT).exists, "the rig", parts, "rig")
    await until((settings.rig / NERVES).exists, "the electrode engine", parts, "rig")
    tissue = ("--rig", str(settings.rig), "--organoid", "o1", "--data", str(settings.data / LAB))
    await parts.start(LAB, *CHOROID, "grid", "lab", "join", address, "--name", LAB, *tissue)
    await admitted(LAB, settings.hub, operator, parts)
    say("the laboratory offers the organoid o1")


async def start_hub(settings: GridDemo, parts: DemoParts) -> None:
    """Start hub and page, and print the address of the page."""
    address = settings.hub / "address.txt"
    address.unlink(missing_ok=True)
    more = () if settings.policy is None else ("--policy", str(settings.policy))
    ports = ("--port", "0", "--member-port", "0", "--data", str(settings.hub), "--name", "demo/log")
    await parts.start("hub", *CHOROID, "grid", "hub", "run", *ports, *more)
    await until(address.exists, "the hub", parts, "hub")
    shown = ("--data", str(settings.hub), "--port", str(settings.port))
    await parts.start("page", *CHOROID, "grid", "page", "serve", *shown)
    await until(lambda: "page: " in parts.said("page"), "the page", parts, "page")
    say(f"Open {parts.said('page').partition('page: ')[2].split()[0]} in a browser (Ctrl-C ends)")
    say(f"data and logs: {settings.data}")


async def _start_rig(settings: GridDemo, parts: DemoParts) -> None:
    for left in (settings.rig / ENDPOINT, settings.rig / NERVES):
        left.unlink(missing_ok=True)
    await parts.start("rig", *CHOROID, "demo", "--port", "0", "--speed", "1", "--data", str(settings.rig))


async def admitted(name: str, hub: Path, operator: HubOperator, parts: DemoParts) -> None:
    """Approve one of the demo's own members, and wait until it is connected."""
    await until(lambda: name in operator.states(hub), name, parts, "hub", name)
    if operator.states(hub)[name] == "pending":
        operator.approve(hub, name)
        say(f"{name} is approved")
    await until(lambda: "connected to" in parts.said(name), name, parts, "hub", name)


async def graded(member: Path, board: str, operator: HubOperator, parts: DemoParts, name: str = "") -> dict[str, Any]:
    """Wait for a graded model on the board, or the one of a name; return its row."""
    patience = patience_of(parts, parts.names, GRADED_S)
    while True:
        for row in await asyncio.to_thread(operator.ranking, member, board):
            if row["state"] == "graded" and name in ("", row["name"]):
                return row
        look(patience, f"a graded model on {board}")
        await asyncio.sleep(POLL_S)


async def done(name: str, parts: DemoParts, *words: str) -> str:
    """Run a command of Choroid to its end; return what it said. An error of it ends the demo."""
    await parts.start(name, *CHOROID, *words, ends=True)
    await parts.ended(name)
    return parts.said(name)


async def until(true: Callable[[], bool], what: str, parts: DemoParts, *names: str) -> None:
    """Wait until it is true; raise :class:`UserError` when the parts `names` could run for long without that."""
    patience = patience_of(parts, names, START_S)
    while not true():
        look(patience, what)
        await asyncio.sleep(POLL_S)


def patience_of(parts: DemoParts, names: Collection[str], limit_s: float) -> Patience:
    """Return what waits for parts as long as they could run."""

    def family() -> list[int]:
        return [os.getpid(), *(pid for name in names for pid in family_of(parts.pid(name)))]

    return Patience(family, limit_s, max_look_s=MAX_LOOK_S)


def look(patience: Patience, what: str) -> None:
    """Count the time that the parts could run. Raises :class:`UserError` when it was too long."""
    try:
        patience.update()
    except ChildSilent:
        raise UserError(
            f"{what} could run for {patience.limit_s:g} s and is not there. Likely cause: it waits for a disk or a network"
            " that hangs. Next: see the logs, or try again"
        ) from None


async def _wait(stop: asyncio.Event) -> None:
    await stop.wait()


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)
