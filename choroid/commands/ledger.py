"""Parsers of the ledger and of operator entries: `ledger`, `load`, `level`, `tubing`, `task`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MATERIALS = ("silicone", "tygon", "pharmed-bpt", "santoprene", "other")
"""As in the rig description (:data:`controller.rig.upkeep.Material`), which is not imported for `--help`."""


def add(commands: Any) -> None:
    """Add the subcommands to `commands`."""
    ledger = _command(commands, "ledger", _ledger, "show the content of each vessel, and where a batch of medium went")
    ledger.add_argument("rig", type=Path, help="the rig file")
    ledger.add_argument("--batch", metavar="LOT", help="only this batch: its present place and its path")
    load = _command(commands, "load", _load, "enter a bottle with its lot number, on a running rig")
    load.add_argument("vessel", help="the vessel that it is, or into which it was filled")
    load.add_argument("--lot", required=True, help="lot number on its label")
    load.add_argument("--volume", required=True, metavar="QUANTITY", help='volume, such as "500 mL"')
    load.add_argument("--within", metavar="QUANTITY", help="standard deviation of the volume (default 1 %%)")
    for name in ("made", "thawed", "expires"):
        load.add_argument(f"--{name}", default="", metavar="DATE", help=f"date on the label: {name} (ISO date)")
    load.add_argument("--on-top", action="store_true", help="added to the present content (default: replaces it)")
    level = _command(commands, "level", _level, "enter a measured level, on a running rig")
    level.add_argument("vessel", help="the vessel")
    level.add_argument("volume", metavar="QUANTITY", help='measured volume, such as "38.5 mL"')
    level.add_argument("--within", required=True, metavar="QUANTITY", help="standard deviation of the measurement")
    level.add_argument(
        "--changed",
        action="store_true",
        help="the content was changed by hand (waste emptied, sample taken): needs --reason",
    )
    tubing = _command(commands, "tubing", _tubing, "list the tubing of a running rig's pumps, or enter new tubing")
    tubing.add_argument("pump", nargs="?", help="device.point; without it, every pump is listed")
    tubing.add_argument("--material", choices=MATERIALS, default="other", help="(default other)")
    tubing.add_argument("--bore", metavar="QUANTITY", help="inner diameter (default: as in the rig file)")
    tubing.add_argument("--lot", default="", help="lot number on its bag")
    tubing.add_argument(
        "--life", type=float, metavar="REVOLUTIONS", help="tubing life (default: typical life of the material)"
    )
    task = _command(commands, "task", _task, "list the manual tasks of a running rig, or confirm that one was done")
    task.add_argument("task", nargs="?", help="name of the task that was done; without it, every task is listed")
    for parser in (ledger, load, level, tubing, task):
        parser.add_argument("--data", type=Path, default=Path("choroid-data"), help="the rig's data directory")
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object on standard output and nothing else"
        )
    for parser in (load, level, tubing, task):
        parser.add_argument("--reason", default="", help="reason, for the record")


def _ledger(arguments: argparse.Namespace) -> int:
    from choroid.operating.ledger import as_text, ledger

    answer = ledger(arguments.rig, arguments.data, batch=arguments.batch)
    _emit(answer, arguments, as_text(answer, batch=arguments.batch is not None))
    return 0


def _load(arguments: argparse.Namespace) -> int:
    from choroid.operating.ledger import enter

    words = {
        name: getattr(arguments, name) for name in ("lot", "volume", "within", "made", "thawed", "expires", "reason")
    }
    body = {**words, "replaces": not arguments.on_top}
    answer = enter(arguments.data, ("vessels", arguments.vessel, "load"), body)
    _emit(answer, arguments, f"lot {answer['lot']} in {answer['vessel']} since {answer['loaded_utc']}")
    return 0


def _level(arguments: argparse.Namespace) -> int:
    from choroid.operating.ledger import enter

    body = {"volume": arguments.volume, "within": arguments.within, "reason": arguments.reason}
    if arguments.changed:
        answer = enter(arguments.data, ("vessels", arguments.vessel, "change"), body)
        _emit(answer, arguments, f"{answer['name']} now holds {answer['ml']:.3f} ± {answer['sd_ml']:.3f} mL")
        return 0
    answer = enter(arguments.data, ("vessels", arguments.vessel, "level"), body)
    text = (
        f"{answer['residual_ml']:+.3f} mL from the ledger's expectation ({answer['sigmas']:+.1f} standard deviations)"
    )
    _emit(answer, arguments, text + (": more than noise, see the alarm" if answer["gross"] else ""))
    return 1 if answer["gross"] else 0


def _tubing(arguments: argparse.Namespace) -> int:
    from choroid.operating.ledger import enter, pumps, pumps_as_text

    if arguments.pump is None:
        answer = pumps(arguments.data)
    else:
        body = {name: getattr(arguments, name) for name in ("material", "bore", "lot", "life", "reason")}
        answer = enter(arguments.data, ("pumps", arguments.pump, "tubing"), body)
    _emit(answer, arguments, pumps_as_text(answer))
    return 0


def _task(arguments: argparse.Namespace) -> int:
    from choroid.operating.ledger import enter, tasks, tasks_as_text

    if arguments.task is None:
        answer = tasks(arguments.data)
    else:
        answer = enter(arguments.data, ("tasks", arguments.task, "done"), {"reason": arguments.reason})
    _emit(answer, arguments, tasks_as_text(answer))
    return 0


def _command(commands: Any, name: str, handler: Any, help_text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text)
    parser.set_defaults(handler=handler, json=False)
    return parser


def _emit(answer: Mapping[str, Any], arguments: argparse.Namespace, text: str) -> None:
    print(json.dumps(answer, ensure_ascii=False) if arguments.json else text)
