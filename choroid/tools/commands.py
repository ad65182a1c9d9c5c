"""The words of the tools on the command line; each tool is imported only when it is asked for."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add every tool's subcommand to `commands`, and `--write` to `devices`."""
    conformance = _command(commands, "conformance", _conformance, "try every driver against what all drivers must do")
    conformance.add_argument("models", nargs="*", help="models (default: all that are installed)")
    _json(conformance)
    probe = _command(commands, "probe", _probe, "what is on this port? asks only, at the makers' own line settings")
    probe.add_argument("port", help="a port such as /dev/ttyUSB0, or a link such as tcp://192.0.2.7:4001")
    _json(probe)
    talk = _command(commands, "talk", _talk, "speak with one device of a rig, and see every byte with its meaning")
    talk.add_argument("device", help="its name in the rig file")
    talk.add_argument("--rig", type=Path, required=True, help="the rig file; no controller may be running on it")
    talk.add_argument("--raw", action="store_true", help="send other lines as they are typed, past every limit")
    replay = _command(commands, "replay", _replay, "do the wishes of a capture still give the same bytes?")
    replay.add_argument("file", type=Path, help="what --capture of run or simulate wrote")
    _json(replay)
    commands.choices["devices"].add_argument(
        "--write", type=Path, metavar="FOLDER", help="write each driver's documentation page into this folder"
    )
    commands.choices["devices"].add_argument(
        "--conformance", action="store_true", help="the same as `choroid conformance`"
    )


def devices(arguments: argparse.Namespace) -> int | None:
    """What `choroid devices` does with the options of :func:`add`; None when there are none of them."""
    if arguments.conformance:
        return _conformance(argparse.Namespace(models=[], json=arguments.json))
    if arguments.write is not None:
        from choroid.tools.writing import as_text, write

        answer = write(arguments.write)
        _emit(answer, arguments, as_text(answer))
        return 0
    return None


def _conformance(arguments: argparse.Namespace) -> int:
    from choroid.tools.conformance.table import as_text, conformance

    answer = conformance(arguments.models)
    _emit(answer, arguments, as_text(answer))
    return 0 if not answer["failures"] else 1


def _probe(arguments: argparse.Namespace) -> int:
    from choroid.tools.probe import as_text, run
    from drivers.transport.opener import open_real

    answer = run(arguments.port, open_real)
    _emit(answer, arguments, as_text(answer))
    return 0 if answer["found"] else 1


def _talk(arguments: argparse.Namespace) -> int:
    from choroid.tools.talk import talk

    return talk(arguments.device, arguments.rig, raw=arguments.raw)


def _replay(arguments: argparse.Namespace) -> int:
    from choroid.tools.replaying import as_text, replay

    answer = replay(arguments.file)
    _emit(answer, arguments, as_text(answer))
    return 0 if answer["same"] else 1


def _command(commands: Any, name: str, handler: Any, help_text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text)
    parser.set_defaults(handler=handler, json=False)
    return parser


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output, nothing else there")


def _emit(answer: Mapping[str, Any], arguments: argparse.Namespace, text: str) -> None:
    print(json.dumps(answer, ensure_ascii=False) if arguments.json else text)
