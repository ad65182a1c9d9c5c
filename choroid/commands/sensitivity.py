"""The words of `choroid sensitivity` on the command line; the work is imported only when it is asked for."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from choroid.commands.options import seed


def add(commands: Any) -> None:
    """Add the subcommand to `commands`."""
    words = "what hangs on the weights, corners and inputs of viability, welfare and happiness"
    parser = commands.add_parser("sensitivity", help=words, description=words)
    parser.add_argument("rig", type=Path, nargs="?", help="example days as far as this rig can measure them")
    parser.add_argument("--data", type=Path, help="the journalled days of this data directory (default: example days)")
    parser.add_argument("--truth", action="store_true", help="beside the plant's truth, under faults (takes minutes)")
    parser.add_argument("--hours", type=float, default=12.0, help="with --truth: hours of each fault (default 12)")
    parser.add_argument("--seed", type=seed, default=1, help="of the draws, or of the simulated lab (default 1)")
    parser.add_argument(
        "--seeds", type=int, metavar="N", help="with --truth: seeds 1 to N together, in place of --seed"
    )
    parser.add_argument("--draws", type=int, default=1000, help="draws of all weights (default 1000)")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write figures there (needs matplotlib)")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output, nothing else there")
    parser.set_defaults(handler=_sensitivity)


def _sensitivity(arguments: argparse.Namespace) -> int:
    if arguments.truth:
        from choroid.common.examples import bench_rig
        from choroid.sensitivity import agreement, truth

        if arguments.seeds is not None:
            answer = agreement.over_seeds(arguments.rig or bench_rig(), seeds=arguments.seeds, hours=arguments.hours)
            print(json.dumps(answer, ensure_ascii=False) if arguments.json else agreement.as_text(answer))
            return 0
        found = truth.against_truth(arguments.rig or bench_rig(), seed=arguments.seed, hours=arguments.hours)
        print(json.dumps(found, ensure_ascii=False) if arguments.json else truth.as_text(found))
        return 0
    from choroid.sensitivity.analysis import as_text, sensitivity

    answer = sensitivity(
        arguments.rig, data=arguments.data, seed=arguments.seed, draws=arguments.draws, plots=arguments.plots
    )
    print(json.dumps(answer, ensure_ascii=False) if arguments.json else as_text(answer))
    return 0
