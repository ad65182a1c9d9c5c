"""Guard and controller as a user starts them, and what is done to them: real processes, signals and namespaces."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from choroid.common.child import HOME, PACKAGES, python
from choroid.common.failure import UserError
from choroid.running import guarding, run
from controller.core.clock import Clock
from controller.guard.wire import SEEN
from controller.links.ownership import OWNER, holders
from drivers.transport.opener import Streams
from drivers.transport.url import LineSettings, LinkUrl
from sim.lab import SimulatedLab
from sim.serving import TcpClient
from tests.guard.plants import RIG, Watched
from tests.guard.scene import Scene, scene
from tests.processes import lives

BASAL_S = 2.0
GUARDED = ("sim:reglo", "sim:rs485", "sim:gas")
"""Links with outputs that a guard brings to rest; doses end by their pumps."""
STRAYS = ("drivers.py", "controller.py", "numpy.py", "asyncio.py", "choroid/__init__.py", "sim/__init__.py")


async def test_U1_U2_a_lost_guard_is_replaced_from_a_folder_full_of_strays(tmp_path: Path) -> None:
    """A stray drivers.py once killed the guard, and the rig ran unguarded. Then guard, and at last controller are lost."""
    folder = tmp_path / "strays"
    for stray in STRAYS:
        (folder / stray).parent.mkdir(parents=True, exist_ok=True)
        (folder / stray).write_text("raise SystemExit('a stray was imported')\n")
    async with scene(tmp_path) as made:
        words = (str(Path(sys.executable).with_name("choroid")), "run", str(made.rig), "--data", str(made.data))
        controller = made.start(*words, "--port", "0", "--no-restart", cwd=folder)
        await made.until(made.at_work, 60.0)
        assert "stray" not in made.said()
        first = (made.status() or {})["guard"]
        for how in (signal.SIGKILL, signal.SIGSTOP):
            before = (made.status() or {})["guard"]
            os.kill(before, how)
            await made.until(lambda: replaced(made, before, controller.pid), 5.0)  # noqa: B023
        await made.until(lambda: not lives(first), 10.0)
        assert controller.poll() is None
        assert not made.plant.at_basal()
        os.kill(controller.pid, signal.SIGSTOP)
        assert await made.basal() < BASAL_S, made.log()
        await made.until(lambda: controller.poll() is not None, 5.0)


def replaced(made: Scene, before: int, controller: int) -> bool:
    status = made.status()
    return status is not None and status["guard"] != before and status["controller"] == controller


async def lost(made: Scene, endpoints: dict[str, str]) -> None:
    """Let the guard open each link once and lose it: only at a first opening does it trust a pump without a number."""
    tried: set[str] = set()

    class Closing(asyncio.Protocol):
        def __init__(self, link: str) -> None:
            self.link = link

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            tried.add(self.link)
            transport.close()

    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(lambda link=link: Closing(link), "127.0.0.1", int(endpoint.rpartition(":")[2]))  # type: ignore[misc]
        for link, endpoint in endpoints.items()
    ]
    try:
        await made.until(lambda: tried == endpoints.keys(), 60.0)
    finally:
        for server in servers:
            server.close()


OWN_S = 60.0
"""Time within which the other rig's own controller cares for it; the guard itself gives the links up within 30 s."""


async def test_B4_a_guard_leaves_another_rig_at_its_addresses_to_that_rigs_own_controller(tmp_path: Path) -> None:
    """The controller is killed, its laboratory ends, and another one opens at the same ports."""
    async with scene(tmp_path) as made:
        await made.guard()
        controller = await made.controller()
        before = len(made.log())  # a guard without a controller has looked at the rig as well

        def log() -> str:
            return made.log()[before:]

        def kept() -> dict[str, dict[str, object]]:
            return json.loads((made.data / SEEN).read_text(encoding="utf-8"))  # type: ignore[no-any-return]

        await made.until(lambda: kept().get("counted", {}).keys() >= {"reglo.heart", "reglo.return"}, 20.0)
        assert kept()["devices"].keys() >= {"p_heart", "reglo", "relay", "gas_air"}
        controller.kill()
        await made.lab.close()
        await lost(made, {link: made.endpoints[link] for link in GUARDED})
        other = made.plant = Watched()
        second = SimulatedLab(RIG, seed=5, plant=other, identity="another laboratory")
        servers = [
            await asyncio.get_running_loop().create_server(
                lambda line=second.lines[link]: TcpClient(line),  # type: ignore[misc]
                "127.0.0.1",
                int(endpoint.rpartition(":")[2]),
            )
            for link, endpoint in made.endpoints.items()
        ]
        try:
            await made.until(lambda: log().count("ALARM: leaves link") == 3, 120.0)
            assert "another rig answers" in log(), log()
            assert {name: value for name, value in other.told.items() if value} == {}, "it has moved nothing"
            assert (made.status() or {})["given_up"].keys() == {made.endpoints[each] for each in GUARDED}
            made.data = tmp_path / "data of its own"
            made.data.mkdir()
            begun_s = time.monotonic()
            await made.controller()
            assert time.monotonic() - begun_s < OWN_S, made.said()
        finally:
            for server in servers:
                server.close()
            await second.close()


@pytest.mark.needs("unshare")
async def test_U3_the_guard_outlives_the_controllers_namespace(tmp_path: Path) -> None:
    """All that is in a PID namespace dies with its first process: the guard must be a service outside."""
    async with scene(tmp_path) as made:
        guard = await made.guard()
        await made.until(lambda: "done after" in made.log(), 20.0)
        outer = await made.controller(before=("unshare", "-p", "-f", "--mount-proc"))
        inner = (made.status() or {})["controller"]
        assert inner not in (None, outer.pid)
        assert (made.status() or {})["guard"] == guard.pid, "the one that runs was used, and none started inside"
        os.kill(inner, signal.SIGKILL)
        assert await made.basal() < BASAL_S, made.log()
        assert guard.poll() is None


async def test_U3_a_service_managers_signal_to_both_ends_at_rest(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        guard = await made.guard()
        controller = await made.controller()
        for process in (controller, guard):
            process.terminate()
        await made.until(lambda: guard.poll() is not None and controller.poll() is not None, 30.0)
        assert made.plant.at_basal(), made.plant.told
        assert guard.returncode == 0
        assert controller.returncode in (0, run.ENDED_BY_GUARD)


async def test_U3_A9_the_command_line_stops_the_rig_and_the_guards_end_ends_the_controller(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        guard = await made.guard()
        controller = await made.controller()
        words = python("choroid", "stop", "--data", str(made.data), "--reason", "a fire drill")
        stopped = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True)
        assert stopped.returncode == 0, stopped.stderr
        assert stopped.stdout.startswith("the controller "), stopped.stdout
        await made.until(made.plant.at_basal, 3.0)
        assert controller.poll() is None, "it lives, and holds the stop"
        guard.terminate()
        await made.until(lambda: guard.poll() is not None and controller.poll() is not None, 30.0)
        assert (guard.returncode, controller.returncode) == (0, run.ENDED_BY_GUARD)


async def test_U2_without_a_guard_there_is_no_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "READY_S", 3.0)
    broken = [sys.executable, "-c", "raise SystemExit('no guard today')"]
    monkeypatch.setattr(guarding, "python", lambda *words: broken)
    opened: list[str] = []

    async def opener(url: LinkUrl, line: LineSettings) -> Streams:
        opened.append(str(url))
        raise ConnectionRefusedError

    with pytest.raises(UserError, match="without a guard") as refused:
        await run.keep(RIG, tmp_path, "127.0.0.1", 0, opener, clock=Clock(follow_system=True))
    assert opened == []
    assert "Next:" in str(refused.value)
    assert "guard.log" in str(refused.value)
    assert holders(tmp_path / OWNER) == (), "the journal is free again"


def test_A9_a_stop_without_a_guard_says_what_else_there_is(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="SIGUSR1"):
        guarding.stop(tmp_path, reason="x")


def test_a_shadowed_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "drivers.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "choroid", "device", "list"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd="/",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "`drivers`" in done.stderr
    assert str(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr


def test_strays_in_the_working_directory_do_not_matter_to_python_m(tmp_path: Path) -> None:
    for stray in ("drivers.py", "numpy.py", "controller.py"):
        (tmp_path / stray).write_text("raise SystemExit('a stray was imported')\n")
    done = subprocess.run(
        [sys.executable, "-m", "choroid", "device", "list"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


UNSAFE = re.compile(r'sys\.executable(?!,\s*"-P")')
IN_A_UNIT_FILE = "choroid/running/services.py"
"""There the command is text, and has its -P too."""


def unsafe_starts(text: str) -> int:
    return len(UNSAFE.findall(text))


def test_every_python_that_is_started_is_started_with_the_safe_path() -> None:
    """The mechanism that finds the next one, in any package."""
    root = HOME
    found = {
        str(path.relative_to(root))
        for folder in PACKAGES
        for path in (root / folder).rglob("*.py")
        if unsafe_starts(path.read_text())
    }
    assert found == {IN_A_UNIT_FILE}
    assert "{python} -P -m choroid" in (root / IN_A_UNIT_FILE).read_text()
    assert unsafe_starts('[sys.executable, "-m", "choroid"]') == 1
    assert unsafe_starts('[\n    sys.executable,\n    "-P",\n]') == 0
