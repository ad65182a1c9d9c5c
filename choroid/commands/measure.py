"""How good it is: `validate` the plant, its `sensitivity`, `bench` the house."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.words import command, emit, json_option
from choroid.sensitivity import commands as sensitivity


def add(commands: Any) -> None:
    """Add `validate`, `sensitivity` and `bench` to `commands`."""
    validate = command(commands, "validate", _validate, "the simulated plant beside what papers report, V1 to V12")
    validate.add_argument("--plots", type=Path, metavar="DIR", help="write figures there (needs matplotlib)")
    json_option(validate)

    sensitivity.add(commands)
    bench = command(commands, "bench", _bench, "measure the numbers of the house on this machine")
    bench.add_argument("only", nargs="*", help="names of benchmarks (default: all)")
    trial = bench.add_argument_group("of the estimator")
    trial.add_argument("--seeds", type=int, help="how many cultures (default 20)")
    trial.add_argument("--days", type=float, help="days of life of each (default 14)")
    trial.add_argument("--first", type=int, metavar="SEED", help="the first seed (default 201)")
    trial.add_argument("--jobs", type=int, help="processes (default: one for each processor)")
    trial.add_argument(
        "--whole", action="store_true", default=None, help="through the whole stack: slower by far (default: light)"
    )
    json_option(bench)


def _validate(arguments: argparse.Namespace) -> int:
    from choroid.validate import as_text, validate

    answer = validate(arguments.plots)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _bench(arguments: argparse.Namespace) -> int:
    from choroid.bench import as_text, bench

    options = {name: getattr(arguments, name) for name in ("seeds", "days", "first", "jobs", "whole")}
    answer = bench(arguments.only, {name: value for name, value in options.items() if value is not None})
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0
