"""Run the guard: `python -P -m controller.guard PLAN [--own] [--detach [FD]] [--silence S]`.

PLAN is the file that :class:`controller.guard.plan.GuardPlan` was written to, in the data directory, which also holds socket
and log. Exit status: 0 the controller ended in order, or the guard was ordered to end and the rig is at rest; 1 the rig
was brought to rest; 2 not all of it could be brought to rest; 3 another guard watches (with --own).
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def main(words: list[str] | None = None) -> int:
    """Run one guard and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -P -m controller.guard", description=__doc__)
    parser.add_argument("plan", type=Path, help="the guard's plan, in the data directory")
    parser.add_argument("--own", action="store_true", help="a controller started this guard; end with it")
    parser.add_argument(
        "--detach", type=int, nargs="?", const=-1, metavar="FD",
        help="leave the parent's process tree; the number of the new process is written to the descriptor FD",
    )  # fmt: skip
    parser.add_argument(
        "--silence", type=float, metavar="S", help="a controller silent for longer than S seconds hangs"
    )
    arguments = parser.parse_args(words)
    if arguments.detach is not None and _detached(arguments.detach):
        return 0  # a detached guard survives when the process tree is killed; first of all, so that nothing delays it
    from controller.guard.running import run

    return run(arguments.plan, own=arguments.own, silence_s=arguments.silence)


def _detached(descriptor: int) -> bool:
    """Fork; return True in the parent, which has written the child's number to `descriptor` unless that is negative."""
    child = os.fork()
    if descriptor >= 0:
        if child:
            os.write(descriptor, str(child).encode("ascii"))
        os.close(descriptor)
    return child != 0


if __name__ == "__main__":
    sys.exit(main())
