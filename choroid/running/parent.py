"""The small parent of `choroid run`: it starts a controller that was lost again, and has a guard keep basal in between.

Run as `python -P -m choroid.running.parent WORDS`, the words of `choroid`. It imports little and holds nothing of the rig,
so that it outlives what ends the controller: no memory, an abort, a suspended machine. It ends for good when a person or the
guard ends the controller in order, and when the first start is refused, because a person then reads why.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from choroid.common.parent import LINK, RESTARTED

DELAYS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Pauses (s) before the first, second, … start again; the last one repeats."""
STEADY_S = 600.0
"""After this time of life, the next loss counts as the first."""
POLL_S = 0.2
FINAL = (0, 3)
"""Exit statuses of an end in order: by a person, and by the guard (:data:`choroid.running.run.ENDED_BY_GUARD`)."""
ENDS = (signal.SIGTERM, signal.SIGINT)
PASSED_ON = (*ENDS, signal.SIGUSR1, signal.SIGALRM)
OOM_SCORE = -900
"""The kernel then takes other processes first; only root may set it."""


class Parent:
    """Keeps one controller running. `command` starts it."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._child: subprocess.Popen[bytes] | None = None
        self._reports = -1
        self._unread = b""
        self._began_s = self._next_s = 0.0
        self._losses = 0
        self._ready = False
        self._listens = False
        self._ending = False
        self._stop_due = False
        self._guard: list[str] = []
        self._guard_due = False
        self._why = ""
        self._score = _lower_oom_score()

    def run(self) -> int:
        """Run until the controller has ended for good. Return its exit status."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a terminal that closes ends no care
        watched = {*PASSED_ON, signal.SIGCHLD}
        signal.pthread_sigmask(signal.SIG_BLOCK, watched)
        while True:
            if self._child is None and _now_s() >= self._next_s:
                self._start()
            if (got := signal.sigtimedwait(watched, POLL_S)) is not None and got.si_signo != signal.SIGCHLD:
                self._obey(got.si_signo)
            self._read()
            ended = self._reap()
            if ended is None and self._child is None and self._ending:
                return 1  # nothing ran; the guard has the rig at rest
            if ended is not None and (status := self._ended(ended)) is not None:
                return status
            self._keep_basal()

    def _start(self) -> None:
        self._began_s = _now_s()
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        environment = {**os.environ, LINK: str(writing)} | ({RESTARTED: self._why} if self._why else {})
        try:
            self._child = subprocess.Popen(  # noqa: S603  (our own program, the words of this command)
                self._command,
                env=environment,
                pass_fds=(writing,),
                start_new_session=True,
                preexec_fn=self._in_child,  # noqa: PLW1509  (this process has one thread)
            )
        except (OSError, subprocess.SubprocessError, MemoryError) as error:
            os.close(reading)
            self._put_off(f"it could not be started ({error})")
        else:
            self._reports, self._unread, self._listens = reading, b"", False
        finally:
            os.close(writing)

    def _in_child(self) -> None:
        """Give the controller the signals and the memory priority that this process was started with."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*PASSED_ON, signal.SIGCHLD})
        if self._score:
            _set_oom_score(self._score)

    def _obey(self, number: int) -> None:
        """Pass a signal on. An emergency stop waits for a controller that can take it."""
        self._ending |= number in ENDS
        if number == signal.SIGUSR1 and not self._listens:
            self._stop_due = True
        elif self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child.pid, signal.SIGTERM if number == signal.SIGINT else number)

    def _read(self) -> None:
        """Read what the controller reports."""
        if self._reports < 0:
            return
        with contextlib.suppress(BlockingIOError):
            while said := os.read(self._reports, 65_536):
                self._unread += said
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            message: dict[str, Any] = json.loads(line)
            self._guard = message.get("guard", self._guard)
            self._ready |= "ready" in message
            self._listens |= "listens" in message
        if self._listens and self._stop_due and self._child is not None:
            self._stop_due = False
            os.kill(self._child.pid, signal.SIGUSR1)

    def _reap(self) -> int | None:
        """Collect every ended child, also foreign ones of a namespace. Return the controller's status once it has ended."""
        found = None
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if self._child is not None and pid == self._child.pid:
                    found = self._child.returncode = os.waitstatus_to_exitcode(status)
        return found

    def _ended(self, status: int) -> int | None:
        """Return the exit status if the controller has ended for good; else have it started again."""
        self._read()
        self._child = None
        os.close(self._reports)
        self._reports = -1
        if self._ending or status in FINAL:
            return max(status, 0) if status in FINAL else 1
        if -status in ENDS or (status > 0 and not self._ready):
            return status if status > 0 else 128 - status
        self._guard_due = bool(self._guard)
        self._put_off(f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}")
        return None

    def _put_off(self, why: str) -> None:
        """Plan the next start."""
        lived_s = _now_s() - self._began_s
        self._losses = 0 if lived_s > STEADY_S else self._losses
        pause_s = DELAYS_S[min(self._losses, len(DELAYS_S) - 1)]
        self._losses += 1
        self._next_s = _now_s() + pause_s
        self._why = f"the controller was lost after {lived_s:.0f} s: {why}"
        _say(f"{self._why}; it is started again in {pause_s:g} s")

    def _keep_basal(self) -> None:
        """Start a guard if the controller is lost: one that still runs has the lock, and the new one ends at once."""
        if not self._guard_due:
            return
        with (
            contextlib.suppress(OSError, subprocess.SubprocessError, MemoryError),
            Path(self._guard[-1]).open("ab") as log,
        ):
            subprocess.Popen(  # noqa: S603  (our own module)
                self._guard[:-1],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=self._in_child,  # noqa: PLW1509
            ).returncode = 0  # :meth:`_reap` collects it
            self._guard_due = False


def _lower_oom_score() -> str:
    """Have the kernel take other processes first when memory runs out. Return the score before; empty if not allowed."""
    with contextlib.suppress(OSError):
        before = Path("/proc/self/oom_score_adj").read_text(encoding="ascii").strip()
        _set_oom_score(str(OOM_SCORE))
        return before
    return ""


def _set_oom_score(score: str) -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(score, encoding="ascii")


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal is gone
        print(f"Choroid: {text}", file=sys.stderr, flush=True)


def _now_s() -> float:
    return time.monotonic()  # noqa: TID251  (there is no loop here)


if __name__ == "__main__":
    sys.exit(Parent([sys.executable, "-P", "-m", "choroid", *sys.argv[1:]]).run())
