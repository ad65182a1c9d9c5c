"""Parser of `choroid verify sensitivity`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from choroid.commands.options import seed


def add(commands: Any) -> None:
    """Add the subcommand to `commands`."""
    words = "sensitivity of care rating, welfare and happiness to weights, corners and inputs"
    parser = commands.add_parser("sensitivity", help=words, description=words)
    parser.add_argument("rig", type=Path, nargs="?", help="use example days with the inputs that this rig can measure")
    parser.add_argument(
        "--data", type=Path, help="use the journalled days of this data directory (default: example days)"
    )
    parser.add_argument(
        "--truth", action="store_true", help="compare with the plant's truth under faults (takes minutes)"
    )
    parser.add_argument("--hours", type=float, default=12.0, help="with --truth: duration of each fault (default 12)")
    parser.add_argument("--seed", type=seed, default=1, help="seed of the draws, or of the simulated lab (default 1)")
    parser.add_argument("--seeds", type=int, metavar="N", help="with --truth: use seeds 1 to N instead of --seed")
    parser.add_argument("--draws", type=int, default=1000, help="number of random draws of all weights (default 1000)")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write figures there (needs matplotlib)")
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output and nothing else")
    parser.set_defaults(handler=_sensitivity)


def _sensitivity(arguments: argparse.Namespace) -> int:
    if arguments.truth:
        from choroid.common.examples import bench_rig
        from verification.sensitivity import agreement, truth

        if arguments.seeds is not None:
            answer = agreement.over_seeds(arguments.rig or bench_rig(), seeds=arguments.seeds, hours=arguments.hours)
            print(json.dumps(answer, ensure_ascii=False) if arguments.json else agreement.as_text(answer))
            return 0
        found = truth.against_truth(arguments.rig or bench_rig(), seed=arguments.seed, hours=arguments.hours)
        print(json.dumps(found, ensure_ascii=False) if arguments.json else truth.as_text(found))
        return 0
    from verification.sensitivity.analysis import as_text, sensitivity

    answer = sensitivity(
        arguments.rig, data=arguments.data, seed=arguments.seed, draws=arguments.draws, plots=arguments.plots
    )
    print(json.dumps(answer, ensure_ascii=False) if arguments.json else as_text(answer))
    return 0
