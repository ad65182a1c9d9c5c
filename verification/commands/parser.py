"""Parsers of `choroid verify`; what each does is imported only when it runs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, seed
from verification.commands import bench, campaign, kills


def add(commands: Any) -> None:
    """Add the subcommands of `choroid verify` to `commands`."""
    for each in (campaign, kills, bench):
        each.add(commands)
    _add_conformance(commands)
    _add_sensitivity(commands)
    _add_comparison(commands)


def _add_conformance(commands: Any) -> None:
    text = "score of the conformance kit: which broken drivers it detects, and by which property"
    parser = command(commands, "conformance", _score, text)
    parser.add_argument("models", nargs="*", help="models (default: all installed ones)")
    parser.add_argument("--every", action="store_true", help="each broken driver on every model it fits")
    json_option(parser)


def _score(arguments: argparse.Namespace) -> int:
    from verification.conformance.score import as_text, score

    answer = score(arguments.models, every=arguments.every)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if answer["caught"] == answer["of"] and not answer["sound"] else 1


def _add_sensitivity(commands: Any) -> None:
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


def _add_comparison(commands: Any) -> None:
    words = (
        "compare protocols on the same seeds: medium used, true viability, the estimate of viability against the truth"
    )
    parser: argparse.ArgumentParser = commands.add_parser("comparison", help=words, description=words)
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
