"""Parser of `audit`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option


def add(commands: Any) -> None:
    """Add `audit` to `commands`."""
    audit = commands.add_parser("audit", help="signed checkpoints of the journal: witness, verify, export")
    verbs = audit.add_subparsers(title="verbs", metavar="VERB", required=True)
    witness = command(verbs, "witness", _witness, "sign a checkpoint of the journal now, and keep it elsewhere")
    witness.add_argument("--rig-name", default="rig", metavar="NAME", help="the rig's name (default: rig)")
    witness.add_argument("--key", type=Path, metavar="FILE", help="the private key; made where there is none")
    witness.add_argument(
        "--to", type=Path, action="append", default=[], metavar="DIR", help="a folder of another machine; repeatable"
    )
    witness.add_argument("--data", type=Path, default=Path("choroid-data"), help="the rig's data directory")
    verify = command(verbs, "verify", _verify, "verify a data folder or an export against its checkpoints")
    verify.add_argument("folder", type=Path, help="data folder, or what `choroid audit export` has made")
    verify.add_argument("--key", default="", help="verifier key (default: the one in the folder, which proves less)")
    export = command(verbs, "export", _export, "write rows, checkpoints and verifier key for a outsider")
    export.add_argument("out", type=Path, help="the folder to make")
    export.add_argument("--data", type=Path, default=Path("choroid-data"), help="the rig's data directory")
    for verb in (verify, export):
        verb.add_argument(
            "--checkpoints", type=Path, action="append", default=[], metavar="FILE", help="further ones; repeatable"
        )
    for verb in (witness, verify, export):
        json_option(verb)


def _witness(arguments: argparse.Namespace) -> int:
    from choroid.audit.audit import witness

    os.nice(10)  # a running controller asks for this too, and goes first
    answer = witness(arguments.data, rig=arguments.rig_name, key=arguments.key, folders=arguments.to)
    lines = [f"{answer['signed_rows']} of {answer['rows']} rows signed", f"key {answer['key']}"]
    lines += [f"CONTRADICTION: {fault}" for fault in answer["faults"]] + answer["troubles"]
    emit(answer, as_json=arguments.json, text="\n".join(lines))
    return 1 if answer["faults"] or answer["troubles"] else 0


def _verify(arguments: argparse.Namespace) -> int:
    from choroid.audit.audit import verify

    answer = verify(arguments.folder, key=arguments.key, stores=arguments.checkpoints)
    text = f"{answer['rows']} rows; the first {answer['signed_rows']} are as {answer['checkpoints']} checkpoints signed them"
    emit(answer, as_json=arguments.json, text=text)
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from choroid.audit.audit import export

    answer = export(arguments.data, arguments.out, stores=arguments.checkpoints)
    emit(answer, as_json=arguments.json, text=f"{answer['rows']} rows in {answer['folder']}; key {answer['key']}")
    return 0
