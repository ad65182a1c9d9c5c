"""Parsers of the guard and the emergency stop: `guard`, `stop`, `service`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, subject
from choroid.common.private import keep_files_private


def add(commands: Any) -> None:
    """Add `guard`, `stop` and `service` to `commands`."""
    guard = command(
        commands,
        "guard",
        _guard,
        "watch a rig's controller; bring the rig to its basal state when the controller is lost",
    )
    guard.add_argument("rig", type=Path, help="the rig file")
    _data(guard, "the controller's data directory (default ./choroid-data)")

    stop = command(commands, "stop", _stop, "emergency stop through the guard: perfusion to basal, no stimulation")
    _data(stop, "the running rig's data directory (default ./choroid-data)")
    stop.add_argument("--reason", default="emergency stop on the command line", help="reason, for the record")
    json_option(stop)

    verbs = subject(commands, "service", "guard and controller as services of this computer: install")
    install = command(verbs, "install", _install, "write systemd units for a rig: the guard and the controller")
    install.add_argument("rig", type=Path, help="the rig file")
    _data(install, "journal and history (default ./choroid-data)")
    where = install.add_mutually_exclusive_group()
    where.add_argument("--system", dest="user", action="store_false", help="for the computer (default)")
    where.add_argument("--user", dest="user", action="store_true", help="for the current user; much less protection")
    install.set_defaults(user=False)
    install.add_argument("--root", type=Path, default=Path("/"), metavar="DIR", help="write below DIR (default /)")
    install.add_argument(
        "--run-as", default="choroid", metavar="USER", help="account of the services (default choroid)"
    )
    install.add_argument("--memory", default="4G", metavar="SIZE", help="memory limit of the controller (default 4G)")
    json_option(install)


def _data(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--data", type=Path, default=Path("choroid-data"), help=what)


def _guard(arguments: argparse.Namespace) -> int:
    from choroid.running.guarding import guard

    keep_files_private()
    guard(arguments.rig, arguments.data)


def _stop(arguments: argparse.Namespace) -> int:
    from choroid.running.guarding import stop

    done = stop(arguments.data, reason=arguments.reason)
    emit({"done": done}, as_json=arguments.json, text=done)
    return 0


def _install(arguments: argparse.Namespace) -> int:
    from choroid.running.services import as_text, install

    answer = install(
        arguments.rig,
        data=arguments.data,
        user=arguments.user,
        root=arguments.root,
        run_as=arguments.run_as,
        memory=arguments.memory,
    )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0
