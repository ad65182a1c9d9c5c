"""Parser of `choroid report`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from choroid.report.period import FORMS


def add(commands: Any) -> None:
    """Add the subcommand to `commands`."""
    text = "report of a period: organ figures, alarms, medium, scores; as text or printable HTML"
    parser: argparse.ArgumentParser = commands.add_parser("report", help=text, description=text)
    parser.add_argument("rig", type=Path, help="the rig file")
    parser.add_argument("--from", dest="begin", metavar="TIME", help=f"{FORMS} (default: the first record)")
    parser.add_argument("--to", dest="end", metavar="TIME", help="the same (default: now, or the last record)")
    parser.add_argument("--zone", metavar="NAME", help="time zone of the options and of the report (default UTC)")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("choroid-data"),
        help="directory of journal and history; only read (default ./choroid-data)",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as HTML; print it for a PDF")
    parser.add_argument("--methods", action="store_true", help="print only the paragraph of methods, as a paper has it")
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output and nothing else")
    parser.set_defaults(handler=_report)


def _report(arguments: argparse.Namespace) -> int:
    from choroid.report.report import as_text, report

    answer = report(
        arguments.rig,
        arguments.data,
        begin=arguments.begin,
        end=arguments.end,
        zone=arguments.zone,
        html_path=arguments.html,
    )
    text = answer["methods"]["text"] if arguments.methods else as_text(answer)
    print(json.dumps(answer, ensure_ascii=False) if arguments.json else text)
    return 0
