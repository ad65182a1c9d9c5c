"""Parsers of `check`, `wiring`, `bom` and `card`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, subject


class _PrintSchema(argparse.Action):
    """Print the schema of rig files, as `--version` prints a version: without the other arguments."""

    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from controller.rig.schema import rig_schema

        print(json.dumps(rig_schema(), indent=1, ensure_ascii=False))
        parser.exit()


def add(commands: Any) -> None:
    """Add `check`, `wiring`, `bom` and `card` to `commands`."""
    check = command(commands, "check", _check, "validate a rig file")
    check.add_argument("rig", type=Path, help="the rig file")
    check.add_argument(
        "--hazards",
        action="store_true",
        help="show the hazard table: detection, action, time and gaps of each hazard",
    )
    check.add_argument(
        "--capabilities",
        action="store_true",
        help="show which functions the rig has, which it lacks, and why",
    )
    check.add_argument("--schema", action=_PrintSchema, help="print the JSON schema of rig files, and exit")
    json_option(check)

    for name, handler, what in (
        ("wiring", _wiring, "the wiring list of a rig file: what is connected to what"),
        ("bom", _bom, "the bill of materials of a rig file"),
    ):
        listing = command(subject(commands, name, what), "show", handler, f"print {what}")
        listing.add_argument("rig", type=Path, help="the rig file")
        listing.add_argument("--csv", action="store_true", help="print CSV")
        json_option(listing)

    cards = subject(commands, "card", "the electrode cards that Choroid supports")
    json_option(command(cards, "list", _cards, "list the electrode cards, with what each can do and its limits"))


def _check(arguments: argparse.Namespace) -> int:
    from choroid.rig_file.check import as_text, check_rig

    answer = check_rig(arguments.rig)
    emit(
        answer,
        as_json=arguments.json,
        text=as_text(answer, hazards=arguments.hazards, capabilities=arguments.capabilities),
    )
    return 0 if answer["ok"] else 1


def _wiring(arguments: argparse.Namespace) -> int:
    from choroid.rig_file.wiring_list import as_text, csv_text, wiring

    answer = wiring(arguments.rig)
    emit(answer, as_json=arguments.json, text=csv_text(answer) if arguments.csv else as_text(answer))
    return 0


def _bom(arguments: argparse.Namespace) -> int:
    from choroid.rig_file.bill_of_materials import as_text, bill, csv_text

    answer = bill(arguments.rig)
    emit(answer, as_json=arguments.json, text=csv_text(answer) if arguments.csv else as_text(answer))
    return 0


def _cards(arguments: argparse.Namespace) -> int:
    from choroid.rig_file.cards import as_text, cards

    answer = cards()
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0
