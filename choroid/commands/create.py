"""Parser of `create`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option


def add(commands: Any) -> None:
    """Add `create` to `commands`."""
    parser = command(commands, "create", _create, "write a rig file from the answers to a few questions, and check it")
    parser.add_argument("--output", type=Path, default=Path("rig.yaml"), metavar="FILE", help="(rig.yaml)")
    parser.add_argument(
        "--answers", type=Path, metavar="FILE", help="file with answers, such as “count: 4”; the rest: defaults"
    )
    parser.add_argument(
        "--set",
        dest="params",
        action="append",
        default=[],
        metavar="QUESTION=ANSWER",
        help='one answer, such as perfusion=loop or volume="2 mL"; repeatable',
    )
    parser.add_argument("--defaults", action="store_true", help="ask nothing; the rest: defaults")
    json_option(parser)


def _create(arguments: argparse.Namespace) -> int:
    from choroid.commands.options import named
    from choroid.new_rig.new import answers_in, as_text, new_rig, on_terminal

    given = answers_in(arguments.answers) if arguments.answers is not None else {}
    given |= named(arguments.params)
    asks = not (arguments.defaults or arguments.answers)
    answer = new_rig(arguments.output, given, on_terminal if asks else None)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if answer["ok"] else 1
