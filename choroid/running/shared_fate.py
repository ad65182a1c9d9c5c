"""What would end controller and guard together, so that neither starts care again: found at the start, as alarms."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from choroid.running.parent_link import ParentLink
from controller.rig.description import Rig

MACHINE = "pid:[4026531836]"
"""The machine's own PID namespace, as the kernel names it."""
LOOPBACK = ("tcp://127.", "tcp://localhost", "tcp://[::1]", "sim:")
SERVICE = "Next: `choroid service install` (docs/safety.md)"


def shared_fates(
    rig: Rig, link: ParentLink, *, guard: int, service: bool, managed: bool, proc: Path = Path("/proc")
) -> dict[tuple[str, str], str]:
    """Return the warnings as notices: detail by (alarm kind, source).

    Args:
        rig: The rig.
        link: The link to the process that starts this one again.
        guard: Process number of the guard.
        service: Whether the guard is a service of its own.
        managed: Whether a service manager started this process.
        proc: The folder of the kernel's processes.
    """
    found: dict[tuple[str, str], str] = {}
    own, other = proc / "self", proc / str(guard)
    if 1 in (os.getpid(), os.getppid() if link.exists else 0) and not managed:
        found["restart_unsure", "process 1"] = (
            "`choroid run` is process 1 of a container or namespace: its end ends everything in it. Next: have the"
            " container started again by itself, and run `choroid guard` outside it"
        )
    space = _link(own / "ns" / "pid")
    if space and space != MACHINE and space == _link(other / "ns" / "pid"):
        found["restart_unsure", "namespace"] = (
            "controller and guard are in one container or namespace, and its end ends both. Next: run `choroid guard` outside"
        )
    if (limited := _memory_limit(own)) and limited == _memory_limit(other):
        found["restart_unsure", "memory"] = (
            f"controller and guard share the memory limit of {limited}, and the kernel may end both. {SERVICE}"
        )
    if not service and not managed and not all(each.link.startswith(LOOPBACK) for each in rig.devices.values()):
        found["restart_unsure", "service"] = (
            f"no service starts this rig again after a restart of the computer. {SERVICE}"
        )
    if not link.exists and not managed:
        found["restart_unsure", "parent"] = "nothing starts this controller again when it is lost (--no-restart)"
    return found


def _link(path: Path) -> str:
    with suppress(OSError):
        return os.readlink(path)
    return ""


def _memory_limit(process: Path, groups: Path = Path("/sys/fs/cgroup")) -> str:
    """Return the innermost control group of a process that limits its memory; empty if none can be seen."""
    with suppress(OSError):
        for line in (process / "cgroup").read_text(encoding="utf-8").splitlines():
            if not line.startswith("0::"):
                continue
            group = groups / line[4:].strip()
            for folder in (group, *group.parents):
                limit = folder / "memory.max"
                if limit.exists() and limit.read_text(encoding="ascii").strip() != "max":
                    return str(folder)
                if folder == groups:
                    break
    return ""
