"""The `choroid` command: parse arguments, call one function, print its answer.

The implementation of each subcommand is imported only when it runs, so that `choroid --help` stays fast. Exit
status: 0 done, 1 failed with a message, 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import sys

from choroid.common.child import keep_safe_path, require_own_packages
from choroid.common.failure import UserError


def main(argv: list[str] | None = None) -> int:
    """Run the command; `argv` defaults to the process's own arguments. Return the exit status."""
    keep_safe_path()
    try:
        require_own_packages()
    except UserError as error:
        print(f"choroid: {error}", file=sys.stderr)
        return 1
    words = sys.argv[1:] if argv is None else argv
    arguments = _parser().parse_args(words)
    arguments.words = words
    try:
        return int(arguments.handler(arguments))
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from choroid.common.failure import explain

        text = explain(error)
        if text is None:
            raise
        print(f"choroid: {text}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    # Not before these are known to be our own packages.
    from choroid.commands import (
        audit,
        commissioning,
        compare,
        export,
        files,
        fit,
        grid,
        guards,
        handover,
        kills,
        ledger,
        live,
        lsl,
        measure,
        new,
        operate,
        record,
        report,
        tissue,
        tools,
        virtual,
    )

    parser = argparse.ArgumentParser(
        prog="choroid", description="Keeps brain organoids alive and lets computers talk with them."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    groups = (
        live, virtual, files, tools, ledger, compare, kills, handover, report, export, operate, guards, measure,
        commissioning, new, tissue, grid, record, lsl, fit, audit,
    )  # fmt: skip
    for group in groups:
        group.add(commands)
    return parser
