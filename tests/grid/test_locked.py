"""G4: what a rank that is locked in cannot reach, and what it needs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.sandbox.bpf import ALLOW, ARM64, MACHINES, REFUSE, UNKNOWN, X86_64, assemble_refusing
from controller.sandbox.refused import KNOWN_CALLS, TABLES, refused_calls
from tests.sandbox.filters import verdict

HERE = Path(__file__).parent
ATTEMPTS = HERE / "locked_attempts.py"
NEEDED = {"threads", "TCP and an event loop", "processes", "interfaces", "signal to itself", "own limits", "names"}
NEEDS_ROOT = {"packets"}


def locked(folder: Path, words: list[str], lifeline: int) -> subprocess.Popen[bytes]:
    """Start a program of this Python as a rank is started."""
    own = Path(sys.executable)
    request: dict[str, Any] = {
        "readable": [str(HERE)],
        "writable": [str(folder)],
        "runnable": sorted({str(own.parent.parent), str(own.resolve().parent.parent), "/usr/lib", "/usr/bin"}),
        "file_bytes": 1 << 30,
        "cpu_s": 100,
        "words": [str(own), "-B", "-P", *words],
        "environment": {"PATH": "/usr/bin:/bin"},
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "grid.jobs.locked", str(lifeline), json.dumps(request)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        pass_fds=(lifeline,),
        start_new_session=True,
    )


@pytest.fixture
def outcomes(tmp_path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """What came of all attempts: not locked in, and locked in."""
    folder, owned = tmp_path / "rank", tmp_path / "owned"
    folder.mkdir()
    owned.write_text("of the user")
    with (
        socket.socket(socket.AF_UNIX) as service,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram,
    ):
        service.bind(str(tmp_path / "service"))
        service.listen()
        datagram.bind(str(tmp_path / "datagram"))
        words = [str(ATTEMPTS), str(tmp_path / "service"), str(tmp_path / "datagram"), str(os.getpid()), str(owned)]
        free = subprocess.run([sys.executable, "-P", *words], capture_output=True, check=True)
        lifeline, own = os.pipe()
        process = locked(folder, words, lifeline)
        os.close(lifeline)
        said, _ = process.communicate()
        os.close(own)
        assert process.returncode == 0
    assert owned.stat().st_mode & 0o777 == 0o700, "the control has done it"
    return json.loads(free.stdout), json.loads(said)


def test_G4_a_locked_rank_reaches_no_service_of_the_user_and_no_way_around_landlock(
    outcomes: tuple[dict[str, str], dict[str, str]],
) -> None:
    free, held = outcomes
    forbidden = held.keys() - NEEDED
    assert {name: held[name] for name in NEEDED} == dict.fromkeys(NEEDED, "done")
    assert {name for name in forbidden if held[name] == "done"} == set()
    unprivileged = NEEDS_ROOT if os.geteuid() else set()
    assert {name for name in forbidden - unprivileged if free[name] != "done"} == set(), "without the lock each works"


def test_G4_the_processes_that_a_rank_has_started_end_with_its_owner(tmp_path: Path) -> None:
    program = tmp_path / "rank"
    program.mkdir()
    text = "import os, time\nif os.fork():\n    print(os.getpid(), flush=True)\ntime.sleep(1e6)"
    lifeline, own = os.pipe()
    with locked(program, ["-c", text], lifeline) as process:
        os.close(lifeline)
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        os.close(own)
        process.wait()
        assert process.stdout.read() == b"", "the child has the pipe open until it dies as well"


def test_G4_the_list_of_refused_calls_decides_by_arguments_on_both_machines() -> None:
    pid, netlink = 4711, 16
    for machine, (refused, chosen) in zip((X86_64, ARM64), TABLES.values(), strict=True):
        program = assemble_refusing(machine, refused_calls(machine, pid), KNOWN_CALLS)

        def of(
            name: str, *arguments: int, program: bytes = program, chosen: Any = chosen, machine: Any = machine
        ) -> int:
            return verdict(program, machine.audit, chosen[name], *arguments)

        listed = {*refused.values(), *chosen.values()}
        assert len(listed) == len(refused) + len(chosen)
        for number in range(KNOWN_CALLS + 50):
            if number in refused.values():
                assert verdict(program, machine.audit, number) == REFUSE
            elif number >= KNOWN_CALLS:
                assert verdict(program, machine.audit, number) == UNKNOWN
            elif number not in listed:
                assert verdict(program, machine.audit, number) == ALLOW
        assert [of("socket", family) for family in (1, 2, 10, netlink, 17, 40)] == [
            REFUSE, ALLOW, ALLOW, ALLOW, REFUSE, REFUSE,
        ]  # fmt: skip
        assert of("socket", netlink, 3, 4) == REFUSE
        assert [of("socketpair", 1, kind | 0o2000000) for kind in (1, 2, 5)] == [ALLOW, REFUSE, REFUSE]
        assert [of("fcntl", 5, command) for command in (1, 8, 10, 15, 1024)] == [ALLOW, REFUSE, REFUSE, REFUSE, REFUSE]
        assert [of("ioctl", 5, command) for command in (0x541B, 0x5412, 0x8901)] == [ALLOW, REFUSE, REFUSE]
        assert [of("clone", flags) for flags in (0x11, 0x1000_0011)] == [ALLOW, REFUSE]
        assert of("clone3") == UNKNOWN
        for name in ("kill", "tgkill", "prlimit64"):
            assert [of(name, who) for who in (pid, 0, pid + 1)] == [ALLOW, ALLOW, REFUSE]
    assert set(TABLES) == set(MACHINES)
