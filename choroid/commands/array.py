"""Parser of `choroid array`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, seconds, subject


def add(commands: Any) -> None:
    """Add `array` to `commands`."""
    arrays = subject(commands, "array", "the electrode array of a running rig as LSL streams")
    lsl = command(arrays, "stream", _stream, "offer the electrode array of a running rig as LSL streams; read-only")
    lsl.add_argument("--data", type=Path, default=Path("choroid-data"), help="the running rig's data directory")
    lsl.add_argument("--name", default="choroid", help="name of the streams (default choroid)")
    lsl.add_argument("--for", dest="duration", metavar="TIME", help="end after this time")


def _stream(arguments: argparse.Namespace) -> int:
    from choroid.common.extras import load_extra

    module = load_extra(
        "choroid.lsl.outlets", "lsl", needed_for="choroid array stream", otherwise="read the engine's own API"
    )
    return int(module.offer(arguments.data, arguments.name, seconds(arguments.duration)))
