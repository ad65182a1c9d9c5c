"""Parsers of the commands in virtual time: `simulate`, `plan`, `validate`."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, length, named, params_option, seconds, seed

DAY_S, HOUR_S = 86_400.0, 3_600.0


def add(commands: Any) -> None:
    """Add `simulate`, `plan` and `validate` to `commands`."""
    simulate = command(commands, "simulate", _simulate, "run the whole stack on the simulated lab in virtual time")
    simulate.add_argument("rig", type=Path, help="the rig file")
    simulate.add_argument(
        "--protocol",
        help="a protocol's name or file (default: the first of recycle, exchange, stand-by that the rig supports)",
    )
    _period_option(simulate, "--days", 1.0, DAY_S, "simulated days (default 1)")
    simulate.add_argument("--seed", type=seed, default=1, help="seed of the simulated lab (default 1)")
    simulate.add_argument("--data", type=Path, help="keep journal and history here (default: deleted)")
    simulate.add_argument(
        "--tended", action="store_true", help="a simulated technician does once a day what the alarms ask for"
    )
    simulate.add_argument(
        "--assay-every",
        type=float,
        metavar="DAYS",
        help="the technician has the loop's medium assayed at this interval, an hour (0.042) or more",
    )
    simulate.add_argument(
        "--assays",
        type=lambda text: tuple(name.strip() for name in text.split(",")),
        default=("lactate", "glucose"),
        metavar="A,B",
        help="analytes of these assays (default lactate,glucose; also ammonia, glutamine, osmolality)",
    )
    simulate.add_argument(
        "--assays-on-request",
        dest="on_request",
        action="store_true",
        help="the technician assays what the recycler asks (with --tended)",
    )
    simulate.add_argument(
        "--begin",
        type=_moment,
        default=None,
        metavar="TIME",
        help="date and time at which it begins, in UTC unless it says otherwise: 2026-03-12T12:00 (default 2026-01-01)",
    )
    simulate.add_argument(
        "--tissue",
        default="reference",
        metavar="KIND_OR_FILE",
        help="kind of the simulated tissue, drawn-N, or the file that `choroid fit --out` wrote (default reference)",
    )
    simulate.add_argument("--capture", type=Path, metavar="FILE", help="record every byte of every link")
    params_option(simulate)
    json_option(simulate)

    plan = command(commands, "plan", _plan, "show what a protocol would do, by a run on the twin")
    plan.add_argument("rig", type=Path, help="the rig file")
    plan.add_argument("protocol", nargs="?", help="the protocol's name or file (default: as simulate)")
    _period_option(plan, "--hours", 24.0, HOUR_S, "time to look ahead (default 24)")
    plan.add_argument("--seed", type=seed, default=1, help="seed of the twin (default 1)")
    plan.add_argument(
        "--data", type=Path, help="start from the end of this data directory's journal (default: the rig file)"
    )
    plan.add_argument("--svg", type=Path, metavar="FILE", help="write a diagram of the steps")
    params_option(plan)
    json_option(plan)

    validate = command(commands, "validate", _validate, "compare the simulated plant with published figures, V1 to V23")
    validate.add_argument("--plots", type=Path, metavar="DIR", help="write figures there (needs matplotlib)")
    json_option(validate)


def _period_option(parser: argparse.ArgumentParser, name: str, default: float, unit_s: float, help_text: str) -> None:
    """Add a number of days or hours, and `--for` with a unit of its own."""
    period = parser.add_mutually_exclusive_group()
    period.add_argument(name, type=length, default=default, help=help_text)
    period.add_argument(
        "--for",
        dest=name.strip("-"),
        type=lambda text: _time_s(text) / unit_s,
        metavar="TIME",
        help="the same with a unit: 2d, 36h",
    )


def _time_s(text: str) -> float:
    try:
        return seconds(text) or 0.0
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"“{text}” is no date and time. Next: write 2026-03-12T12:00") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _simulate(arguments: argparse.Namespace) -> int:
    from choroid.simulation.simulate import as_text, simulate

    keywords = {
        "path": arguments.rig,
        "protocol": arguments.protocol,
        "params": named(arguments.params),
        "days": arguments.days,
        "seed": arguments.seed,
        "data": arguments.data,
        "progress": True,
        "capture": arguments.capture,
        "tended": arguments.tended,
        "assay_every_d": arguments.assay_every,
        "assayed": arguments.assays,
        "on_request": arguments.on_request,
        "tissue": arguments.tissue,
        **({} if arguments.begin is None else {"begin": arguments.begin}),
    }
    answer = simulate(**keywords)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if not answer["violations"] else 1


def _plan(arguments: argparse.Namespace) -> int:
    from choroid.simulation.plan import as_text, plan

    keywords = {
        "path": arguments.rig,
        "protocol": arguments.protocol,
        "params": named(arguments.params),
        "hours": arguments.hours,
        "seed": arguments.seed,
        "data": arguments.data,
        "svg": arguments.svg,
        "progress": True,
    }
    answer = plan(**keywords)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if answer["feasible"] else 1


def _validate(arguments: argparse.Namespace) -> int:
    from choroid.simulation.validate import as_text, validate

    answer = validate(arguments.plots, progress=True)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0
