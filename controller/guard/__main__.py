"""Run the guard: `python -P -m controller.guard PLAN [--own] [--detach] [--silence S]`.

PLAN is the file that :class:`controller.guard.plan.GuardPlan` was written to, in the data directory; socket and log lie
beside it. Exit status: 0 the controller ended in order, or the guard was told to end and the rig is at rest; 1 the rig was
brought to rest; 2 not all of it could be; 3 another guard watches (with --own).
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def main(words: list[str] | None = None) -> int:
    """Run one guard; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -P -m controller.guard", description=__doc__)
    parser.add_argument("plan", type=Path, help="the guard's plan, in the data directory")
    parser.add_argument("--own", action="store_true", help="a controller started this guard; end with it")
    parser.add_argument("--detach", action="store_true", help="leave the parent's process tree")
    parser.add_argument("--silence", type=float, metavar="S", help="a controller silent for so long hangs")
    arguments = parser.parse_args(words)
    if arguments.detach and os.fork():
        return 0  # a guard that is nobody's child is not killed with a family; before anything is imported, so at once
    from controller.guard.running import run

    return run(arguments.plan, own=arguments.own, silence_s=arguments.silence)


if __name__ == "__main__":
    sys.exit(main())
