"""The `choroid` command: parse words, call one function, print its answer.

Each subcommand's work lives in its own module and is imported only when it is asked for, so that `choroid --help`
stays instant. Exit status: 0 done, 1 the thing asked for failed (and said why), 2 the words make no sense.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from choroid import comparison_command, handover_command
from choroid.kills import commands as kills
from choroid.report import command as report
from choroid.sensitivity import commands as sensitivity
from choroid.tools import commands as tools
from choroid.tools import ledger_commands

Handler = Callable[[argparse.Namespace], int]


def main(argv: list[str] | None = None) -> int:
    """Run the command; `argv` defaults to the process's own arguments."""
    arguments = _parser().parse_args(argv)
    handler: Handler = arguments.handler
    try:
        return handler(arguments)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from choroid.failure import explain

        text = explain(error)
        if text is None:
            raise
        print(f"choroid: {text}", file=sys.stderr)
        return 1


def emit(answer: Mapping[str, Any], *, as_json: bool, text: str) -> None:
    """Print one JSON object alone, or the text for people."""
    print(json.dumps(answer, ensure_ascii=False) if as_json else text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="choroid", description="Keeps brain organoids alive and lets computers talk with them."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    demo = _command(commands, "demo", _demo, "watch a simulated rig live on a page")
    demo.add_argument("--port", type=int, default=8090, help="the page's port on 127.0.0.1 (default 8090)")
    demo.add_argument("--for", dest="duration", metavar="TIME", help="end by itself after this long, say 60s or 5min")
    demo.add_argument("--speed", type=float, default=60.0, help="times life, 1 to 600 (default 60)")
    demo.add_argument("--seed", type=int, default=1, help="the simulated lab's seed (default 1)")
    demo.add_argument("--rig", type=Path, help="a rig whose links are all sim: (default: the bench rig)")
    demo.add_argument("--data", type=Path, help="where journal and history live (default: a temporary directory)")

    run = _command(commands, "run", _run, "run a rig: the controller, its page and its nerves")
    run.add_argument("rig", type=Path, help="the rig file")
    run.add_argument(
        "--data", type=Path, default=Path("choroid-data"), help="journal and history (default ./choroid-data)"
    )
    run.add_argument("--host", default="127.0.0.1", help="address of the page (default 127.0.0.1)")
    run.add_argument("--port", type=int, default=8090, help="port of the page (default 8090; 0 = any free one)")
    run.add_argument("--capture", type=Path, metavar="FILE", help="keep every byte of every link (see choroid replay)")

    lab = _command(commands, "lab", _lab, "serve a rig's simulated devices over TCP and pty, in real time")
    lab.add_argument("rig", type=Path, help="the rig file")
    lab.add_argument("--host", default="127.0.0.1", help="address to serve on (default 127.0.0.1)")
    lab.add_argument("--base-port", type=int, default=0, help="first TCP port (default: any free ones)")
    lab.add_argument("--pty", action="store_true", help="serve pseudo-terminals instead of TCP")
    lab.add_argument("--speed", type=float, default=1.0, help="times life, 1 to 600 (default 1)")
    lab.add_argument("--seed", type=int, default=1, help="the lab's seed (default 1)")
    lab.add_argument("--write", type=Path, metavar="FILE", help="write a rig file that points at the endpoints")
    lab.add_argument("--faults", type=Path, metavar="FILE", help="faults that befall it, at a time or by chance (YAML)")
    lab.add_argument("--by-hand", action="store_true", help="take faults typed in, such as: unplug sim:gas for 30 s")
    lab.add_argument("--for", dest="duration", metavar="TIME", help="end by itself after this long")
    _json(lab)

    simulate = _command(commands, "simulate", _simulate, "run the whole stack on the simulated lab in virtual time")
    simulate.add_argument("rig", type=Path, help="the rig file")
    simulate.add_argument("--protocol", default="recycle", help="a protocol's name or file (default recycle)")
    simulate.add_argument("--days", type=float, default=1.0, help="days of life (default 1)")
    simulate.add_argument("--seed", type=int, default=1, help="the lab's seed (default 1)")
    simulate.add_argument("--data", type=Path, help="keep journal and history here (default: thrown away)")
    simulate.add_argument("--capture", type=Path, metavar="FILE", help="keep every byte of every link")
    _params(simulate)
    _json(simulate)

    campaign = _command(commands, "campaign", _campaign, "the whole stack with faults drawn at random, many times over")
    campaign.add_argument("--runs", type=int, default=20, help="how many trials (default 20)")
    campaign.add_argument("--days", type=float, default=0.25, help="days of life of each (default 0.25)")
    campaign.add_argument("--seed", type=int, default=1, help="all is drawn from it (default 1)")
    campaign.add_argument("--jobs", type=int, help="processes (default: one for each processor)")
    campaign.add_argument("--faults", type=Path, metavar="FILE", help="the same faults for every trial (JSON)")
    campaign.add_argument("--without", metavar="INTERLOCK", help="take interlocks away (a,b), to see it fail")
    campaign.add_argument("--resume", type=Path, metavar="DIR", help="keep finished trials here; go on where it ended")
    campaign.add_argument(
        "--ray", metavar="ADDRESS", help="run the trials on this Ray cluster (local: on this machine)"
    )
    campaign.add_argument("--replay", metavar="TEXT_OR_FILE", help="run one trial again")
    _json(campaign)

    plan = _command(commands, "plan", _plan, "what a protocol would do: the same run, on the twin")
    plan.add_argument("rig", type=Path, help="the rig file")
    plan.add_argument("protocol", help="the protocol's name or file")
    plan.add_argument("--hours", type=float, default=24.0, help="look this far ahead (default 24)")
    plan.add_argument("--seed", type=int, default=1, help="the twin's seed (default 1)")
    plan.add_argument(
        "--data", type=Path, help="begin where this data directory's journal ends (default: the rig file)"
    )
    plan.add_argument("--svg", type=Path, metavar="FILE", help="write a picture of the steps there")
    _params(plan)
    _json(plan)

    check = _command(commands, "check", _check, "is this rig file sound?")
    check.add_argument("rig", type=Path, help="the rig file")
    _json(check)

    devices = _command(commands, "devices", _devices, "the devices that have drivers")
    _json(devices)
    tools.add(commands)
    ledger_commands.add(commands)
    comparison_command.add(commands)
    kills.add(commands)
    handover_command.add(commands)
    report.add(commands)

    protocol = commands.add_parser("protocol", help="start, pause, resume, abort a protocol on a running rig")
    verbs = protocol.add_subparsers(title="verbs", metavar="VERB", required=True)
    start = _command(verbs, "start", _protocol, "start a protocol")
    start.add_argument("protocol", help="its name, or a recipe file (.yaml)")
    _params(start)
    for name, help_text in (
        ("pause", "stop its running transfer and hold"),
        ("resume", "go on with the remainder"),
        ("abort", "stop for good"),
        ("status", "where it stands"),
    ):
        verb = _command(verbs, name, _protocol, help_text)
        verb.add_argument("run", nargs="?", help="the run (default: the one that is active, else the latest)")
    for name, verb in verbs.choices.items():
        verb.set_defaults(verb=name)
        verb.add_argument("--data", type=Path, default=Path("choroid-data"), help="the running rig's data directory")
        verb.add_argument("--reason", default="", help="why, for the record")
        _json(verb)

    assay = _command(commands, "assay", _assay, "tell a running rig what the laboratory found in its medium")
    assay.add_argument("analyte", help="lactate, glucose, ammonia, glutamine, bicarbonate or osmolality")
    assay.add_argument("value", help='with its unit, say "8.2 mM"')
    assay.add_argument("--vessel", required=True, help="where the sample was taken: loop, spent, or a vessel's name")
    assay.add_argument(
        "--taken", required=True, metavar="TIME", help="when: 10:40 (today), or a date and time (2026-05-04T10:40)"
    )
    assay.add_argument("--sd", default="", help="its standard deviation with unit (default: that of usual instruments)")
    assay.add_argument("--method", default="", help="how it was measured, for the record")
    assay.add_argument("--zone", default="", help="time zone of --taken (default: that of the controller's machine)")
    assay.add_argument("--sure", action="store_true", help="use it although it contradicts the estimate")
    assay.add_argument("--data", type=Path, default=Path("choroid-data"), help="the running rig's data directory")
    assay.add_argument("--reason", default="", help="why, for the record")
    _json(assay)

    users = commands.add_parser("users", help="who may use a running rig's page: list, add, remove")
    verbs = users.add_subparsers(title="verbs", metavar="VERB", required=True)
    _command(verbs, "list", _users, "everybody who holds a token or a session")
    add = _command(verbs, "add", _users, "give somebody a token; it is shown once")
    add.add_argument("--role", choices=("viewer", "operator", "engineer", "admin"), default="viewer")
    remove = _command(verbs, "remove", _users, "take back every token and session of somebody, at once")
    for verb in (add, remove):
        verb.add_argument("name", help="their name, as the record shall show it")
        verb.add_argument("--reason", default="", help="why, for the record")
    for name, verb in verbs.choices.items():
        verb.set_defaults(verb=name)
        verb.add_argument("--data", type=Path, default=Path("choroid-data"), help="the running rig's data directory")
        _json(verb)

    validate = _command(commands, "validate", _validate, "the simulated plant beside what papers report, V1 to V12")
    validate.add_argument("--plots", type=Path, metavar="DIR", help="write figures there (needs matplotlib)")
    _json(validate)

    sensitivity.add(commands)
    bench = _command(commands, "bench", _bench, "measure the numbers of the house on this machine")
    bench.add_argument("only", nargs="*", help="names of benchmarks (default: all)")
    trial = bench.add_argument_group("of the estimator")
    trial.add_argument("--seeds", type=int, help="how many cultures (default 20)")
    trial.add_argument("--days", type=float, help="days of life of each (default 14)")
    trial.add_argument("--first", type=int, metavar="SEED", help="the first seed (default 201)")
    trial.add_argument("--jobs", type=int, help="processes (default: one for each processor)")
    trial.add_argument(
        "--whole", action="store_true", default=None, help="through the whole stack: slower by far (default: light)"
    )
    _json(bench)
    return parser


def _command(commands: Any, name: str, handler: Handler, help_text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text)
    parser.set_defaults(handler=handler, json=False)
    return parser


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output, nothing else there")


def _params(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="params",
        action="append",
        default=[],
        metavar="NAME=QUANTITY",
        help='say batch="18 mL"; repeatable',
    )


def _named(params: list[str]) -> dict[str, str]:
    named = {}
    for text in params:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise SystemExit(f'choroid: --set {text}: write NAME=QUANTITY, for example --set batch="18 mL"')
        named[name.strip()] = value.strip()
    return named


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    from controller.rig.quantities import parse_quantity

    return parse_quantity(text, "s")


def _demo(arguments: argparse.Namespace) -> int:
    from choroid.demo import demo

    return demo(
        rig_path=arguments.rig,
        port=arguments.port,
        duration_s=_seconds(arguments.duration),
        speed=arguments.speed,
        seed=arguments.seed,
        data=arguments.data,
    )


def _run(arguments: argparse.Namespace) -> int:
    from choroid.run import run

    return run(arguments.rig, data=arguments.data, host=arguments.host, port=arguments.port, capture=arguments.capture)


def _lab(arguments: argparse.Namespace) -> int:
    from choroid.lab import lab

    return lab(
        arguments.rig,
        host=arguments.host,
        base_port=arguments.base_port,
        pty=arguments.pty,
        speed=arguments.speed,
        seed=arguments.seed,
        write=arguments.write,
        duration_s=_seconds(arguments.duration),
        as_json=arguments.json,
        faults=arguments.faults,
        by_hand=arguments.by_hand,
    )


def _simulate(arguments: argparse.Namespace) -> int:
    from choroid.simulate import as_text, simulate

    answer = simulate(
        arguments.rig,
        protocol=arguments.protocol,
        params=_named(arguments.params),
        days=arguments.days,
        seed=arguments.seed,
        data=arguments.data,
        capture=arguments.capture,
    )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if not answer["violations"] else 1


def _campaign(arguments: argparse.Namespace) -> int:
    from choroid.campaign.campaign import campaign, default_jobs, replay
    from choroid.campaign.report import as_text

    if arguments.replay is not None:
        answer = replay(arguments.replay)
    else:
        answer = campaign(
            runs=arguments.runs,
            days=arguments.days,
            seed=arguments.seed,
            jobs=default_jobs() if arguments.jobs is None else arguments.jobs,
            faults=arguments.faults,
            without=arguments.without,
            resume=arguments.resume,
            ray=arguments.ray,
        )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if not answer["violations"] else 1


def _plan(arguments: argparse.Namespace) -> int:
    from choroid.plan import as_text, plan

    answer = plan(
        arguments.rig,
        protocol=arguments.protocol,
        params=_named(arguments.params),
        hours=arguments.hours,
        seed=arguments.seed,
        data=arguments.data,
        svg=arguments.svg,
    )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if answer["feasible"] else 1


def _check(arguments: argparse.Namespace) -> int:
    from choroid.check import as_text, check

    answer = check(arguments.rig)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if answer["ok"] else 1


def _devices(arguments: argparse.Namespace) -> int:
    from choroid.devices import as_text, devices

    if (done := tools.devices(arguments)) is not None:
        return done
    answer = devices()
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _protocol(arguments: argparse.Namespace) -> int:
    from choroid.remote import act, as_text

    answer = act(
        arguments.verb,
        data=arguments.data,
        run=getattr(arguments, "run", None),
        protocol=getattr(arguments, "protocol", None),
        params=_named(getattr(arguments, "params", [])),
        reason=arguments.reason,
    )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _assay(arguments: argparse.Namespace) -> int:
    from choroid.assay import as_text, assay

    answer = assay(
        arguments.analyte,
        arguments.value,
        vessel=arguments.vessel,
        taken=arguments.taken,
        sd=arguments.sd,
        method=arguments.method,
        zone=arguments.zone,
        sure=arguments.sure,
        reason=arguments.reason,
        data=arguments.data,
    )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _users(arguments: argparse.Namespace) -> int:
    from choroid.users import as_text, users

    answer = users(
        arguments.verb,
        data=arguments.data,
        name=getattr(arguments, "name", ""),
        role=getattr(arguments, "role", ""),
        reason=getattr(arguments, "reason", ""),
    )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _validate(arguments: argparse.Namespace) -> int:
    from choroid.validate import as_text, validate

    answer = validate(arguments.plots)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0


def _bench(arguments: argparse.Namespace) -> int:
    from choroid.bench import as_text, bench

    options = {name: getattr(arguments, name) for name in ("seeds", "days", "first", "jobs", "whole")}
    answer = bench(arguments.only, {name: value for name, value in options.items() if value is not None})
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0
