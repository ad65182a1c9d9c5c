"""The guard as a real process, with a puppet for a controller, against a lab on TCP: real signals, real time."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from controller.guard.wire import PLAN, SOCKET, SocketPeer, login_of, receive, send
from tests.guard.scene import Scene, scene

BASAL_S = 2.0


def disturb(made: Scene) -> None:
    """Leave the heater on and the heart fast."""
    made.plant.set_switch("relay.heater", True)
    made.lab.devices["relay"].closed[0] = True  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (signal.SIGKILL, "dead"),
        (signal.SIGSTOP, "stopped"),
        (signal.SIGUSR2, "silent"),
        (signal.SIGALRM, "silent"),
    ],
    ids=["killed", "stopped", "spinning", "sleeping"],
)
async def test_U1_basal_within_two_seconds(how: signal.Signals, why: str, tmp_path: Path) -> None:
    """An OOM kill is a SIGKILL from the kernel: it is the first of these."""
    async with scene(tmp_path) as made:
        guard, puppet = await made.own_guard()
        disturb(made)
        assert not made.plant.at_basal()
        puppet.send_signal(how)
        assert await made.basal() < BASAL_S, made.log()
        await made.until(lambda: puppet.poll() is not None, 1.0)
        assert puppet.returncode == -signal.SIGKILL
        await made.until(lambda: guard.poll() is not None, 10.0)
        assert guard.returncode == 1
        assert f"is {why}" in made.log()
        assert "done after" in made.log().splitlines()[-1]


BUSY, LOAD_S = 30, 6.0


@pytest.mark.long
@pytest.mark.needs("setpriv")
async def test_U4_a_healthy_controller_of_a_busy_machine_is_left_alone(tmp_path: Path) -> None:
    """One guard with its privileges, one without, at once; an hour of it: `choroid verify bench guard --load-for 1h`."""
    plain = ("setpriv", "--bounding-set=-sys_nice") if os.geteuid() == 0 else ()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with scene(tmp_path / "a") as first, scene(tmp_path / "b") as second:
        await first.guard()
        await second.guard(before=plain)
        assert ("not granted: first in line" in second.log()) == bool(plain) or os.geteuid() != 0
        puppets = [await each.puppet() for each in (first, second)]
        before = [each.log().count("to its basal state") for each in (first, second)]
        busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(BUSY)]
        try:
            await asyncio.sleep(LOAD_S)
        finally:
            for process in busy:
                process.kill()
                process.wait()
        for each, puppet, taken in zip((first, second), puppets, before, strict=True):
            assert puppet.poll() is None, each.log()
            assert each.log().count("to its basal state") == taken, each.log()
            puppet.send_signal(signal.SIGSTOP)
            await each.until(lambda: puppet.poll() is not None, 5.0)  # noqa: B023  (a guard that sleeps proves nothing)


async def test_an_orderly_end_leaves_nothing_to_do(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        guard, puppet = await made.own_guard()
        puppet.terminate()
        await made.until(lambda: guard.poll() is not None, 5.0)
        assert (puppet.wait(), guard.returncode) == (0, 0)
        assert made.plant.order == []


def test_the_goodbye_of_a_controller_that_left_answers_unread_is_received() -> None:
    guard, controller = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (guard, controller):
        end.setblocking(False)
    send(guard, {"beat": 1})
    send(controller, {"goodbye": True})
    controller.close()
    assert receive(guard) == [{"goodbye": True}]
    assert receive(guard) is None
    guard.close()


async def test_a_service_goes_on_and_takes_the_next_controller(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        guard = await made.guard()
        await made.until(
            lambda: "done after" in made.log(), 10.0
        )  # no controller ran: it brings the rig to rest at once
        for end in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            (await made.puppet()).send_signal(end)
            await made.until(lambda: (made.status() or {})["state"] == "at rest", 10.0)
        assert guard.poll() is None


async def test_U3_told_to_end_it_has_the_controller_bring_the_rig_to_rest(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        guard = await made.guard()
        puppet = await made.puppet()
        guard.terminate()
        await made.until(lambda: guard.poll() is not None, 5.0)
        assert (guard.returncode, puppet.wait(5)) == (0, 0)
        assert "{'end':" in made.said()


async def test_U3_told_to_end_without_a_controller_it_brings_the_rig_to_rest_itself(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        guard, puppet = await made.own_guard("blind")
        disturb(made)
        guard.send_signal(signal.SIGINT)
        puppet.kill()
        assert await made.basal() < BASAL_S + 0.5, made.log()
        await made.until(lambda: guard.poll() is not None, 5.0)
        assert "SIGINT: bringing the rig to its basal state, then exit" in made.log()


async def test_A9_an_emergency_stop_is_the_controllers_or_else_the_guards(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        await made.guard()
        puppet = await made.puppet()
        said = made.ask({"stop": "smoke", "who": "anna"}, "done")
        assert said == "the controller has stopped the rig"
        puppet.kill()
        puppet.wait()
        await made.until(lambda: (made.status() or {})["state"] == "at rest", 10.0)
        blind = await made.puppet("blind")
        disturb(made)
        said = made.ask({"stop": "smoke", "who": "anna"}, "done", seconds=3.0)
        assert said.startswith("the guard brings the rig")
        assert await made.basal() < BASAL_S
        assert blind.wait(5) == -signal.SIGKILL
        kept = (made.data / "emergency-stop.json").read_text()
        assert "anna" not in kept, "the kernel tells who it was, not the one who asks"
        assert login_of(SocketPeer(os.getpid(), os.geteuid())) in kept
        assert "smoke" in kept


async def test_A9_SIGUSR1_to_the_guard_is_an_emergency_stop(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        guard = await made.guard()
        await made.puppet()
        guard.send_signal(signal.SIGUSR1)
        await made.until(lambda: "{'stop': 'a signal to the guard'" in made.said(), 5.0)


async def test_a_second_controller_is_refused_and_a_second_guard_stands_by(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        first = await made.guard()
        await made.puppet()
        own = made.start(sys.executable, "-P", "-m", "controller.guard", str(made.data / PLAN), "--own")
        second = made.start(sys.executable, "-P", "-m", "controller.guard", str(made.data / PLAN))
        refused = made.ask({"hello": True, "plan": "", "rig": "x"}, "refused")
        assert "another controller" in refused
        await made.until(lambda: own.poll() == 3, 10.0)
        first.kill()
        first.wait()
        await made.until(lambda: (made.status() or {}).get("guard") == second.pid, 10.0)
        await made.until(lambda: (made.status() or {})["controller"] is not None, 5.0)  # the puppet has found it
        assert made.plant.order == [], "a healthy controller was left alone"


async def test_a_controller_that_hung_while_there_was_no_guard_is_ended_by_the_next_one(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        guard = await made.guard()
        puppet = await made.puppet()
        guard.kill()
        guard.wait()
        puppet.send_signal(signal.SIGSTOP)
        disturb(made)
        await made.guard()
        await made.until(made.plant.at_basal, 10.0)
        assert puppet.wait(5) == -signal.SIGKILL


async def test_a_tool_that_holds_the_journal_is_left_alive(tmp_path: Path) -> None:
    """It was never under watch: `choroid repair`, say."""
    code = "import fcntl, sys, time; f = open(sys.argv[1], 'ab'); fcntl.flock(f, fcntl.LOCK_EX); time.sleep(60)"
    async with scene(tmp_path) as made:
        tool = made.start(sys.executable, "-c", code, str(made.data / "journal.db.owner"))
        await asyncio.sleep(0.5)
        await made.guard()
        await made.until(lambda: "done after" in made.log(), 15.0)
        assert tool.poll() is None


async def test_S1_the_socket_is_its_owners_alone(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        await made.guard()
        assert stat.S_IMODE((made.data / SOCKET).stat().st_mode) == 0o600
        code = (
            "import os, sys; sys.path.insert(0, sys.argv[2])\n"
            "from pathlib import Path; from controller.guard.wire import connect\n"
            "os.setuid(65534); connect(Path(sys.argv[1]))"
        )
        if os.geteuid() == 0:
            root = str(Path(__file__).parents[2])
            tmp_path.chmod(0o755)
            done = subprocess.run([sys.executable, "-c", code, str(made.data), root], capture_output=True, text=True)
            assert "PermissionError" in done.stderr, done.stderr


def test_P1_the_name_of_a_user_needs_no_directory_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server that did not answer would have held an emergency stop up."""

    def asked(_: int) -> None:
        raise AssertionError("the name service was asked, which may wait for a server")

    monkeypatch.setattr("pwd.getpwuid", asked)
    assert login_of(SocketPeer(0, 0)) == "root"
    assert login_of(SocketPeer(0, 4_000_000)) == "user 4000000"
    monkeypatch.setattr("controller.guard.wire.USERS", tmp_path / "gone")
    assert login_of(SocketPeer(0, 0)) == "user 0"


@pytest.mark.parametrize("disk", ["full", "hangs"])
async def test_D2_a_disk_that_does_not_take_the_log_holds_nothing_up(disk: str, tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        log = made.data / "guard.log"
        if disk == "full":
            log.symlink_to("/dev/full")
        else:
            os.mkfifo(log)  # a process that opens it for writing waits for a reader, and there is none
        guard, puppet = await made.own_guard()
        disturb(made)
        puppet.kill()
        assert await made.basal() < BASAL_S
        await made.until(lambda: guard.poll() is not None, 15.0)
        assert guard.returncode == 1


async def test_hostile_visitors_do_not_disturb_the_watch(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        await made.guard()
        puppet = await made.puppet()
        for message in ({"hello": 3}, {"stop": None}, {"beat": "x"}, {}, {"status": 1}, {"hello": {"plan": [1]}}):
            made.ask(message, "x", seconds=0.05)
        await asyncio.sleep(0.5)
        assert puppet.poll() is None
        assert (made.status() or {})["controller"] == puppet.pid


def test_the_guard_is_light() -> None:
    code = (
        "import controller.guard.running, sys;"
        "print([name for name in ('numpy', 'pint', 'pydantic', 'yaml', 'fastapi', 'sqlite3') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
