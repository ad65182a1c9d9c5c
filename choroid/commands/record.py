"""Parser of `record`: recordings of the electrode array."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option


def add(commands: Any) -> None:
    """Add `record` to `commands`."""
    record = commands.add_parser("record", help="recordings of the electrode array: start, stop, status, list")
    verbs = record.add_subparsers(title="verbs", metavar="VERB", required=True)
    start = command(verbs, "start", _record, "begin a recording")
    start.add_argument("name", nargs="?", default="", help="its name (default: from the time and the user)")
    stop = command(verbs, "stop", _record, "end the recording; its file is complete then")
    command(verbs, "status", _record, "what is recorded now, and what was lost")
    command(verbs, "list", _record, "every recording, the oldest first")
    for verb in (start, stop):
        verb.add_argument("--reason", default="", help="reason, for the record")
    for name, verb in verbs.choices.items():
        verb.set_defaults(verb=name)
        verb.add_argument("--data", type=Path, default=Path("choroid-data"), help="the running rig's data directory")
        json_option(verb)


def _record(arguments: argparse.Namespace) -> int:
    from choroid.operating.recordings import as_text, record

    answer = record(
        arguments.verb,
        data=arguments.data,
        name=getattr(arguments, "name", ""),
        reason=getattr(arguments, "reason", ""),
    )
    emit(answer, as_json=arguments.json, text=as_text(arguments.verb, answer))
    return 0
