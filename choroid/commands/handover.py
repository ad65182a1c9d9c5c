"""Parser of `choroid handover`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option


def add(commands: Any) -> None:
    """Add `handover` to `commands`."""
    text = "move a culture's records to another rig: write a file here, take it over there"
    parser = command(commands, "handover", _handover, text)
    parser.add_argument("rig", type=Path, help="the rig file")
    parser.add_argument("--data", type=Path, default=Path("choroid-data"), help="its data directory")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--write", type=Path, metavar="FILE", help="write this rig's records of its culture")
    way.add_argument("--take", type=Path, metavar="FILE", help="take over another rig's file")
    parser.add_argument("--who", default="", help="person who takes it over, for the record")
    json_option(parser)


def _handover(arguments: argparse.Namespace) -> int:
    from choroid.operating.handover import as_text, taken, written

    if arguments.write is not None:
        answer = written(arguments.rig, arguments.data, arguments.write)
    else:
        answer = taken(arguments.rig, arguments.data, arguments.take, who=arguments.who)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0
