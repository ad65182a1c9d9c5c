"""Parsers of the ledger and of operator entries: `ledger`, `vessel`, `tubing`, `task`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, subject

MATERIALS = ("silicone", "tygon", "pharmed-bpt", "santoprene", "other")
"""As in the rig description (:data:`controller.rig.upkeep.Material`), which is not imported for `--help`."""


def add(commands: Any) -> None:
    """Add `ledger`, `vessel`, `tubing` and `task` to `commands`."""
    ledgers = subject(commands, "ledger", "the place of every microlitre, and where a batch of medium went")
    ledger = command(ledgers, "show", _ledger, "show the content of each vessel, and where a batch of medium went")
    ledger.add_argument("rig", type=Path, help="the rig file")
    ledger.add_argument("--batch", metavar="LOT", help="only this batch: its present place and its path")
    vessels = subject(commands, "vessel", "vessels of a running rig: enter a bottle or a measured level")
    load = command(vessels, "load", _load, "enter a bottle with its lot number")
    load.add_argument("vessel", help="the vessel that it is, or into which it was filled")
    load.add_argument("--lot", required=True, help="lot number on its label")
    load.add_argument("--volume", required=True, metavar="QUANTITY", help='volume, such as "500 mL"')
    load.add_argument("--within", metavar="QUANTITY", help="standard deviation of the volume (default 1 %%)")
    for name in ("made", "thawed", "expires"):
        load.add_argument(f"--{name}", default="", metavar="DATE", help=f"date on the label: {name} (ISO date)")
    load.add_argument("--on-top", action="store_true", help="added to the present content (default: replaces it)")
    measure = command(vessels, "measure", _measure, "enter a measured level")
    measure.add_argument("vessel", help="the vessel")
    measure.add_argument("volume", metavar="QUANTITY", help='measured volume, such as "38.5 mL"')
    measure.add_argument("--within", required=True, metavar="QUANTITY", help="standard deviation of the measurement")
    measure.add_argument(
        "--changed",
        action="store_true",
        help="the content was changed by hand (waste emptied, sample taken): needs --reason",
    )
    tubing = subject(commands, "tubing", "the tubing of a running rig's pumps: list, replace")
    listed_tubing = command(tubing, "list", _tubing, "list every pump with its tubing")
    replace = command(tubing, "replace", _tubing, "enter new tubing of a pump")
    replace.add_argument("pump", help="device.point")
    replace.add_argument("--material", choices=MATERIALS, default="other", help="(default other)")
    replace.add_argument("--bore", metavar="QUANTITY", help="inner diameter (default: as in the rig file)")
    replace.add_argument("--lot", default="", help="lot number on its bag")
    replace.add_argument(
        "--life", type=float, metavar="REVOLUTIONS", help="tubing life (default: typical life of the material)"
    )
    tasks = subject(commands, "task", "the manual tasks of a running rig: list, confirm")
    listed_tasks = command(tasks, "list", _task, "list every task")
    confirm = command(tasks, "confirm", _task, "confirm that a task was done")
    confirm.add_argument("task", help="its name")
    for parser in (ledger, load, measure, listed_tubing, replace, listed_tasks, confirm):
        parser.add_argument("--data", type=Path, default=Path("choroid-data"), help="the rig's data directory")
        json_option(parser)
    for parser in (load, measure, replace, confirm):
        parser.add_argument("--reason", default="", help="reason, for the record")


def _ledger(arguments: argparse.Namespace) -> int:
    from choroid.operating.ledger import as_text, ledger

    answer = ledger(arguments.rig, arguments.data, batch=arguments.batch)
    emit(answer, as_json=arguments.json, text=as_text(answer, batch=arguments.batch is not None))
    return 0


def _load(arguments: argparse.Namespace) -> int:
    from choroid.operating.ledger import enter

    words = {
        name: getattr(arguments, name) for name in ("lot", "volume", "within", "made", "thawed", "expires", "reason")
    }
    body = {**words, "replaces": not arguments.on_top}
    answer = enter(arguments.data, ("vessels", arguments.vessel, "load"), body)
    emit(answer, as_json=arguments.json, text=f"lot {answer['lot']} in {answer['vessel']} since {answer['loaded_utc']}")
    return 0


def _measure(arguments: argparse.Namespace) -> int:
    from choroid.operating.ledger import enter

    body = {"volume": arguments.volume, "within": arguments.within, "reason": arguments.reason}
    if arguments.changed:
        answer = enter(arguments.data, ("vessels", arguments.vessel, "change"), body)
        emit(
            answer,
            as_json=arguments.json,
            text=f"{answer['name']} now holds {answer['ml']:.3f} ± {answer['sd_ml']:.3f} mL",
        )
        return 0
    answer = enter(arguments.data, ("vessels", arguments.vessel, "level"), body)
    text = (
        f"{answer['residual_ml']:+.3f} mL from the ledger's expectation ({answer['sigmas']:+.1f} standard deviations)"
    )
    emit(answer, as_json=arguments.json, text=text + (": more than noise, see the alarm" if answer["gross"] else ""))
    return 1 if answer["gross"] else 0


def _tubing(arguments: argparse.Namespace) -> int:
    from choroid.operating.ledger import enter, pumps, pumps_as_text

    if not hasattr(arguments, "pump"):
        answer = pumps(arguments.data)
    else:
        body = {name: getattr(arguments, name) for name in ("material", "bore", "lot", "life", "reason")}
        answer = enter(arguments.data, ("pumps", arguments.pump, "tubing"), body)
    emit(answer, as_json=arguments.json, text=pumps_as_text(answer))
    return 0


def _task(arguments: argparse.Namespace) -> int:
    from choroid.operating.ledger import enter, tasks, tasks_as_text

    if not hasattr(arguments, "task"):
        answer = tasks(arguments.data)
    else:
        answer = enter(arguments.data, ("tasks", arguments.task, "done"), {"reason": arguments.reason})
    emit(answer, as_json=arguments.json, text=tasks_as_text(answer))
    return 0
