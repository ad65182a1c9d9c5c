"""The `choroid` command: parse words, call one function, print its answer.

Each subcommand's work lives in its own module and is imported only when it is asked for, so that `choroid --help`
stays instant. Exit status: 0 done, 1 the thing asked for failed (and said why), 2 the words make no sense.
"""

from __future__ import annotations

import argparse
import sys

from choroid import comparison_command, handover_command
from choroid.child import keep_safe_path, require_own_packages
from choroid.commands import commissioning, files, guards, live, measure, operate, virtual
from choroid.commands.words import Handler
from choroid.kills import commands as kills
from choroid.report import command as report
from choroid.tools import commands as tools
from choroid.tools import ledger_commands


def main(argv: list[str] | None = None) -> int:
    """Run the command; `argv` defaults to the process's own arguments."""
    keep_safe_path()
    arguments = _parser().parse_args(argv)
    handler: Handler = arguments.handler
    try:
        require_own_packages()
        return handler(arguments)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from choroid.failure import explain

        text = explain(error)
        if text is None:
            raise
        print(f"choroid: {text}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="choroid", description="Keeps brain organoids alive and lets computers talk with them."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    rooms = (
        live, virtual, files, tools, ledger_commands, comparison_command, kills, handover_command, report, operate,
        guards, measure, commissioning,
    )  # fmt: skip
    for room in rooms:
        room.add(commands)
    return parser
