"""Parser of `choroid verify kills`."""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path
from typing import Any

from choroid.commands.options import speed


def add(commands: Any) -> None:
    """Add the subcommand to `commands`."""
    text = "kill a real controller process at each journal row; verify that no dose is lost or given twice"
    parser: argparse.ArgumentParser = commands.add_parser("kills", help=text, description=text)
    parser.set_defaults(handler=_kills)
    parser.add_argument("recipes", nargs="*", help="shipped recipes (default: all)")
    parser.add_argument("--rig", type=Path, help="a rig file whose links are all sim: (default: the bench rig)")
    parser.add_argument("--every", type=_count, default=1, metavar="N", help="every N-th boundary (default: each)")
    parser.add_argument("--sample", type=_count, metavar="N", help="N boundaries of each recipe, evenly spaced")
    parser.add_argument("--jobs", type=_count, default=1, metavar="J", help="trials in parallel (default 1)")
    parser.add_argument("--speed", type=speed, default=30.0, help="speed factor, 1 to 600 (default 30)")
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="keep finished trials here; continue an interrupted run"
    )
    parser.add_argument("--random", type=_count, metavar="N", help="kill at N random moments in real time instead")
    parser.add_argument("--seed", type=int, default=1, help="seed of --random (default 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output and nothing else")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: write a positive integer")
    return number


def _kills(arguments: argparse.Namespace) -> int:
    from choroid.common.examples import bench_rig
    from verification.kills.matrix import as_text, kills

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # otherwise the processes of running trials would remain
    if arguments.random is not None:
        from verification.kills import strikes
        from verification.kills.random_kills import random_kills

        found = random_kills(
            arguments.random,
            seed=arguments.seed,
            rig=arguments.rig or bench_rig(),
            jobs=arguments.jobs,
            resume=arguments.resume,
        )
        print(json.dumps(found, ensure_ascii=False) if arguments.json else strikes.as_text(found))
        return 0 if not found["failed"] else 1
    answer = kills(
        arguments.recipes,
        rig=arguments.rig or bench_rig(),
        every=arguments.every,
        sample=arguments.sample,
        jobs=arguments.jobs,
        speed=arguments.speed,
        resume=arguments.resume,
    )
    print(json.dumps(answer, ensure_ascii=False) if arguments.json else as_text(answer))
    return 0 if not answer["failed"] else 1
