"""The words of `choroid export` on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option
from choroid.report.period import FORMS


def add(commands: Any) -> None:
    """Add the subcommand to `commands`."""
    text = "history, journal and ledger of a period as CSV and Parquet files, with units and hashes"
    parser = command(commands, "export", _export, text)
    parser.add_argument("rig", type=Path, help="the rig file")
    parser.add_argument("out", type=Path, help="the folder to make")
    parser.add_argument(
        "--from", dest="begin", metavar="TIME", help=f"{FORMS}; counted back from the last record (default: the first)"
    )
    parser.add_argument("--to", dest="end", metavar="TIME", help="the same (default: the last record)")
    parser.add_argument("--zone", metavar="NAME", help="of days and times without one (default UTC)")
    parser.add_argument(
        "--data", type=Path, default=Path("choroid-data"), help="the records; only read (default ./choroid-data)"
    )
    parser.add_argument(
        "--format", dest="formats", action="append", choices=("csv", "parquet"), help="(default: both; repeatable)"
    )
    json_option(parser)


def _export(arguments: argparse.Namespace) -> int:
    from choroid.export.export import as_text, export_records

    manifest = export_records(
        arguments.rig,
        arguments.data,
        arguments.out,
        begin=arguments.begin,
        end=arguments.end,
        zone=arguments.zone,
        formats=tuple(dict.fromkeys(arguments.formats or ("csv", "parquet"))),
    )
    emit(manifest, as_json=arguments.json, text=as_text(manifest, arguments.out))
    return 0
