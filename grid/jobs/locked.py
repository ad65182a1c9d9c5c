"""Lock this process in, and become the process of a rank: `python -m grid.jobs.locked LIFELINE REQUEST`.

Of files it keeps the training environment, the code and data of its job for reading, and the folder of its rank for writing.
TCP stays open: it is how ranks reach each other, and the kernel can close ports here, but not addresses. Sockets of other
services of this machine, other processes, and ways around the restriction of files are closed.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

from controller.sandbox.errors import SandboxUnavailable
from controller.sandbox.lock import (
    die_with_the_owner,
    no_new_privileges,
    refuse_calls,
    require_one_thread,
    restrict_files,
)

SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/hosts")
SYSTEM_MORE = (
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/localtime",
    "/dev/urandom",
    "/dev/fd",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/sys/vm",
    "/proc/net",
    "/sys/bus",
    "/sys/class/net",
    "/sys/devices",
)
NULL = "/dev/null"
MAX_OPEN = 4096
UNLOCKABLE = 78
"""Exit status when the process cannot be locked in (EX_CONFIG)."""


def main() -> None:
    """Lock, and execute."""
    request = json.loads(sys.argv[2])
    die_with_the_owner(int(sys.argv[1]), group=True)
    try:
        require_one_thread()
        no_new_privileges()
        os.nice(10)  # what else runs on this machine goes first
        Path("/proc/self/oom_score_adj").write_text("1000")
        limits = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_NOFILE: MAX_OPEN,
            resource.RLIMIT_FSIZE: request["file_bytes"],
            resource.RLIMIT_CPU: request["cpu_s"],
        }
        for what, limit in limits.items():
            hard = resource.getrlimit(what)[1]
            least = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(what, (least, least))
        restrict_files(
            _there(*SYSTEM_MORE, *request["readable"]),
            writable=_there(NULL, *request["writable"]),
            runnable=_there(*SYSTEM, *request["runnable"]),
            network=True,
        )
        refuse_calls()
    except (SandboxUnavailable, OSError, ValueError) as error:
        print(f"the rank cannot be locked in: {error}", file=sys.stderr, flush=True)
        sys.exit(UNLOCKABLE)
    os.chdir(request["writable"][0])
    os.execve(request["words"][0], request["words"], request["environment"])  # noqa: S606  (the training environment's Python)


def _there(*paths: str) -> list[Path]:
    return [path for path in map(Path, paths) if path.exists()]


if __name__ == "__main__":
    main()
