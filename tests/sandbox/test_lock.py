"""What a locked process cannot do, and that each layer is needed for something."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from controller.sandbox.bpf import ALLOW, ARM64, KILL_PROCESS, MACHINES, REFUSE, X86_64, assemble
from controller.sandbox.errors import SandboxUnavailable
from controller.sandbox.model import SandboxedModel
from tests.sandbox.filters import verdict
from tests.sandbox.models import linear

HERE = Path(__file__).parent
FORBIDDEN = (
    "read a file",
    "write a file",
    "list files",
    "remove a file",
    "open a socket",
    "fork",
    "execute",
    "start a thread",
    "trace",
    "signal the owner",
    "raise a limit",
    "map code",
    "read another process",
)


def attempt(what: str, *layers: str) -> tuple[int, str]:
    """Return exit code and words of a process that attempts something after it has applied layers."""
    command = [sys.executable, "-I", str(HERE / "locked_attempt.py"), what, ",".join(layers)]
    done = subprocess.run(command, capture_output=True, timeout=30)
    return done.returncode, done.stdout.decode() or done.stderr.decode()[-300:]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_N11_a_locked_process_that_attempts_more_than_computing_is_killed(what: str) -> None:
    assert attempt(what, "all") == (-signal.SIGSYS, "")


def test_N11_a_locked_process_can_compute_and_answer() -> None:
    assert attempt("nothing", "all") == (0, "done")


def test_N11_a_locked_process_cannot_take_more_memory_than_its_limit() -> None:
    assert attempt("take much memory", "all") == (0, "denied: MemoryError")
    assert attempt("take much memory", "none") == (0, "done")


@pytest.mark.parametrize("what", ["fork", "execute", "start a thread", "open a socket", "map code", "raise a limit"])
def test_N11_without_the_filter_of_system_calls_the_attempts_would_work(what: str) -> None:
    assert attempt(what, "none") == (0, "done")


def test_N11_landlock_alone_denies_files() -> None:
    for what in ("read a file", "write a file", "list files", "execute"):
        assert attempt(what, "no_new_privileges", "restrict_files") == (0, "denied: PermissionError"), what
    assert attempt("read a file", "no_new_privileges") == (0, "done")


def test_N11_the_limits_alone_deny_memory_and_files_of_any_size() -> None:
    assert attempt("take much memory", "limit_resources") == (0, "denied: MemoryError")


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ("no_new_privileges", "NoNewPrivs is 0"),
        ("limit_resources", "RLIMIT_NPROC is not 0, RLIMIT_FSIZE is not 0"),
        ("restrict_files", "in spite of Landlock"),
        ("filter_calls", "Seccomp is 0"),
        ("require_one_thread", "Threads is 2"),
        ("lock", "NoNewPrivs is 0, Seccomp is 0"),
    ],
)
def test_N11_no_model_is_given_to_a_worker_that_lacks_a_layer(step: str, says: str) -> None:
    command = ("-I", str(HERE / "spoilt_worker.py"), step)
    with pytest.raises(SandboxUnavailable) as caught:
        SandboxedModel.open(linear().SerializeToString(), command=command)
    assert says in str(caught.value)


@pytest.mark.parametrize("layer", ["Landlock", "seccomp"])
def test_N11_a_kernel_without_a_layer_is_an_error_that_names_it(layer: str) -> None:
    command = ("-I", str(HERE / "old_kernel_worker.py"), layer)
    with pytest.raises(SandboxUnavailable) as caught:
        SandboxedModel.open(linear().SerializeToString(), command=command)
    assert str(caught.value).startswith(f"{layer} cannot be applied") or f"SandboxUnavailable: {layer}" in str(
        caught.value
    )
    assert "docs/sandbox.md" in str(caught.value)


def test_N11_the_filter_kills_other_machines_and_other_interfaces() -> None:
    for machine in (X86_64, ARM64):
        program = assemble(machine, 4711)
        for name, number in machine.calls.items():
            third = 6 if name == "tgkill" else 3
            assert verdict(program, machine.audit, number, 0 if name != "tgkill" else 4711, 0, third) == ALLOW, name
        allowed = set(machine.calls.values())
        for number in range(600):
            if number not in allowed:
                assert verdict(program, machine.audit, number) == KILL_PROCESS
            assert verdict(program, machine.audit ^ 1, number) == KILL_PROCESS
            assert verdict(program, machine.audit, number | 0x40000000) == KILL_PROCESS
        for name in ("mmap", "mprotect"):
            assert verdict(program, machine.audit, machine.calls[name], 0, 0, 7) == KILL_PROCESS
        assert verdict(program, machine.audit, machine.calls["tgkill"], 1, 0, 6) == KILL_PROCESS
        assert verdict(program, machine.audit, machine.calls["tgkill"], 4711, 0, 19) == KILL_PROCESS
    assert set(MACHINES) == {"x86_64", "aarch64"}


def test_P3_the_filter_of_an_event_loop_refuses_the_rest_and_kills_other_interfaces() -> None:
    for machine in (X86_64, ARM64):
        program = assemble(machine, 4711, waits=True)
        allowed = {**machine.calls, **machine.waiting}
        assert not set(machine.calls.values()) & set(machine.waiting.values())
        for name, number in allowed.items():
            first, third = (4711, 6) if name == "tgkill" else (0, 3)
            assert verdict(program, machine.audit, number, first, 0, third) == ALLOW, name
        for number in range(600):
            if number not in allowed.values():
                assert verdict(program, machine.audit, number) == REFUSE
            assert verdict(program, machine.audit ^ 1, number) == KILL_PROCESS
            assert verdict(program, machine.audit, number | 0x40000000) == KILL_PROCESS
        assert verdict(program, machine.audit, machine.calls["mmap"], 0, 0, 7) == REFUSE
        assert verdict(program, machine.audit, machine.calls["tgkill"], 1, 0, 6) == REFUSE
        assert verdict(program, machine.audit, machine.calls["tgkill"], 4711, 0, 19) == REFUSE
