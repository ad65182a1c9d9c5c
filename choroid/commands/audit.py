"""Parser of `audit`."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from choroid.commands.options import command, emit, json_option, subject
from choroid.common.extras import load_extra
from choroid.common.failure import UserError

if TYPE_CHECKING:
    from choroid.audit.audit import HubWitness, JournalPart


def add(commands: Any) -> None:
    """Add `audit` to `commands`."""
    verbs = subject(commands, "audit", "signed checkpoints of the journal: witness, verify, export, renew")
    witness = command(verbs, "witness", _witness, "sign a checkpoint of the journal now, and keep it elsewhere")
    witness.add_argument(
        "--hub",
        nargs=2,
        action="append",
        default=[],
        metavar=("KEY", "ADDRESS"),
        help="a hub that confirms it; repeatable",
    )
    witness.add_argument(
        "--time-stamps",
        nargs=2,
        metavar=("URL", "PEM"),
        help="an RFC 3161 authority that stamps it, and its certificates",
    )
    renew = command(verbs, "renew", _renew, "end the log of a journal that was repaired, and begin another one")
    renew.add_argument("--reason", required=True, metavar="TEXT", help="one line for those who verify later")
    for verb in (witness, renew):
        verb.add_argument("--rig-name", default="rig", metavar="NAME", help="the rig's name (default: rig)")
        verb.add_argument("--key", type=Path, metavar="FILE", help="the private key; made where there is none")
        verb.add_argument(
            "--to",
            type=Path,
            action="append",
            default=[],
            metavar="DIR",
            help="a folder of another machine; repeatable",
        )
        verb.add_argument("--data", type=Path, default=Path("choroid-data"), help="the rig's data directory")
    verify = command(verbs, "verify", _verify, "verify a data folder or an export against its checkpoints")
    verify.add_argument("folder", type=Path, help="data folder, or what `choroid audit export` has made")
    verify.add_argument("--key", default="", help="verifier key (default: the one in the folder, which proves less)")
    verify.add_argument(
        "--witness", action="append", default=[], metavar="KEY", help="a hub that must have confirmed it; repeatable"
    )
    verify.add_argument(
        "--ask", action="append", default=[], metavar="ADDRESS", help="ask a hub what it has confirmed; repeatable"
    )
    verify.add_argument(
        "--certificates", type=Path, metavar="PEM", help="of the authority whose time stamps are verified"
    )
    export = command(verbs, "export", _export, "write rows, checkpoints and verifier key for an outsider")
    export.add_argument("out", type=Path, help="the folder to make")
    export.add_argument("--data", type=Path, default=Path("choroid-data"), help="the rig's data directory")
    for verb in (verify, export):
        verb.add_argument(
            "--checkpoints", type=Path, action="append", default=[], metavar="FILE", help="further ones; repeatable"
        )
    for verb in (witness, renew, verify, export):
        json_option(verb)


def _witness(arguments: argparse.Namespace) -> int:
    from choroid.audit.audit import witness
    from choroid.audit.time_stamps import TimeAuthority

    url, certificates = arguments.time_stamps or ("", "")
    answer = witness(
        arguments.data,
        rig=arguments.rig_name,
        key=arguments.key,
        folders=arguments.to,
        hubs=[_hub(*each) for each in arguments.hub],
        authority=TimeAuthority(Path(certificates), url) if url else None,
    )
    lines = [f"{answer['signed_rows']} of {answer['rows']} rows signed", f"key {answer['key']}"]
    lines += [f"CONTRADICTION: {fault}" for fault in answer["faults"]] + answer["troubles"]
    emit(answer, as_json=arguments.json, text="\n".join(lines))
    return 1 if answer["faults"] or answer["troubles"] else 0


def _hub(key: str, address: str) -> HubWitness:
    """Return a hub that is asked over the network; without the distribution choroid-grid each question fails."""
    from choroid.audit.audit import HubWitness
    from controller.signed_log.notes import COSIGNATURE, NoteKey

    witness = NoteKey.parse(key)
    if witness.algorithm != COSIGNATURE:
        raise UserError(f"the key of {witness.name} is that of a log. Next: take the line `witness` of its keys")

    def ask(part: JournalPart, rows: int) -> tuple[str, str]:
        confirmed_by = _grid("member.confirmation").confirmed_by
        contradiction = _grid("log.witness").Contradiction
        try:
            return asyncio.run(confirmed_by(witness, address, part, rows)), ""
        except contradiction as found:
            return "", found.confirmed

    return HubWitness(witness, ask)


def _grid(module: str) -> ModuleType:
    return load_extra(f"grid.{module}", "grid", needed_for="a hub as witness", otherwise="use folders as witnesses")


def _renew(arguments: argparse.Namespace) -> int:
    from choroid.audit.audit import renew

    answer = renew(
        arguments.data, rig=arguments.rig_name, key=arguments.key, folders=arguments.to, reason=arguments.reason
    )
    lines = [f"{answer['ended']} has ended: {answer['reason']}", *answer["troubles"]]
    emit(
        answer,
        as_json=arguments.json,
        text="\n".join([*lines, "Next: choroid audit witness, which begins the next log"]),
    )
    return 1 if answer["troubles"] else 0


def _verify(arguments: argparse.Namespace) -> int:
    from choroid.audit.audit import verifier_key, verify
    from choroid.audit.time_stamps import TimeAuthority
    from controller.signed_log.notes import NoteKey

    key = arguments.key or verifier_key(arguments.folder)
    notes: list[str] = []
    if arguments.ask:
        notes = asyncio.run(_grid("member.confirmation").held_by(arguments.ask, NoteKey.parse(key).name))
    answer = verify(
        arguments.folder,
        key=key,
        stores=arguments.checkpoints,
        notes=notes,
        hubs=[NoteKey.parse(each) for each in arguments.witness],
        authority=TimeAuthority(arguments.certificates) if arguments.certificates else None,
    )
    lines = [
        f"{answer['rows']} rows; the first {answer['signed_rows']} are as {answer['checkpoints']} checkpoints signed them"
    ]
    lines += [f"{name} has confirmed the first {rows}" for name, rows in answer["confirmed_rows"].items()]
    if answer["time_stamps"]:
        between = (
            f"from {answer['stamped_utc'][0]} to {answer['stamped_utc'][-1]}"
            if answer["stamped_utc"]
            else ("not verified. Next: --certificates of their authority")
        )
        lines.append(f"{answer['time_stamps']} time stamps, {between}")
    lines += [f"the log {each['log']} was ended: {each['reason']}" for each in answer["ended"]]
    emit(answer, as_json=arguments.json, text="\n".join(lines))
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from choroid.audit.audit import export

    answer = export(arguments.data, arguments.out, stores=arguments.checkpoints)
    emit(answer, as_json=arguments.json, text=f"{answer['rows']} rows in {answer['folder']}; key {answer['key']}")
    return 0
