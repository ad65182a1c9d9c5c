"""Scheduling of the threads that serve the array, ahead of other programs where the system allows it.

On a machine with more work than processors a thread waits 10 to 50 ms for its turn, longer than the latest frame of a pulse
allows. Under the real-time policy it waits less than 0.1 ms. Only the thread that steps the engine, and those of the card
that read frames and take pulses, get it: serving clients can take any amount of processor time and must never delay life
support.
"""

from __future__ import annotations

import os
import resource
import time

from controller.children.accounts import ProcessorShare

RUNAWAY_US = 2_000_000
"""Processor time without a pause (µs) after which the kernel ends the process: a defect must not occupy a processor."""


def take_precedence() -> bool:
    """Put the calling thread under the real-time policy, at its lowest priority.

    The system allows it to root and where `RLIMIT_RTPRIO` is at least 1 (`LimitRTPRIO=` of a service).

    Returns:
        Whether the system allows it; if not, nothing changes.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        resource.setrlimit(resource.RLIMIT_RTTIME, (RUNAWAY_US, RUNAWAY_US))
    except (OSError, ValueError):
        return False
    return True


MAX_SHARE = 0.3
"""Share of a processor above which a thread or a child loses its precedence; it gets it back below half of this."""

PRIORITY = -15
"""Nice value of the processes that serve the array."""

JUDGED_EVERY_S = 0.2


class LightPrecedence:
    """Precedence of a thread only while it needs little of a processor, for work whose amount the hardware decides."""

    def __init__(self) -> None:
        """Take precedence for the calling thread."""
        self.held = take_precedence()
        self._allowed = self.held
        self._since_s, self._used_s = time.monotonic(), time.thread_time()  # noqa: TID251  (of the machine, not of the rig)

    def judge(self) -> None:
        """Give precedence up, or take it again, by the processor time since the last judgement; call it often."""
        now_s = time.monotonic()  # noqa: TID251
        if not self._allowed or now_s - self._since_s < JUDGED_EVERY_S:
            return
        used_s = time.thread_time()
        share = (used_s - self._used_s) / (now_s - self._since_s)
        self._since_s, self._used_s = now_s, used_s
        if self.held and share > MAX_SHARE:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            self.held = False
        elif not self.held and share < MAX_SHARE / 2.0:
            self.held = take_precedence()


MAX_LOSSES = 3
"""Times that a child may lose its priority; then it does not get it back."""


class LightPriority:
    """Priority of a child process, only while it needs little of a processor: what it computes is another's program."""

    def __init__(self, pid: int) -> None:
        """Give it to the child, where the system allows it."""
        self._pid = pid
        self._share = ProcessorShare(pid)
        self._losses = 0
        self.held = self._set(PRIORITY)

    def judge(self) -> None:
        """Take it away, or give it back, by the processor time since the last judgement."""
        share = self._share.since()
        if self.held and share > MAX_SHARE:
            self.give_up()
        elif not self.held and share < MAX_SHARE / 2.0 and self._losses < MAX_LOSSES:
            self.held = self._set(PRIORITY)

    def give_up(self) -> None:
        """Take it away."""
        self.held = self.held and not self._set(0)
        self._losses += 1

    def _set(self, nice: int) -> bool:
        try:
            os.setpriority(os.PRIO_PROCESS, self._pid, nice)
        except OSError:  # it has ended, or the user may not
            return False
        return True
