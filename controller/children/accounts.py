"""What the kernel says of a process: the state of its threads, and how long they waited for a processor.

Everything is best effort: where /proc is incomplete, less is known.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
HERTZ = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ThreadAccount:
    """A thread: its state as the kernel names it (R, S, D, T, …), processor time and waiting time (s)."""

    state: str
    ran_s: float
    waited_s: float


def now_s() -> float:
    """Return real time (s): a child lives in real time, whatever clock this process uses."""
    return time.monotonic()  # noqa: TID251


def threads_of(pid: int, proc: Path = PROC) -> dict[str, ThreadAccount]:
    """Return the accounts of all threads of `pid`; the main thread has the number of the process as its name.

    The calling thread counts as sleeping (S): it runs only to ask, and its waits for a processor have ended.
    """
    threads: dict[str, ThreadAccount] = {}
    caller = str(threading.get_native_id())
    with suppress(OSError):
        for folder in (proc / str(pid) / "task").iterdir():
            with suppress(OSError, ValueError, IndexError):
                stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
                words = stat.rpartition(")")[2].split()
                threads[folder.name] = ThreadAccount(
                    "S" if (folder.name, words[0]) == (caller, "R") else words[0],
                    *_schedule(folder, (int(words[11]) + int(words[12])) / HERTZ),
                )
    return threads


class ProcessorShare:
    """The share of a processor that a process uses, all its threads together (1: a whole one)."""

    def __init__(self, pid: int) -> None:
        """Begin to measure."""
        self._pid = pid
        self._at_s, self._ran_s = self._now()

    def since(self) -> float:
        """Return the share since the last call, or since the begin."""
        at_s, ran_s = self._at_s, self._ran_s
        self._at_s, self._ran_s = self._now()
        return (self._ran_s - ran_s) / max(self._at_s - at_s, 1e-9)

    def _now(self) -> tuple[float, float]:
        return now_s(), sum(thread.ran_s for thread in threads_of(self._pid).values())


def family_of(pid: int, proc: Path = PROC) -> list[int]:
    """Return `pid` and all processes below it; those that have ended have no part in it."""
    family, waiting = [pid], [pid]
    while waiting:
        with suppress(OSError):
            for thread in (proc / str(waiting.pop()) / "task").iterdir():
                with suppress(OSError, ValueError):
                    children = [int(word) for word in (thread / "children").read_text(encoding="ascii").split()]
                    family += children
                    waiting += children
    return family


def starved_s(passed_s: float, state: str, ran_s: float, waited_s: float) -> float:
    """Return how long (s) a thread was runnable without running, out of `passed_s`.

    The kernel adds a wait for a processor (`waited_s`) to its account only when the wait ends. A thread that is runnable (R)
    and neither ran nor has ended its wait is still waiting. A thread in uninterruptible sleep (D) waits for a disk or memory.
    """
    if state in ("R", "D"):
        waited_s = max(waited_s, passed_s - ran_s)
    return min(max(waited_s, 0.0), passed_s)


def max_starved_s(
    passed_s: float, before: dict[str, ThreadAccount], now: dict[str, ThreadAccount], *, disk_of: str
) -> float:
    """Return how long (s) the thread that waited longest was starved within `passed_s`.

    Args:
        passed_s: Time between the two accounts (s).
        before: The earlier accounts.
        now: The later accounts.
        disk_of: The only thread whose wait for a disk counts; empty for none.
    """
    waits = [
        starved_s(
            passed_s,
            "S" if each.state == "D" and name != disk_of else each.state,
            each.ran_s - before[name].ran_s,
            each.waited_s - before[name].waited_s,
        )
        for name, each in now.items()
        if name in before
    ]
    return max(waits, default=0.0)


def _schedule(folder: Path, ran_s: float) -> tuple[float, float]:
    """Return processor time (s) and waiting time (s); `ran_s` and 0 where the kernel keeps no account."""
    try:
        ran_ns, waited_ns = (folder / "schedstat").read_text(encoding="ascii").split()[:2]
    except (OSError, ValueError):
        return ran_s, 0.0
    return int(ran_ns) / 1e9, int(waited_ns) / 1e9
