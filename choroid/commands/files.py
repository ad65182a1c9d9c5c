"""Parsers of `check` and `devices`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands import tools
from choroid.commands.options import command, emit, json_option


def add(commands: Any) -> None:
    """Add `check` and `devices` to `commands`."""
    check = command(commands, "check", _check, "validate a rig file")
    check.add_argument("rig", type=Path, help="the rig file")
    check.add_argument(
        "--hazards",
        action="store_true",
        help="show the hazard table: detection, action, time and gaps of each hazard",
    )
    check.add_argument(
        "--capabilities",
        action="store_true",
        help="show which functions the rig has, which it lacks, and why",
    )
    json_option(check)

    devices = command(commands, "devices", _devices, "list the supported devices")
    json_option(devices)


def _check(arguments: argparse.Namespace) -> int:
    from choroid.rig_file.check import as_text, check_rig

    answer = check_rig(arguments.rig)
    emit(
        answer,
        as_json=arguments.json,
        text=as_text(answer, hazards=arguments.hazards, capabilities=arguments.capabilities),
    )
    return 0 if answer["ok"] else 1


def _devices(arguments: argparse.Namespace) -> int:
    from choroid.rig_file.devices import as_text, devices

    if (done := tools.devices(arguments)) is not None:
        return done
    answer = devices()
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0
