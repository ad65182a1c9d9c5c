"""What the kernel says of a process that should be locked in."""

from __future__ import annotations

import resource
from pathlib import Path


def gaps(pid: int) -> list[str]:
    """Return which layers of the sandbox the process lacks; nothing if it is locked in."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    wanted = {"NoNewPrivs": "1", "Seccomp": "2", "Threads": "1"}
    wrong = [f"{key} is {facts.get(key)}" for key, value in wanted.items() if facts.get(key) != value]
    for limit in ("NOFILE", "NPROC", "FSIZE", "CORE"):
        if resource.prlimit(pid, getattr(resource, f"RLIMIT_{limit}")) != (0, 0):
            wrong.append(f"RLIMIT_{limit} is not 0")
    if resource.prlimit(pid, resource.RLIMIT_AS)[1] == resource.RLIM_INFINITY:
        wrong.append("RLIMIT_AS is unlimited")
    return wrong
