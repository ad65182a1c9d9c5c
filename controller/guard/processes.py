"""State of a watched process as the kernel reports it, how to kill it reliably, and the guard's own priority.

Everything is best effort: where /proc is incomplete or privileges are missing, the guard goes on with less and logs that.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
from contextlib import suppress
from pathlib import Path

from controller.children.accounts import PROC, max_starved_s, threads_of
from controller.guard.liveness import Look

GONE_S = 0.5
"""Time that a killed process gets to end (s). One that waits for a disk takes longer, but cannot send anything."""
NICE = -10
GUARD_PRIORITY, WATCHED_PRIORITY = 2, 1
"""Real-time priorities: of the guard, and below it of a watched process that gets a chance to show that it is alive."""
OOM_SCORE = -1000
MCL_CURRENT, MCL_FUTURE = 1, 2


class WatchedProcess:
    """A process, held by a descriptor (pidfd), so that a reused process number is not mistaken for it."""

    def __init__(self, pid: int, *, proc: Path = PROC) -> None:
        """Hold `pid`; 0 is a process that cannot be seen from here.

        Raises:
            ProcessLookupError: there is no such process.
        """
        self.pid = pid
        self._folder = proc / str(pid)
        self._pidfd = os.pidfd_open(pid) if pid else None
        self._proc = proc
        self._threads = threads_of(pid, proc)
        self._looked_s: float | None = None
        self._hastened = False

    def close(self) -> None:
        """Release the process."""
        self.calm()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    @property
    def gone(self) -> bool:
        """Whether it has ended. Always False for a process that cannot be seen."""
        return self.ended(0.0)

    def observe(self, at_s: float, lag_s: float) -> Look:
        """Return its state at `at_s`, read `lag_s` later than planned."""
        if self.pid == 0:
            return Look(at_s, "", 0.0, lag_s)
        if self.gone:
            return Look(at_s, "X", 0.0, lag_s)
        before, self._threads = self._threads, threads_of(self.pid, self._proc)
        passed_s = 0.0 if self._looked_s is None else at_s - self._looked_s
        self._looked_s = at_s
        # Only the control loop's own wait for a disk counts: a wait of the journal's thread does not excuse a hung loop.
        main = str(self.pid)
        starved_s = max_starved_s(passed_s, before, self._threads, disk_of=main)
        state = self._threads[main].state if main in self._threads else ""
        return Look(at_s, state, starved_s, lag_s)

    def hasten(self) -> bool:
        """Give it the highest priority until :meth:`calm`. Return whether that was allowed.

        A healthy process that was only starved then sends its beat at once, and a hung one is detected as on an idle machine.
        """
        if not self._hastened:
            self._hastened = self._schedule(os.SCHED_RR | os.SCHED_RESET_ON_FORK, WATCHED_PRIORITY)
        return self._hastened

    def calm(self) -> None:
        """Restore its normal priority."""
        if self._hastened:
            self._hastened = False
            self._schedule(os.SCHED_OTHER, 0)

    def _schedule(self, policy: int, priority: int) -> bool:
        done = False
        with suppress(OSError):
            for thread in (self._folder / "task").iterdir():
                with suppress(OSError, ValueError):
                    os.sched_setscheduler(int(thread.name), policy, os.sched_param(priority))
                    done = True
        return done

    def kill(self) -> bool:
        """Kill it and wait briefly. Return whether it has ended."""
        if self._pidfd is None:
            return False
        self.hasten()  # a killed process needs a processor to end, and only then are its links free
        with suppress(OSError):  # it has ended, or belongs to another user
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        return self.ended(GONE_S)

    def ended(self, within_s: float) -> bool:
        """Wait at most `within_s` for its end. Return whether it has ended."""
        if self._pidfd is None:
            return False
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(within_s * 1000.0))


def raise_priority() -> str:
    """Raise the processor and memory priority of this process. Return what was and was not granted, for the log."""
    granted: list[str] = []
    denied: list[str] = []

    def attempt(what: str, *ways: object) -> None:
        (granted if any(callable(way) and way() for way in ways) else denied).append(what)

    attempt("first in line for the processor", _real_time, _nice)
    attempt("last to be killed for memory", lambda: set_oom_score(OOM_SCORE))
    attempt("memory locked", _lock_memory)
    text = f"granted: {', '.join(granted) or 'nothing'}"
    return f"{text}; not granted: {', '.join(denied)}" if denied else text


def set_oom_score(score: int) -> bool:
    """Set how soon the kernel kills this process when memory runs out (−1000: never). Return whether it was allowed."""
    with suppress(OSError):
        (PROC / "self" / "oom_score_adj").write_text(str(score), encoding="ascii")
        return True
    return False


def _real_time() -> bool:
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(GUARD_PRIORITY))
        return True
    return False


def _nice() -> bool:
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
        return True
    return False


def _lock_memory() -> bool:
    """Keep every page in memory: a guard that must first be read from a slow disk acts too late."""
    with suppress(OSError, AttributeError):
        allowed = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
        if not allowed and os.geteuid() != 0:
            return False  # a small allowance would make later allocations fail, which is worse
        return bool(ctypes.CDLL(None, use_errno=True).mlockall(MCL_CURRENT | MCL_FUTURE) == 0)
    return False
