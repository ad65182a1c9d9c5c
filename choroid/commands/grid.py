"""Parser of `choroid grid`."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

from choroid.commands.grid_boards import add_boards
from choroid.commands.options import command, emit, json_option


def add(commands: Any) -> None:
    """Add the subcommand to `commands`."""
    grid = commands.add_parser("grid", help="hub, members and laboratories of a grid (extra `grid`)")
    verbs = grid.add_subparsers(title="verbs", metavar="VERB", required=True)
    _identity_parser(verbs)
    add_boards(verbs)


def _identity_parser(verbs: Any) -> None:
    identity = command(verbs, "identity", _identity, "print the identity of this member, laboratory or hub")
    _data(identity)
    json_option(identity)


def _data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, default=Path("choroid-grid"), help="data folder (default: choroid-grid)")


def part(name: str) -> ModuleType:
    """Import a module of the grid's commands. Raises :class:`UserError` without the extra."""
    from choroid.common.extras import load_extra

    return load_extra(f"grid.commands.{name}", "grid", needed_for="choroid grid", otherwise="use a rig without a grid")


def _identity(arguments: argparse.Namespace) -> int:
    answer = part("identity").identity(arguments.data)
    emit(answer, as_json=arguments.json, text=answer["id"])
    return 0
