"""Parser of `choroid grid`."""

from __future__ import annotations

import argparse
import json
import math
import os
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from choroid.commands.options import command, emit, json_option, port, subject
from grid.commands.board_parser import add_boards
from grid.commands.job_parser import add_jobs
from grid.commands.parts import FOLDER, part
from grid.commands.plan_parser import add_plan
from grid.commands.tuning_parser import add_tuning


def add(verbs: Any) -> None:
    """Add the verbs of `choroid grid`."""
    _hub_parsers(verbs)
    _member_parsers(verbs)
    _lab_parser(verbs)
    _log_parsers(verbs)
    add_boards(verbs)
    add_plan(verbs)
    add_jobs(verbs)
    add_tuning(verbs)
    demo = command(verbs, "demo", _demo, "a whole grid on this computer: hub, page, members, laboratory, agent")
    demo.add_argument("--port", type=port, default=7780, help="port of the page (default 7780; 0: any)")
    demo.add_argument("--board", default="decode-stimulus", help="where the agent submits (default decode-stimulus)")
    demo.add_argument("--policy", type=Path, help="policy file of the hub (default: the one that comes with Choroid)")
    demo.add_argument("--data", type=Path, help="data folder (default: a temporary one)")
    demo.add_argument(
        "--train", action="store_true", help="instead: members train one model of two laboratories for a board"
    )


def data_option(parser: argparse.ArgumentParser, folder: Path = FOLDER) -> None:
    """Add `--data`."""
    parser.add_argument("--data", type=Path, default=folder, help=f"data folder (default: {folder})")


def _hub_parsers(verbs: Any) -> None:
    hubs = subject(verbs, "hub", "the hub of a grid: run, status, measure")
    hub = command(hubs, "run", _hub, "run a hub: admission, leases, log, relay")
    hub.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    hub.add_argument("--port", type=port, default=7700, help="port that members join at (default 7700; 0: any)")
    hub.add_argument("--member-port", type=port, default=7701, help="port for approved members (default 7701; 0: any)")
    hub.add_argument("--name", default="", help="name of a new hub and its log, such as grid.example.org/log")
    hub.add_argument(
        "--new-log", action="store_true", help="begin a new log, with a new name, where hub.sqlite is lost for good"
    )
    hub.add_argument("--policy", type=Path, help="policy file (default: the one that comes with Choroid)")
    hub.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="grade on this Ray cluster of the operator (local: on this machine); extra `bulk`",
    )
    hub.add_argument("--no-grading", action="store_true", help="take submissions of models, but grade none")
    data_option(hub, Path("choroid-hub"))
    page = command(
        subject(verbs, "page", "the web page of a hub: serve"),
        "serve",
        _page,
        "serve the web page of a hub; it only reads the hub's folder",
    )
    page.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    page.add_argument("--port", type=port, default=7780, help="its port (default 7780; 0: any)")
    page.add_argument("--name", action="append", default=[], help="host name by which it may be opened; repeatable")
    data_option(page, Path("choroid-hub"))
    status = command(hubs, "status", _status, "figures of a hub: members, tissue, leases, log")
    measure = command(hubs, "measure", _measure, "measure a hub with many connected members")
    measure.add_argument("--members", type=int, default=1000, help="how many (default 1000)")
    json_option(measure)
    members = subject(verbs, "member", "members and laboratories of a hub: list, approve, refuse, revoke")
    command(members, "list", _members, "list them, and what waits")
    for name in ("approve", "refuse", "revoke"):
        decision = command(members, name, _members, f"{name} a member or laboratory")
        decision.add_argument("member", help="its name, or the start of its identity")
    waiting = command(
        members, "refuse-waiting", _members, "refuse every request that waits; their names are free again"
    )
    waiting.add_argument("address", help="only those from this address (all: from any)")
    leases = subject(verbs, "lease", "leases of a hub: list, end, put first")
    command(leases, "list", _leases, "list leases")
    end = command(leases, "end", _leases, "end a lease now")
    first = command(leases, "put-first", _leases, "let a lease be the next in its queue")
    for parser in (end, first):
        parser.add_argument("lease", help="its id, as the list shows it")
    decisions = (parser for name, parser in members.choices.items() if name != "list")
    for parser in (*decisions, end, first):
        parser.add_argument("--reason", default="", help="reason, for the log")
    for group in (members, leases):
        for name, parser in group.choices.items():
            parser.set_defaults(verb=name)
    for parser in (status, *members.choices.values(), *leases.choices.values()):
        data_option(parser, Path("choroid-hub"))
        json_option(parser)


def _member_parsers(verbs: Any) -> None:
    identities = subject(verbs, "identity", "the identity of this member, laboratory or hub: show")
    identity = command(identities, "show", _identity, "print the identity of this member, laboratory or hub")
    data_option(identity)
    json_option(identity)
    join = command(verbs, "join", _join, "join a grid and lend this computer")
    join.add_argument(
        "hub", nargs="?", default="", help="host:port#fingerprint, as the hub prints it (default: as before)"
    )
    join.add_argument("--name", default="", help="name in the grid (default: the machine's)")
    join.add_argument(
        "--work", action="store_true", help="take work leases: open tunnels to the other members of a job, train a rank"
    )
    join.add_argument(
        "--loopback",
        default="",
        metavar="127.B",
        help="first half of the addresses of jobs; members on one machine have different ones (default 127.77)",
    )
    join.add_argument(
        "--store", type=Path, metavar="FOLDER", help="keep replicas of data sets of others there, under work leases"
    )
    join.add_argument(
        "--quota",
        type=float,
        default=math.inf,
        metavar="GB",
        help="most that the replicas may take (default: no limit)",
    )
    data_option(join)
    relay = command(verbs, "relay", _relay, "join a grid and relay the encrypted tunnels of others")
    relay.add_argument(
        "hub", nargs="?", default="", help="host:port#fingerprint, as the hub prints it (default: as before)"
    )
    relay.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    relay.add_argument("--port", type=port, default=7702, help="port that members dial (default 7702; 0: any)")
    relay.add_argument("--address", default="", help="host that members dial (default: the address that the hub sees)")
    relay.add_argument("--name", default="", help="name in the grid (default: the machine's)")
    data_option(relay, Path("choroid-grid-relay"))


def _lab_parser(verbs: Any) -> None:
    labs = subject(verbs, "lab", "a laboratory of a grid: join")
    lab = command(labs, "join", _lab, "join a grid and offer the electrode array of a running rig")
    lab.add_argument(
        "hub", nargs="?", default="", help="host:port#fingerprint, as the hub prints it (default: as before)"
    )
    lab.add_argument("--rig", type=Path, default=Path("choroid-data"), help="the running rig's data folder")
    lab.add_argument("--organoid", default="organoid", help="name under which its tissue is offered")
    lab.add_argument("--name", default="", help="name in the grid (default: the machine's)")
    data_option(lab, Path("choroid-grid-lab"))


def _log_parsers(verbs: Any) -> None:
    actions = subject(verbs, "log", "the hub's log: rows, keys, proofs, verification")
    show = command(actions, "show", _log, "print the last rows")
    show.add_argument("--limit", type=int, default=20, help="how many (default 20)")
    command(actions, "show-keys", _log, "print the verifier keys of the log and of the hub as a witness")
    witness = command(actions, "witness", _log, "ask another hub to confirm this hub's log from now on")
    witness.add_argument("key", help="verifier key of the witness, from its operator")
    witness.add_argument("--at", required=True, metavar="ADDRESS", help="host:port#fingerprint, as members join with")
    watch = command(actions, "watch", _log, "be a witness of another hub's log from now on")
    watch.add_argument("key", help="verifier key of the log, from its operator")
    command(actions, "list-watched", _log, "list the logs that this hub is a witness of")
    export = command(actions, "export", _log, "write rows, checkpoint and key for verification on another machine")
    export.add_argument("folder", type=Path, help="the folder to write")
    prove = command(actions, "prove", _log, "print the proof that a row is in the log")
    prove.add_argument("row", type=int, help="number of the row, from 0")
    verify = command(actions, "verify", _log, "verify chain, tree, signatures and witnesses")
    verify.add_argument("source", type=Path, nargs="?", help="an exported folder (default: --data)")
    verify.add_argument("--key", default="", help="verifier key of the log, from its operator")
    verify.add_argument("--witness", action="append", default=[], metavar="KEY", help="verifier key of a witness")
    verify.add_argument("--required", type=int, default=0, help="how many witnesses have to confirm (default 0)")
    verify.add_argument(
        "--ask",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="address of a witness: compare with what it has seen",
    )
    verify.add_argument("--kept", type=Path, help="file with the checkpoint of the last verification; renewed")
    for name, parser in actions.choices.items():
        parser.set_defaults(action=name)
        data_option(parser, Path("choroid-hub"))
        json_option(parser)


def _say(text: str) -> None:
    print(text, flush=True)


def _hub(arguments: argparse.Namespace) -> int:
    processes = part("processes")
    with ExitStack() as stack:
        executor = None
        if arguments.ray is not None:
            from grid.tasks.rollouts import executor_of

            executor = stack.enter_context(executor_of(1, arguments.ray))
        processes.hub(_hub_settings(processes, arguments, executor), _say)
    return 0


def _hub_settings(processes: ModuleType, arguments: argparse.Namespace, executor: Executor | None) -> Any:
    return processes.HubSettings(
        arguments.data,
        host=arguments.host,
        enrolment_port=arguments.port,
        member_port=arguments.member_port,
        name=arguments.name,
        new_log=arguments.new_log,
        policy=arguments.policy,
        grading=not arguments.no_grading,
        executor=executor,
    )


def _page(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # Landlock binds one thread: no library may have started others
    part("page").page(arguments.data, arguments.host, arguments.port, arguments.name, _say)
    return 0


def _join(arguments: argparse.Namespace) -> int:
    part("processes").join(
        *(arguments.hub, arguments.data, arguments.name, _say),
        work=arguments.work,
        loopback=arguments.loopback,
        store=arguments.store,
        quota_bytes=1e9 * arguments.quota,
    )
    return 0


def _relay(arguments: argparse.Namespace) -> int:
    listen = arguments.host, arguments.port
    part("processes").relay(arguments.hub, arguments.data, arguments.name, listen, arguments.address, _say)
    return 0


def _lab(arguments: argparse.Namespace) -> int:
    part("processes").lab(arguments.hub, arguments.data, arguments.name, arguments.rig, arguments.organoid, _say)
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    operate, submissions = part("operate"), part("submissions")
    from grid.commands.demo import GridDemo, HubOperator, demo_folder, grid_demo

    operator = HubOperator(
        states=lambda hub: {each["name"]: each["state"] for each in operate.members(hub)["members"]},
        approve=lambda hub, name: operate.members(hub, decision="approve", who=name, reason="demo"),
        ranking=lambda member, board: list(submissions.board(member, board)["rows"]),
    )
    with demo_folder(arguments.data) as folder:
        story = part("training_demo").train if arguments.train else None
        grid_demo(GridDemo(folder, arguments.port, arguments.board, arguments.policy), operator, story)
    return 0


def _measure(arguments: argparse.Namespace) -> int:
    answer = part("bench").bench(arguments.members)
    emit(answer, as_json=arguments.json, text="\n".join(f"{name}: {value}" for name, value in answer.items()))
    return 0


def _status(arguments: argparse.Namespace) -> int:
    operate = part("operate")
    answer = operate.status(arguments.data)
    emit(answer, as_json=arguments.json, text=operate.status_text(answer))
    return 0


def _members(arguments: argparse.Namespace) -> int:
    operate = part("operate")
    who, address = getattr(arguments, "member", ""), getattr(arguments, "address", "")
    answer = operate.members(
        arguments.data,
        decision=arguments.verb if who else "",
        who=who,
        refuse_waiting=address,
        reason=getattr(arguments, "reason", ""),
    )
    emit(answer, as_json=arguments.json, text=operate.members_text(answer))
    return 0


def _leases(arguments: argparse.Namespace) -> int:
    operate = part("operate")
    lease = getattr(arguments, "lease", "")
    answer = operate.leases(
        arguments.data,
        end=lease if arguments.verb == "end" else "",
        first=lease if arguments.verb == "put-first" else "",
        reason=getattr(arguments, "reason", ""),
    )
    emit(answer, as_json=arguments.json, text=operate.leases_text(answer))
    return 0


def _identity(arguments: argparse.Namespace) -> int:
    answer = part("identity").identity(arguments.data)
    emit(answer, as_json=arguments.json, text=answer["id"])
    return 0


def _log(arguments: argparse.Namespace) -> int:
    log = part("log")
    if arguments.action == "show":
        answer = log.show(arguments.data, arguments.limit)
        text = "\n".join(json.dumps(row, ensure_ascii=False) for row in answer["rows"])
    elif arguments.action == "list-watched":
        answer = log.watched(arguments.data)
        text = "\n".join(
            f"{each['log']}: {each['rows']} rows; {each['trouble'] or 'sound'}" for each in answer["watched"]
        )
    elif arguments.action == "verify":
        answer = log.verify(
            arguments.source or arguments.data,
            key=arguments.key,
            witnesses=arguments.witness,
            required=arguments.required,
            kept=arguments.kept,
            asked=arguments.ask,
        )
        text = f"the log is sound: {answer['rows']} rows, {len(answer['witnesses'])} witnesses"
    else:
        named = {
            "show-keys": lambda: log.keys(arguments.data),
            "prove": lambda: log.prove(arguments.data, arguments.row),
            "witness": lambda: log.ask(arguments.data, arguments.key, arguments.at),
            "watch": lambda: log.watch(arguments.data, arguments.key),
            "export": lambda: log.export(arguments.data, arguments.folder),
        }
        answer = named[arguments.action]()
        text = "\n".join(f"{name}: {value}" for name, value in answer.items())
    emit(answer, as_json=arguments.json, text=text)
    return 0
