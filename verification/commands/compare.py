"""Parser of `choroid verify comparison`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

HELP = "compare protocols on the same seeds: medium used, true viability, the estimate of viability against the truth"


def add(commands: Any) -> None:
    """Add the subcommand to `commands`."""
    parser: argparse.ArgumentParser = commands.add_parser("comparison", help=HELP, description=HELP)
    parser.set_defaults(handler=_compare, json=False)
    parser.add_argument("rig", type=Path, help="the rig file, its links all sim:")
    parser.add_argument(
        "--protocols",
        default="recycle,exchange",
        metavar="ARM,ARM,…",
        help="protocols, protocol@rig.yaml, protocol+assays (weekly), protocol+requests (as the recycler asks); the last is"
        " the reference (default recycle,exchange)",
    )
    parser.add_argument("--days", type=float, default=10.0, help="simulated days of each run (default 10)")
    parser.add_argument("--seeds", type=int, default=4, help="number of seeds, from 1 (default 4)")
    parser.add_argument(
        "--tissues",
        default="reference",
        metavar="NAME,NAME,…",
        help="kinds of tissue (reference, ageing, chronic, necrotic_core; reference+infection: in contaminated medium) or"
        " files of `choroid fit`; the worst one is named",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="keep finished runs here; continue an interrupted comparison"
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a figure there (needs matplotlib)")
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output and nothing else")


def _compare(arguments: argparse.Namespace) -> int:
    from verification.comparison.comparison import as_text, compare

    answer = compare(
        arguments.rig,
        protocols=[arm.strip() for arm in arguments.protocols.split(",") if arm.strip()],
        days=arguments.days,
        seeds=arguments.seeds,
        jobs=arguments.jobs,
        resume=arguments.resume,
        svg=arguments.svg,
        tissues=[name.strip() for name in arguments.tissues.split(",") if name.strip()],
    )
    print(json.dumps(answer, ensure_ascii=False) if arguments.json else as_text(answer))
    return 0 if not any(row["violations"] for row in answer["arms"].values()) else 1
