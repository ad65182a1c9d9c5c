"""Parser of `sort`: units of a recording by a sorter of SpikeInterface."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option

SORTER = "tridesclous2"


def add(commands: Any) -> None:
    """Add `sort` to `commands`."""
    sort = command(commands, "sort", _sort, "find the units of a recording with a sorter of SpikeInterface, on the CPU")
    sort.add_argument("recording", help="its name, or its folder")
    sort.add_argument(
        "--sorter", default=SORTER, metavar="NAME", help=f"tridesclous2, spykingcircus2, … (default {SORTER})"
    )
    sort.add_argument("--data", type=Path, default=Path("choroid-data"), help="the rig's data directory")
    json_option(sort)


def _sort(arguments: argparse.Namespace) -> int:
    from choroid.common.extras import load_extra

    module = load_extra(
        "choroid.sorting.command",
        "sort",
        needed_for="spike sorting",
        otherwise="sort the Zarr store with SpikeInterface",
    )
    answer = module.sort_recording(arguments.recording, arguments.data, arguments.sorter)
    emit(answer, as_json=arguments.json, text=module.as_text(answer))
    return 0
