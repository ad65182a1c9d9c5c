"""Parser of `choroid comparison`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, positive, seed, subject


def add(commands: Any) -> None:
    """Add `comparison` to `commands`."""
    verbs = subject(commands, "comparison", "arms over batches and cultures, by a plan: register, evaluate, simulate")
    register = command(verbs, "register", _register, "record hash and time of a plan, before the first data")
    register.add_argument(
        "--time-stamps",
        nargs=2,
        metavar=("URL", "PEM"),
        help="an RFC 3161 authority that stamps the hash, and its certificates",
    )
    evaluate = command(verbs, "evaluate", _evaluate, "compare the arms of a plan by the timelines of its cultures")
    evaluate.add_argument(
        "--certificates", type=Path, metavar="PEM", help="of the authority that stamped the registration"
    )
    simulate = command(verbs, "simulate", _simulate, "power of a plan by numbers of batches and cultures")
    simulate.add_argument("--nested", action="store_true", help="a batch has one arm only (default: each has all)")
    simulate.add_argument(
        "--pilot", type=Path, metavar="PLAN", help="plan of a pilot: batches and cultures vary as there"
    )
    simulate.add_argument(
        "--trials", type=positive, default=4000, help="simulated experiments for each cell (default 4000)"
    )
    simulate.add_argument("--seed", type=seed, default=1, help="seed of the simulation (default 1)")
    for verb in (register, evaluate, simulate):
        verb.add_argument("plan", type=Path, help="the plan (docs/statistics.md)")
        json_option(verb)


def _register(arguments: argparse.Namespace) -> int:
    from choroid.audit.time_stamps import TimeAuthority
    from choroid.comparison.registration import register

    url, certificates = arguments.time_stamps or ("", "")
    answer = register(arguments.plan, authority=TimeAuthority(Path(certificates), url) if url else None)
    text = f"{answer['name']}: sha256 {answer['sha256']} registered at {answer['utc']} in {answer['record']}"
    emit(answer, as_json=arguments.json, text=text)
    return 0


def _evaluate(arguments: argparse.Namespace) -> int:
    from choroid.comparison.evaluation import as_text, evaluate

    answer = evaluate(arguments.plan, certificates=arguments.certificates)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _simulate(arguments: argparse.Namespace) -> int:
    from choroid.comparison.power import as_text, power

    answer = power(
        arguments.plan,
        trials=arguments.trials,
        seed=arguments.seed,
        nested=arguments.nested,
        pilot=arguments.pilot,
        progress=True,
    )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0
