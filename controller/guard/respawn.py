"""Restart of a lost controller where no service manager does it (`choroid run --restart-controller`).

There are never two: a new controller finds the journal's lock, and the guard starts one only while none is under watch. A
controller that fails repeatedly is not started again after a number of times; the rig stays at its basal state.
"""

from __future__ import annotations

import subprocess
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from controller.guard.processes import OOM_SCORE, set_oom_score
from controller.guard.wire import Message

DELAYS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Delay (s) before the first, second, … start of the controller."""
MAX_STARTS = 10
WITHIN_S = 3600.0
"""Maximum number of starts within this time (s)."""
COMES_S = 60.0
"""Maximum time (s) between the start of a controller and its connection."""
LOG = "controller.log"


class Respawner:
    """Remembers how the controller was started, and when to start it again."""

    def __init__(self, data: Path, tell: Callable[[str], None]) -> None:
        self._log = data / LOG
        self._tell = tell
        self._command: list[str] = []
        self._folder = ""
        self._next_s: float | None = None
        self._starts: deque[float] = deque()
        self._process: subprocess.Popen[bytes] | None = None

    def came(self, now_s: float, hello: Message) -> None:
        """Note that a controller has connected; its `hello` has a command if it wants to be restarted."""
        self._command = [str(word) for word in hello.get("command") or ()]
        self._folder = str(hello.get("folder", ""))
        self._next_s = None

    def forget(self) -> None:
        """Cancel the restart: the controller has ended in order."""
        self._command, self._next_s = [], None

    def lost(self, now_s: float) -> None:
        """Schedule a restart of the lost controller."""
        if not self._command:
            return
        while self._starts and self._starts[0] < now_s - WITHIN_S:
            self._starts.popleft()
        if len(self._starts) >= MAX_STARTS:
            self._tell(f"the controller was started {MAX_STARTS} times within an hour; it is not started again")
            self.forget()
        else:
            self._next_s = now_s + DELAYS_S[min(len(self._starts), len(DELAYS_S) - 1)]

    def due(self, now_s: float) -> bool:
        """Start the controller when it is time. Return whether a restart is still pending."""
        if self._next_s is None:
            return False
        if self._process is not None and self._process.poll() is None:
            if now_s < self._starts[-1] + COMES_S:
                return True
            self._process.kill()  # it has not connected, so it must not run
            self._process.wait()
        if self._process is not None:
            self._process = None
            self.lost(now_s)
        elif now_s >= self._next_s:
            self._start(now_s)
        return self._next_s is not None

    def _start(self, now_s: float) -> None:
        self._starts.append(now_s)
        self._tell(f"starting the controller again: {' '.join(self._command)}")
        lowered = set_oom_score(0)  # a child inherits the score, and the controller must not be killed last
        with suppress(OSError), self._log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603  (the command of the controller that was under watch)
                self._command,
                cwd=self._folder or None,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        if lowered:
            set_oom_score(OOM_SCORE)
        if self._process is None:
            self._tell("it could not be started")
            self.lost(now_s)
