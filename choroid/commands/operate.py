"""Parsers of commands to a running controller (`protocol`, `assay`, `alarm`, `bypass`, `user`, `agent`) and `repair`."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, named, params_option, subject
from choroid.common.extras import load_extra
from choroid.common.failure import UserError
from choroid.common.private import keep_files_private


def add(commands: Any) -> None:
    """Add `protocol`, `assay`, `alarm`, `bypass`, `user`, `agent` and `repair` to `commands`."""
    repair = command(commands, "repair", _repair, "examine a damaged or lost journal and repair it")
    repair.add_argument("data", type=Path, help="the data folder of a controller that does not run")
    repair.add_argument("--apply", action="store_true", help="repair; the old files are kept in a separate folder")
    repair.add_argument("--new-journal", action="store_true", help="start an empty journal; the old files are kept")
    repair.add_argument("--reason", default="", help="reason for the new journal, for its first row")
    json_option(repair)

    verbs = subject(commands, "protocol", "protocols on a running rig: start, pause, resume, answer, abort, review")
    start = command(verbs, "start", _protocol, "start a protocol")
    start.add_argument("protocol", help="its name, a recipe file (.yaml), or a Python file (.py)")
    params_option(start)
    for name, help_text in (
        ("pause", "stop the running transfer and hold"),
        ("resume", "continue with the remainder"),
        ("abort", "stop for good"),
        ("approve", "approve what a held run asks for"),
        ("reject", "reject what a held run asks for; needs --reason"),
        ("status", "where it stands"),
    ):
        verb = command(verbs, name, _protocol, help_text)
        verb.add_argument("run", nargs="?", help="the run (default: the active one, else the latest)")
    submit = command(verbs, "submit", _library, "upload a recipe or a Python protocol for review")
    submit.add_argument("file", type=Path, help="the file (.yaml or .py)")
    command(verbs, "list", _library, "list the uploaded versions and their states")
    for name, help_text in (
        ("show", "print the text of a version"),
        ("accept", "accept a submitted version, as another person than the one who submitted it"),
        ("refuse", "refuse a submitted version; needs --reason"),
        ("release", "let a reviewed version start"),
        ("withdraw", "let a version start no more"),
    ):
        command(verbs, name, _library, help_text).add_argument(
            "version", help="its sha256, or the first 6 characters or more"
        )
    answer = command(verbs, "answer", _protocol, "answer the question that a held run waits for")
    answer.add_argument(
        "answer", nargs="?", help='a number with its unit, such as "8.2 mM", one of the choices, or a text'
    )
    answer.add_argument("run", nargs="?", help="the run (default: the active one)")
    answer.add_argument("--file", type=Path, help="a photo or a file, instead of a text")
    answer.add_argument("--taken", default="", metavar="TIME", help="time of an assay's sample (default: now)")
    answer.add_argument("--sure", action="store_true", help="use an assay although it contradicts the estimate")
    for name, verb in verbs.choices.items():
        verb.set_defaults(verb=name)
        verb.add_argument("--data", type=Path, default=Path("choroid-data"), help="the running rig's data directory")
        verb.add_argument("--reason", default="", help="reason, for the record")
        json_option(verb)

    assays = subject(commands, "assay", "laboratory results of a running rig's medium: enter")
    assay = command(assays, "enter", _assay, "enter a laboratory result of a running rig's medium")
    assay.add_argument("analyte", help="lactate, glucose, ammonia, glutamine, bicarbonate, osmolality or ldh")
    assay.add_argument("value", help='value with unit, such as "8.2 mM"')
    assay.add_argument("--vessel", required=True, help="where the sample was taken: loop, spent, or a vessel's name")
    assay.add_argument(
        "--taken",
        required=True,
        metavar="TIME",
        help="time of the sample: 10:40 (today), or a date and time (2026-05-04T10:40)",
    )
    assay.add_argument("--sd", default="", help="standard deviation with unit (default: that of typical instruments)")
    assay.add_argument(
        "--volume",
        default="",
        help='volume of the sample if it left the rig, such as "0.5 mL": the ledger books it, once for all analytes of one'
        " sample (default: not booked)",
    )
    assay.add_argument("--method", default="", help="method, for the record")
    assay.add_argument("--zone", default="", help="time zone of --taken (default: that of the controller's machine)")
    assay.add_argument("--sure", action="store_true", help="use it although it contradicts the estimate")
    assay.add_argument("--data", type=Path, default=Path("choroid-data"), help="the running rig's data directory")
    assay.add_argument("--reason", default="", help="reason, for the record")
    json_option(assay)

    verbs = subject(commands, "bypass", "bypasses of interlocks of a running rig: list, start, end")
    command(verbs, "list", _bypass, "list the bypasses")
    start = command(verbs, "start", _bypass, "bypass an interlock for a short time")
    end = command(verbs, "end", _bypass, "end a bypass at once")
    for verb in (start, end):
        verb.add_argument("interlock", help="its name")
    start.add_argument("--minutes", type=float, default=15.0, help="duration, at most 60 (default 15)")
    start.add_argument("--reason", required=True, help="reason why it is safe, for the record")
    for name, verb in verbs.choices.items():
        verb.set_defaults(verb=name)
        verb.add_argument("--data", type=Path, default=Path("choroid-data"), help="the running rig's data directory")
        json_option(verb)
    _add_alarms(commands)

    verbs = subject(commands, "user", "accounts of a running rig: list, add, remove, revoke")
    command(verbs, "list", _users, "list all users, with every token, password and session")
    add = command(verbs, "add", _users, "create a token for a user; it is shown once")
    add.add_argument("--role", choices=("viewer", "operator", "engineer", "admin"), default="viewer")
    add.add_argument("--days", type=int, default=90, help="how long it is valid, 1 to 400 (default 90)")
    add.add_argument("--for", dest="purpose", default="", help="what it is for, such as “laptop” or “Grafana”")
    remove = command(verbs, "remove", _users, "revoke every token, password and session of a user at once")
    revoke = command(verbs, "revoke", _users, "revoke one token, password or session, and what was opened with it")
    revoke.add_argument("name", metavar="id", help="the id of the token, password or session, as the list shows it")
    for verb in (add, remove):
        verb.add_argument("name", help="name of the user, as shown in the record")
    for verb in (add, remove, revoke):
        verb.add_argument("--reason", default="", help="reason, for the record")
    for name, verb in verbs.choices.items():
        verb.set_defaults(verb=name)
        verb.add_argument("--data", type=Path, default=Path("choroid-data"), help="the running rig's data directory")
        json_option(verb)
    _add_agents(commands)


def _add_agents(commands: Any) -> None:
    verbs = subject(commands, "agent", "agents of a running rig's electrode engine: list, add, renew, remove, certify")
    command(verbs, "list", _agents, "list all agents, the revoked too")
    add = command(verbs, "add", _agents, "create a token for an agent; it is shown once")
    add.add_argument("--role", choices=("reader", "agent", "auditor"), default="agent")
    add.add_argument("--electrodes", default="", help="the only electrodes that it may stimulate, such as 0,1,5")
    add.add_argument("--nc-s", type=float, help="maximum charge in any second (nC)")
    add.add_argument("--pulses-min", type=float, help="maximum number of pulses in any minute")
    renew = command(verbs, "renew", _agents, "replace the token of an agent; the old one ends at once")
    remove = command(verbs, "remove", _agents, "revoke the token of an agent; its leases end at once")
    for verb in (add, renew, remove):
        verb.add_argument("name", help="name of the agent, as shown in the stimulation ledger")
        verb.add_argument("--reason", default="", help="reason, for the record")
    for name, verb in verbs.choices.items():
        verb.set_defaults(verb=name)
        verb.add_argument("--data", type=Path, default=Path("choroid-data"), help="the running rig's data directory")
        json_option(verb)
    _add_certificates(verbs)


def _add_certificates(verbs: Any) -> None:
    engine = command(
        verbs, "certify-engine", _certify, "make or renew the certificate of the engine, for other machines"
    )
    engine.add_argument(
        "--host", action="append", default=[], help="name or address by which agents reach it; repeatable"
    )
    agent = command(verbs, "certify", _certify, "make or renew the certificate of an agent on another machine")
    agent.add_argument("name", help="name of the agent; its token is another thing (add)")
    agent.add_argument(
        "--out", type=Path, required=True, help="folder for its key, certificate and the rig's authority"
    )
    for verb, days in ((engine, 365), (agent, 90)):
        verb.add_argument("--days", type=int, default=days, help=f"life in days (default {days})")
        verb.add_argument("--data", type=Path, default=Path("choroid-data"), help="the rig's data directory")
        json_option(verb)


def _add_alarms(commands: Any) -> None:
    verbs = subject(commands, "alarm", "the alarms of a running rig: list, acknowledge, shelve, test the channels")
    command(verbs, "list", _alarms, "every alarm that is announced, shelved or out of service, the most urgent first")
    for name, help_text in (
        ("acknowledge", "acknowledge an alarm: you have seen it and act"),
        ("shelve", "do not announce an alarm for a limited time; interlocks act as before"),
        ("take-out-of-service", "do not announce an alarm until it is returned to service"),
        ("return", "end shelving or out of service"),
    ):
        verb = command(verbs, name, _alarms, help_text)
        verb.add_argument("alarm", help="its id, as the list shows it, say device_lost:balance")
    verbs.choices["shelve"].add_argument("--for", dest="for_", metavar="TIME", required=True, help="say 30min")
    command(verbs, "list-channels", _alarms, "every channel: its priorities, its state, what waits")
    command(verbs, "test-channels", _alarms, "send a test message over every channel; exit status 1 if one fails")
    for name, verb in verbs.choices.items():
        verb.set_defaults(verb=name)
        verb.add_argument("--data", type=Path, default=Path("choroid-data"), help="the running rig's data directory")
        verb.add_argument(
            "--reason", default="", help="reason, for the record (shelve and take-out-of-service need one)"
        )
        json_option(verb)


def _protocol(arguments: argparse.Namespace) -> int:
    from choroid.operating.remote import act, as_text

    given, run = getattr(arguments, "answer", None), getattr(arguments, "run", None)
    file = getattr(arguments, "file", None)
    if arguments.verb == "answer" and (given is None) == (file is None):
        if file is None or run is not None:
            raise UserError("an answer is a text or --file, one of the two. Next: write one of them")
        given, run = None, given  # with --file the only word is the run
    answer = act(
        arguments.verb,
        data=arguments.data,
        run=run,
        protocol=getattr(arguments, "protocol", None),
        answer=given,
        file=file,
        taken=getattr(arguments, "taken", ""),
        sure=getattr(arguments, "sure", False),
        params=named(getattr(arguments, "params", [])),
        reason=arguments.reason,
    )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _library(arguments: argparse.Namespace) -> int:
    from choroid.operating.library import as_text, library

    answer = library(
        arguments.verb,
        data=arguments.data,
        file=getattr(arguments, "file", None),
        version=getattr(arguments, "version", ""),
        reason=arguments.reason,
    )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _assay(arguments: argparse.Namespace) -> int:
    from choroid.operating.assay import as_text, assay

    answer = assay(
        arguments.analyte,
        arguments.value,
        vessel=arguments.vessel,
        taken=arguments.taken,
        sd=arguments.sd,
        volume=arguments.volume,
        method=arguments.method,
        zone=arguments.zone,
        sure=arguments.sure,
        reason=arguments.reason,
        data=arguments.data,
    )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _bypass(arguments: argparse.Namespace) -> int:
    from choroid.operating.bypass import as_text, bypass

    answer = bypass(
        getattr(arguments, "interlock", None),
        data=arguments.data,
        minutes=getattr(arguments, "minutes", 0.0),
        reason=getattr(arguments, "reason", ""),
        end=arguments.verb == "end",
    )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _alarms(arguments: argparse.Namespace) -> int:
    from choroid.operating.alarms import alarms, as_text, check

    answer = alarms(
        arguments.verb,
        data=arguments.data,
        alarm=getattr(arguments, "alarm", ""),
        for_=getattr(arguments, "for_", ""),
        reason=arguments.reason,
    )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    if arguments.verb == "test-channels":
        check(answer)
    return 0


def _users(arguments: argparse.Namespace) -> int:
    from choroid.operating.users import as_text, users

    body: dict[str, Any] = {"reason": getattr(arguments, "reason", "")}
    if arguments.verb == "add":
        body |= {"role": arguments.role, "days": arguments.days, "purpose": arguments.purpose}
    answer = users(arguments.verb, data=arguments.data, name=getattr(arguments, "name", ""), body=body)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _agents(arguments: argparse.Namespace) -> int:
    from choroid.operating.agents import agents, as_text

    body: dict[str, Any] = {"reason": getattr(arguments, "reason", "")}
    if arguments.verb == "add":
        body |= {"role": arguments.role, "nc_s": arguments.nc_s, "pulses_min": arguments.pulses_min}
        try:
            body["electrodes"] = (
                [int(each) for each in arguments.electrodes.split(",")] if arguments.electrodes else None
            )
        except ValueError:
            raise UserError(
                f"“{arguments.electrodes}” names no electrodes. Next: write their numbers, as 0,1,5"
            ) from None
    answer = agents(arguments.verb, data=arguments.data, name=getattr(arguments, "name", ""), body=body)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _certify(arguments: argparse.Namespace) -> int:
    certificates = load_extra(
        "choroid.running.certificates",
        "grid",
        needed_for="making certificates",
        otherwise="put authority.pem, server.pem and server.key of your own into the folder nerves-tls of the data folder",
    )
    now = datetime.now(UTC)  # noqa: TID251  (certificates live in the machine's time)
    authority = certificates.RigAuthority(arguments.data, now)
    if hasattr(arguments, "host"):
        issued = authority.certify_engine(arguments.host, arguments.days)
    else:
        issued = authority.certify_agent(arguments.name, arguments.out, arguments.days)
    answer = {"name": issued.name, "files": [str(file) for file in issued.files], "expires_utc": issued.expires_utc}
    text = f"valid until {issued.expires_utc}:\n" + "\n".join(f"  {file}" for file in issued.files)
    emit(answer, as_json=arguments.json, text=text)
    return 0


def _repair(arguments: argparse.Namespace) -> int:
    from choroid.operating.repair import as_text, repair

    keep_files_private()
    answer = repair(arguments.data, do=arguments.apply, new_journal=arguments.new_journal, reason=arguments.reason)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if "done" in answer or not answer["needed"] else 1
