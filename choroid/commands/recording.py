"""Parser of `recording`: recordings of the electrode array."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, subject


def add(commands: Any) -> None:
    """Add `recording` to `commands`."""
    verbs = subject(commands, "recording", "recordings of the electrode array: start, stop, status, list, psth, export")
    start = command(verbs, "start", _record, "begin a recording")
    start.add_argument("name", nargs="?", default="", help="its name (default: from the time and the user)")
    stop = command(verbs, "stop", _record, "end the recording; its file is complete then")
    command(verbs, "status", _record, "what is recorded now, and what was lost")
    command(verbs, "list", _record, "every recording, the oldest first")
    export = command(verbs, "export", _export, "write a recording as an NWB file, with the rig's environment")
    export.add_argument("recording", help="its name, or its folder")
    export.add_argument("--nwb", type=Path, required=True, metavar="FILE", help="the file to make")
    export.add_argument(
        "--strict", action="store_true", help="exit with 1 when readings of the rig are missing for a part of the time"
    )
    export.add_argument(
        "--for",
        dest="reader",
        choices=("any", "neo"),
        default="any",
        help="neo: samples in microvolts, where Neo reads them; twice as large (default any)",
    )
    export.add_argument("--species", default="Homo sapiens", help="of the tissue, in Latin (default Homo sapiens)")
    export.add_argument("--experimenter", default="", metavar="NAME", help="as “Last, First”")
    export.add_argument("--institution", default="", metavar="NAME", help="of the laboratory")
    export.add_argument("--lab", default="", metavar="NAME", help="name of the laboratory")
    psth = command(verbs, "psth", _psth, "spikes around the pulses of a recording, by electrode and latency")
    psth.add_argument("recording", help="its name, or its folder")
    psth.add_argument(
        "--window", nargs=2, type=float, default=(-50.0, 100.0), metavar=("FROM", "TO"), help="in ms (default -50 100)"
    )
    psth.add_argument("--bin", type=float, default=1.0, metavar="MS", help="width of a latency bin (default 1)")
    psth.add_argument(
        "--stimulated", nargs="+", type=int, metavar="ELECTRODE", help="only pulses of these electrodes (default all)"
    )
    for verb in (start, stop):
        verb.add_argument("--reason", default="", help="reason, for the record")
    for name, verb in verbs.choices.items():
        verb.set_defaults(verb=name)
        verb.add_argument("--data", type=Path, default=Path("choroid-data"), help="the running rig's data directory")
        json_option(verb)


def _export(arguments: argparse.Namespace) -> int:
    from choroid.common.extras import load_extra

    module = load_extra("choroid.nwb.command", "nwb", needed_for="an NWB file", otherwise="read the Zarr store itself")
    answer = module.export_recording(
        arguments.recording,
        arguments.data,
        arguments.nwb,
        for_neo=arguments.reader == "neo",
        species=arguments.species,
        experimenter=arguments.experimenter,
        institution=arguments.institution,
        lab=arguments.lab,
    )
    emit(answer, as_json=arguments.json, text=module.as_text(answer))
    return 1 if arguments.strict and answer["without_environment"] else 0


def _psth(arguments: argparse.Namespace) -> int:
    from choroid.common.extras import load_extra

    module = load_extra(
        "choroid.evoked.psth",
        "recording",
        needed_for="a recording",
        otherwise="read it on the machine that recorded it",
    )
    found = module.psth(
        arguments.recording,
        data=arguments.data,
        window_ms=tuple(arguments.window),
        bin_ms=arguments.bin,
        stimulated=arguments.stimulated,
    )
    emit(module.as_json(found), as_json=arguments.json, text=module.as_text(found))
    return 0


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
