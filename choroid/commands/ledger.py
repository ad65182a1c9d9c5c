"""The words of the ledger on the command line: `ledger`, and what operators enter: `load`, `level`, `tubing`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MATERIALS = ("silicone", "tygon", "pharmed-bpt", "santoprene", "other")
"""As in the rig description (:data:`controller.rig.description.Material`), which is not loaded for `--help`."""


def add(commands: Any) -> None:
    """Add the subcommands to `commands`."""
    ledger = _command(commands, "ledger", _ledger, "what is in each vessel, and where a batch of medium went")
    ledger.add_argument("rig", type=Path, help="the rig file")
    ledger.add_argument("--batch", metavar="LOT", help="this batch alone: where it is, along which lines it went")
    load = _command(commands, "load", _load, "enter a bottle with its lot number, on a running rig")
    load.add_argument("vessel", help="the vessel that it is, or that it went into")
    load.add_argument("--lot", required=True, help="the number on its label")
    load.add_argument("--volume", required=True, metavar="QUANTITY", help='how much, say "500 mL"')
    load.add_argument("--within", metavar="QUANTITY", help="how exactly (standard deviation; default 1 %%)")
    for name in ("made", "thawed", "expires"):
        load.add_argument(f"--{name}", default="", metavar="DATE", help=f"its label: {name} (ISO date)")
    load.add_argument("--on-top", action="store_true", help="added to what is there (default: it replaces it)")
    level = _command(commands, "level", _level, "enter a level that was read, on a running rig")
    level.add_argument("vessel", help="the vessel")
    level.add_argument("volume", metavar="QUANTITY", help='what was read, say "38.5 mL"')
    level.add_argument("--within", required=True, metavar="QUANTITY", help="how exactly (standard deviation)")
    level.add_argument(
        "--changed",
        action="store_true",
        help="you changed it by hand (emptied the waste, took a sample): needs --reason",
    )
    tubing = _command(commands, "tubing", _tubing, "tubing of a running rig's pumps: list it, or enter new one")
    tubing.add_argument("pump", nargs="?", help="device.point; without it, every pump is listed")
    tubing.add_argument("--material", choices=MATERIALS, default="other", help="(default other)")
    tubing.add_argument("--bore", metavar="QUANTITY", help="inner diameter (default: as the rig file has it)")
    tubing.add_argument("--lot", default="", help="the number on its bag")
    tubing.add_argument("--life", type=float, metavar="REVOLUTIONS", help="(default: the usual of its material)")
    for parser in (ledger, load, level, tubing):
        parser.add_argument("--data", type=Path, default=Path("choroid-data"), help="the rig's data directory")
        parser.add_argument(
            "--json", action="store_true", help="one JSON object on standard output, nothing else there"
        )
    for parser in (load, level, tubing):
        parser.add_argument("--reason", default="", help="why, for the record")


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
    _emit(answer, arguments, f"lot {answer['lot']} is in {answer['vessel']} since {answer['loaded_utc']}")
    return 0


def _level(arguments: argparse.Namespace) -> int:
    from choroid.operating.ledger import enter

    body = {"volume": arguments.volume, "within": arguments.within, "reason": arguments.reason}
    if arguments.changed:
        answer = enter(arguments.data, ("vessels", arguments.vessel, "change"), body)
        _emit(answer, arguments, f"{answer['name']} holds {answer['ml']:.3f} ± {answer['sd_ml']:.3f} mL now")
        return 0
    answer = enter(arguments.data, ("vessels", arguments.vessel, "level"), body)
    told = (
        f"{answer['residual_ml']:+.3f} mL from what the ledger expected ({answer['sigmas']:+.1f} standard deviations)"
    )
    _emit(answer, arguments, told + (": more than noise, see the alarm" if answer["gross"] else ""))
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


def _command(commands: Any, name: str, handler: Any, help_text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text)
    parser.set_defaults(handler=handler, json=False)
    return parser


def _emit(answer: Mapping[str, Any], arguments: argparse.Namespace, text: str) -> None:
    print(json.dumps(answer, ensure_ascii=False) if arguments.json else text)
