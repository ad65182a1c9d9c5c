"""Parser of `choroid tissue`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, subject

ENTERED = ("target", "count", "diameter", "age", "batch", "cell_line", "reason", "sure")


def add(commands: Any) -> None:
    """Add `tissue` to `commands`."""
    verbs = subject(
        commands,
        "tissue",
        "tissue in a running rig's chambers: list, show, place, move, remove; export of its timeline",
    )
    command(verbs, "list", _tissue, "list the tissue of each chamber")
    show = command(verbs, "show", _tissue, "show what people did with the tissue of each chamber")
    show.add_argument("chamber", nargs="?", default="", help="the chamber (default: all)")
    place = command(verbs, "place", _tissue, "enter tissue that was put into an empty chamber")
    place.add_argument("chamber", help="the chamber")
    place.add_argument("--count", type=int, required=True, help="number of organoids")
    place.add_argument("--diameter", required=True, metavar="QUANTITY", help='diameter, such as "3 mm"')
    place.add_argument("--age", required=True, metavar="QUANTITY", help='age, such as "60 d"')
    place.add_argument("--batch", default="", help="batch of differentiation")
    place.add_argument("--cell-line", default="", help="cell line")
    move = command(verbs, "move", _tissue, "enter that the tissue of a chamber was moved into an empty one")
    move.add_argument("chamber", help="the chamber in which it was")
    move.add_argument("target", help="the chamber in which it is")
    remove = command(verbs, "remove", _tissue, "enter that tissue was taken out of a chamber")
    remove.add_argument("chamber", help="the chamber")
    remove.add_argument("--count", type=int, help="number of organoids (default: all)")
    for verb in (place, move, remove):
        verb.add_argument("--reason", required=True, help="reason, for the record")
    for verb in (place, move):
        verb.add_argument("--sure", action="store_true", help="enter it although the rig does not protect that chamber")
    for name, verb in verbs.choices.items():
        verb.set_defaults(verb=name)
        verb.add_argument("--data", type=Path, default=Path("choroid-data"), help="the running rig's data directory")
        json_option(verb)
    export = command(
        verbs, "export", _export, "write the timeline of the tissue as a table: one row per event and culture"
    )
    export.add_argument("rig", type=Path, help="the rig file")
    export.add_argument("out", type=Path, help="the file to write, .parquet or .csv")
    export.add_argument("--data", type=Path, default=Path("choroid-data"), help="the records; only read")
    json_option(export)


def _export(arguments: argparse.Namespace) -> int:
    from choroid.export.timeline import as_text, export_timeline

    answer = export_timeline(arguments.rig, arguments.data, arguments.out, progress=True)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _tissue(arguments: argparse.Namespace) -> int:
    from choroid.operating.tissue import as_text, tissue

    body = {name: getattr(arguments, name) for name in ENTERED if hasattr(arguments, name)}
    answer = tissue(arguments.verb, data=arguments.data, chamber=getattr(arguments, "chamber", ""), body=body)
    emit(answer, as_json=arguments.json, text=as_text(answer, history=arguments.verb == "show"))
    return 0
