"""A controller that can be made to hang: `choroid run` with two more signals, only for `choroid verify bench guard`.

    python -P -m verification.bench.guard_host RIG DATA

A Python signal handler runs in the main thread, between two steps of the loop, so it blocks the loop: SIGRTMIN
makes it spin, SIGRTMIN+1 makes it sleep. No option of `choroid run` leads here.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from choroid.running.run import run

SPIN, SLEEP = signal.SIGRTMIN, signal.SIGRTMIN + 1


def _spin(number: int, frame: object) -> None:
    while True:
        pass


def _sleep(number: int, frame: object) -> None:
    time.sleep(3600.0)  # noqa: TID251  (a loop that is blocked)


if __name__ == "__main__":
    signal.signal(SPIN, _spin)
    signal.signal(SLEEP, _sleep)
    sys.exit(run(Path(sys.argv[1]), data=Path(sys.argv[2]), host="127.0.0.1", port=0))
