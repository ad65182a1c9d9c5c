"""Scheduling of the thread that serves the array, ahead of other programs where the system allows it.

On a machine with more work than processors a thread waits 10 to 50 ms for its turn, longer than the latest frame of a pulse
allows. Under the real-time policy it waits less than 0.1 ms. Only this thread gets it: serving clients can take any amount of
processor time and must never delay life support.
"""

from __future__ import annotations

import os
import resource

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
