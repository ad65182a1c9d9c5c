"""Parsers of the tools; each tool is imported only when it runs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add every tool's subcommand to `commands`, and `--write` to `devices`."""
    conformance = _command(commands, "conformance", _conformance, "test drivers against the properties of all drivers")
    conformance.add_argument("models", nargs="*", help="models (default: all installed ones)")
    _json(conformance)
    probe = _command(
        commands, "probe", _probe, "identify the device on a port; only queries, at the manufacturers' line settings"
    )
    probe.add_argument("port", help="a port such as /dev/ttyUSB0, or a link such as tcp://192.0.2.7:4001")
    _json(probe)
    talk = _command(
        commands, "talk", _talk, "send commands to one device of a rig, and show every byte with its meaning"
    )
    talk.add_argument("device", help="its name in the rig file")
    talk.add_argument("--rig", type=Path, required=True, help="the rig file; no controller may run on it")
    talk.add_argument("--raw", action="store_true", help="send other lines as typed, without any limit")
    talk.add_argument("--read-only", action="store_true", help="only queries; allowed while a controller runs the rig")
    talk.add_argument(
        "--ignore-controller",
        action="store_true",
        help="talk even while a controller runs the rig, at your own risk",
    )
    talk.add_argument("--data", type=Path, default=Path("choroid-data"), help="data directory of this rig's controller")
    calibrate = commands.add_parser("calibrate", help="record and list calibrations of pumps and sensors")
    kinds = calibrate.add_subparsers(title="kinds", metavar="KIND", required=True)
    pump = _command(kinds, "pump", _calibrate_pump, "calibrate a pump by balance or stopwatch")
    pump.add_argument("--by", dest="method", choices=["balance", "stopwatch"], default="balance", help="(balance)")
    pump.add_argument("--density", default="1 g/mL", help="density of the weighed liquid (default 1 g/mL)")
    sensor = _command(kinds, "sensor", _calibrate_sensor, "calibrate a sensor with buffers or references")
    for parser, example, valid in ((pump, "5 mL=4.87 g", "30 d"), (sensor, "7.00=6.94", "7 d")):
        parser.add_argument("point", help="device.point of the rig")
        parser.add_argument(
            "measured", nargs="+", help=f'asked or true=measured, say "{example}"; one per run or buffer'
        )
        parser.add_argument("--rig", type=Path, required=True, help="the rig file")
        parser.add_argument("--valid", default=valid, help=f"validity (default {valid})")
        parser.add_argument("--who", help="person who measured (default: the user logged in)")
        parser.add_argument("--note", default="", help="lot of buffer, length of tubing, …")
    for parser in (pump, sensor, _command(kinds, "list", _calibrate_list, "list calibrations and their validity")):
        parser.add_argument("--data", type=Path, default=Path("choroid-data"), help="directory of the records")
        _json(parser)
    replay = _command(commands, "replay", _replay, "check that the commands of a capture still give the same bytes")
    replay.add_argument("file", type=Path, help="file written by --capture of run or simulate")
    _json(replay)
    commands.choices["devices"].add_argument(
        "--write", type=Path, metavar="FOLDER", help="write each driver's documentation page into this directory"
    )
    commands.choices["devices"].add_argument(
        "--conformance", action="store_true", help="the same as `choroid conformance`"
    )


def devices(arguments: argparse.Namespace) -> int | None:
    """Execute `choroid devices` with the options of :func:`add`; return None when there are none of them."""
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

    return talk(
        arguments.device,
        arguments.rig,
        raw=arguments.raw,
        data=arguments.data,
        read_only=arguments.read_only,
        ignore_controller=arguments.ignore_controller,
    )


def _calibrate_pump(arguments: argparse.Namespace) -> int:
    from choroid.tools.calibrate import as_text, pump
    from controller.rig.quantities import parse_quantity

    answer = pump(
        arguments.point,
        arguments.rig,
        arguments.data,
        method=arguments.method,
        measured=arguments.measured,
        density_g_ml=parse_quantity(arguments.density, "g/mL"),
        valid=arguments.valid,
        by=arguments.who,
        note=arguments.note,
    )
    _emit(answer, arguments, as_text(answer))
    return 0


def _calibrate_sensor(arguments: argparse.Namespace) -> int:
    from choroid.tools.calibrate import as_text, sensor

    answer = sensor(
        arguments.point,
        arguments.rig,
        arguments.data,
        measured=arguments.measured,
        valid=arguments.valid,
        by=arguments.who,
        note=arguments.note,
    )
    _emit(answer, arguments, as_text(answer))
    return 0


def _calibrate_list(arguments: argparse.Namespace) -> int:
    from choroid.tools.calibrate import list_as_text, listed

    answer = listed(arguments.data)
    _emit(answer, arguments, list_as_text(answer))
    return 0 if not answer["expired"] else 1


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
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output and nothing else")


def _emit(answer: Mapping[str, Any], arguments: argparse.Namespace, text: str) -> None:
    print(json.dumps(answer, ensure_ascii=False) if arguments.json else text)
