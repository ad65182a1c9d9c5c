"""`choroid commission`: checks before tissue is put in."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option


def add(commands: Any) -> None:
    """Add `commission` to `commands`."""
    parser = command(commands, "commission", _commission, "verify wiring and plumbing of a rig by their effects")
    parser.add_argument("rig", type=Path, help="the rig file")
    parser.add_argument("--data", type=Path, default=Path("choroid-data"), help="the rig's data directory")
    parser.add_argument("--by", required=True, metavar="NAME", help="person responsible, for the record")
    json_option(parser)


def _commission(arguments: argparse.Namespace) -> int:
    from choroid.operating.commission import as_text, commission_rig

    answer = commission_rig(arguments.rig, data=arguments.data, by=arguments.by)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if answer["passed"] else 1
