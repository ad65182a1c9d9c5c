"""Parsers of `device` and `driver`; each tool is imported only when it runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, subject


def add(commands: Any) -> None:
    """Add `device` and `driver` to `commands`."""
    devices = subject(commands, "device", "devices: list the supported ones; probe, talk to and calibrate your own")
    listing = command(devices, "list", _list, "list the supported devices")
    listing.add_argument(
        "--write", type=Path, metavar="FOLDER", help="write each driver's documentation page into this directory"
    )
    json_option(listing)
    probe = command(
        devices, "probe", _probe, "identify the device on a port; only queries, at the manufacturers' line settings"
    )
    probe.add_argument("port", help="a port such as /dev/ttyUSB0, or a link such as tcp://192.0.2.7:4001")
    json_option(probe)
    talk = command(devices, "talk", _talk, "send commands to one device of a rig, and show every byte with its meaning")
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
    _add_calibrations(devices)
    drivers = subject(commands, "driver", "drivers: test them, or compare their commands with a capture")
    test = command(drivers, "test", _test, "test drivers against the properties of all drivers")
    test.add_argument("models", nargs="*", help="models (default: all installed ones)")
    json_option(test)
    replay = command(drivers, "replay", _replay, "check that the commands of a capture still give the same bytes")
    replay.add_argument("file", type=Path, help="file written by --capture of run or simulate")
    json_option(replay)


def _add_calibrations(devices: Any) -> None:
    pump = command(devices, "calibrate-pump", _calibrate_pump, "calibrate a pump by balance or stopwatch")
    pump.add_argument("--by", dest="method", choices=["balance", "stopwatch"], default="balance", help="(balance)")
    pump.add_argument("--density", default="1 g/mL", help="density of the weighed liquid (default 1 g/mL)")
    sensor = command(devices, "calibrate-sensor", _calibrate_sensor, "calibrate a sensor with buffers or references")
    for parser, example, valid in ((pump, "5 mL=4.87 g", "30 d"), (sensor, "7.00=6.94", "7 d")):
        parser.add_argument("point", help="device.point of the rig")
        parser.add_argument(
            "measured", nargs="+", help=f'asked or true=measured, say "{example}"; one per run or buffer'
        )
        parser.add_argument("--rig", type=Path, required=True, help="the rig file")
        parser.add_argument("--valid", default=valid, help=f"validity (default {valid})")
        parser.add_argument("--who", help="person who measured (default: the user logged in)")
        parser.add_argument("--note", default="", help="lot of buffer, length of tubing, …")
    listing = command(devices, "list-calibrations", _list_calibrations, "list calibrations and their validity")
    for parser in (pump, sensor, listing):
        parser.add_argument("--data", type=Path, default=Path("choroid-data"), help="directory of the records")
        json_option(parser)


def _list(arguments: argparse.Namespace) -> int:
    if arguments.write is not None:
        from choroid.tools import writing

        answer = writing.write(arguments.write)
        emit(answer, as_json=arguments.json, text=writing.as_text(answer))
        return 0
    from choroid.rig_file.devices import as_text, devices

    answer = devices()
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _test(arguments: argparse.Namespace) -> int:
    from choroid.tools.conformance.table import as_text, conformance

    answer = conformance(arguments.models)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if not answer["failures"] else 1


def _probe(arguments: argparse.Namespace) -> int:
    from choroid.tools.probe import as_text, run
    from drivers.transport.opener import open_real

    answer = run(arguments.port, open_real)
    emit(answer, as_json=arguments.json, text=as_text(answer))
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
    emit(answer, as_json=arguments.json, text=as_text(answer))
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
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _list_calibrations(arguments: argparse.Namespace) -> int:
    from choroid.tools.calibrate import list_as_text, listed

    answer = listed(arguments.data)
    emit(answer, as_json=arguments.json, text=list_as_text(answer))
    return 0 if not answer["expired"] else 1


def _replay(arguments: argparse.Namespace) -> int:
    from choroid.tools.replaying import as_text, replay

    answer = replay(arguments.file)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if answer["same"] else 1
