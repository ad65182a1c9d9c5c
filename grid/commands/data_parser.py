"""Parser of the verbs for data sets of `choroid grid data`."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, subject
from grid.commands.parts import FOLDER, part

STATED = {
    "rig": "name of the rig",
    "organoid": "name of the tissue",
    "day": "first day of the data, such as 2026-11-29",
    "stimulation-sha256": "hash of the stimulation ledger that belongs to them",
    "medium": "medium of the tissue",
    "licence": "SPDX identifier, such as CC-BY-4.0",
}
"""Options of `add` that state where data come from."""


def add_data(verbs: Any) -> Any:
    """Add the subject `data` with the verbs for data sets; return it for those of boards."""
    data = subject(
        verbs,
        "data",
        "data sets: add, list, show, allow, verify, replicate, keep, take, export, remove; data of a board: make; simulate",
    )
    add = command(data, "add", _add, "make a data set of a folder of files, which stay where they are")
    add.add_argument("folder", type=Path, help="the folder, such as a recording")
    add.add_argument("--name", default="", help="name of the data set (default: the folder's)")
    add.add_argument(
        "--share",
        choices=("no", "members", "public"),
        default="no",
        help="no: they stay here; members: members keep encrypted replicas; public: everyone may read them (default no)",
    )
    add.add_argument(
        "--reader",
        action="append",
        default=[],
        metavar="KEY",
        help="“reader” of `choroid grid identity show --json` at a reader; repeatable",
    )
    for option, meaning in STATED.items():
        add.add_argument(f"--{option}", default="", help=f"{meaning} (default: what a recording states)")
    command(data, "list", _list, "list the data sets of this folder")
    show = command(data, "show", _show, "show a data set: where it comes from, and its files")
    show.add_argument("--limit", type=int, default=20, help="how many files (default 20)")
    allow = command(data, "allow", _allow, "allow jobs of other members to read a data set here")
    allow.add_argument(
        "--jobs-of",
        action="append",
        required=True,
        metavar="WHO",
        help="identity of a member (repeatable), members (all), or none",
    )
    verify = command(data, "verify", _verify, "read a data set and name what is not as its author signed it")
    replicate = command(data, "replicate", _replicate, "bring a data set into a replica: what it lacks or has damaged")
    replicate.add_argument(
        "--quota", type=float, default=math.inf, metavar="GB", help="most that it may hold (default: no limit)"
    )
    keep = command(data, "keep", _keep, "have storage members keep replicas, and repair them, while it runs")
    keep.add_argument("data_sets", nargs="+", metavar="DATA_SET", help="name, or the start of an id")
    keep.add_argument("--replicas", type=int, default=2, help="members that keep each (default 2)")
    keep.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="MEMBER",
        help="this member; repeatable (default: any with the role)",
    )
    keep.add_argument("--until-complete", action="store_true", help="end when the replicas are complete")
    take = command(data, "take", _take, "take the listings of the data sets in a replica, or of the members of a job")
    take.add_argument(
        "folder",
        type=Path,
        nargs="?",
        help="folder of the replica (default: the members of the work lease that runs here)",
    )
    take.add_argument("data_set", nargs="?", default="", help="the start of an id (default: all)")
    export = command(data, "export", _export, "write the files of a data set into a new folder")
    remove = command(data, "remove", _remove, "forget a data set; the files stay where they are")
    for parser in (show, allow, verify, replicate, export, remove):
        parser.add_argument("data_set", help="its name, or the start of its id")
    replicate.add_argument("folder", type=Path, help="folder of the replica: another disk, a file server")
    export.add_argument("folder", type=Path, help="the folder to write")
    for parser in data.choices.values():
        parser.add_argument("--data", type=Path, default=FOLDER, help=f"data folder of the member (default: {FOLDER})")
        json_option(parser)
    return data


def _add(arguments: argparse.Namespace) -> int:
    answer = part("data").add(
        arguments.data,
        arguments.folder,
        name=arguments.name,
        sharing=arguments.share,
        stated={(field := option.replace("-", "_")): getattr(arguments, field) for option in STATED},
        readers=arguments.reader,
        progress=_counted("MB", 1e6),
    )
    return _told(arguments, answer)


def _list(arguments: argparse.Namespace) -> int:
    return _told(arguments, part("data").every(arguments.data))


def _show(arguments: argparse.Namespace) -> int:
    return _told(arguments, part("data").show(arguments.data, arguments.data_set, limit=arguments.limit))


def _allow(arguments: argparse.Namespace) -> int:
    return _told(arguments, part("data").allow(arguments.data, arguments.data_set, arguments.jobs_of))


def _verify(arguments: argparse.Namespace) -> int:
    answer = part("data").verify(arguments.data, arguments.data_set)
    _told(arguments, answer)
    return 1 if any(answer["changed"].values()) else 0


def _replicate(arguments: argparse.Namespace) -> int:
    quota_bytes = 1e9 * arguments.quota
    found = part("data")
    answer = found.replicate(
        arguments.data, arguments.data_set, arguments.folder, quota_bytes=quota_bytes, progress=_counted("files")
    )
    return _told(arguments, answer)


def _keep(arguments: argparse.Namespace) -> int:
    part("data").keep(
        arguments.data,
        arguments.data_sets,
        replicas=arguments.replicas,
        on=arguments.on,
        until_complete=arguments.until_complete,
        say=lambda line: print(line, flush=True),
    )
    return 0


def _take(arguments: argparse.Namespace) -> int:
    return _told(arguments, part("data").take(arguments.data, arguments.folder, arguments.data_set))


def _export(arguments: argparse.Namespace) -> int:
    return _told(arguments, part("data").export(arguments.data, arguments.data_set, arguments.folder))


def _remove(arguments: argparse.Namespace) -> int:
    return _told(arguments, part("data").remove(arguments.data, arguments.data_set))


def _told(arguments: argparse.Namespace, answer: dict[str, Any]) -> int:
    emit(answer, as_json=arguments.json, text=part("data").text_of(answer))
    return 0


def _counted(unit: str, size: float = 1.0) -> Callable[[int, int], None]:
    """Return what shows progress in a unit on a terminal."""

    def shown(done: int, whole: int) -> None:
        if sys.stderr.isatty():
            end = "\n" if done == whole else "\r"
            print(f"{done / size:,.0f} of {whole / size:,.0f} {unit}", end=end, file=sys.stderr, flush=True)

    return shown
