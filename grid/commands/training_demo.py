"""`choroid grid demo --train`: members train one model of two laboratories, one is killed and comes back, a board judges.

A hub, its page, a relay, two laboratories with recordings of simulated organoids, three members: each a process of its own.
The first laboratory plans the job and submits it. Its own model, of its own recordings alone, goes to the same board.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import yaml

from choroid.common.failure import UserError
from choroid.demo.parts import DemoParts
from grid.commands.demo import (
    CHOROID,
    GridDemo,
    HubOperator,
    admitted,
    done,
    graded,
    look,
    patience_of,
    say,
    start_hub,
    until,
)
from grid.data.data_sets import DataSets
from grid.data.sealing import as_reader
from grid.hub.members import Members
from grid.hub.store import Store
from grid.hub.work import WorkBook
from grid.identity.keys import IdentityKey
from grid.member.tissue import GridClient
from grid.policy.policy import load_policy
from grid.wire import grid_pb2 as pb
from grid.work.served import WORK_FILE

LABORATORIES = ("laboratory-1", "laboratory-2")
MEMBERS = ("member-1", "member-2", "member-3")
BOARD = "held-out-spikes"
"""Its organoids are in no recording: a model of more organoids knows more of them."""
SPECIMEN = 7
"""Number of an organoid of which a new user has some minutes."""
MINUTES = 2
OUTER_STEPS, LOCAL_STEPS, BATCH = 12, 40, 32
KILLED_AFTER = 4
"""Exchanges after which a member is killed."""
END_S = 3600.0
"""Longest training (s in which the parts could run)."""
POLL_S = 0.5


async def train(settings: GridDemo, operator: HubOperator, parts: DemoParts) -> None:
    """Show the training of a job, and its model on a board."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    if (settings.data / "recordings").exists():
        raise UserError(f"{settings.data} has a former demo. Next: give a new folder with --data, or none")
    settings = settings if settings.policy else replace(settings, policy=_lenient(settings.data / "policy.yaml"))
    say("the training environment is prepared, once on each computer")
    await done("prepare", parts, "grid", "prepare", "train")
    await start_hub(settings, parts)
    address = (settings.hub / "address.txt").read_text(encoding="utf-8").strip()
    relay = ("--data", str(settings.data / "relay"), "--name", "relay", "--port", "0")
    await parts.start("relay", *CHOROID, "grid", "relay", address, *relay)
    for name in (*LABORATORIES, *MEMBERS):
        await _join(name, address, settings, parts)
    for name in ("relay", *LABORATORIES, *MEMBERS):
        await admitted(name, settings.hub, operator, parts)
    sets = await _recordings(settings, parts)
    job = settings.data / "job.yaml"
    owner = settings.data / LABORATORIES[0]
    job.write_text(_manifest("two-laboratories", sets, len(MEMBERS)))
    single = settings.data / "single.yaml"
    single.write_text(_manifest("one-laboratory", sets[:1], 1, outer_steps=OUTER_STEPS * len(MEMBERS)))
    say(f"the plan, for members that are like this computer:\n{await _planned(job, single, owner, settings, parts)}")
    model = await _trained(job, settings, parts)
    say("the first laboratory trains as many steps alone")
    answer = json.loads(await done("alone", parts, "grid", "job", "run", str(single), "--data", str(owner), "--json"))
    scores = {}
    submitted = (("two-laboratories", model, MEMBERS[0]), ("one-laboratory", Path(answer["model"]), LABORATORIES[0]))
    for name, found, by in submitted:  # of one member, a board would show the better score for both
        scores[name] = await _on_board(name, found, settings.data / by, settings, operator, parts)
    better = "above" if scores["two-laboratories"] > scores["one-laboratory"] else "not above"
    took_s = loop.time() - start
    say(
        f"{BOARD}: the model of two laboratories has {scores['two-laboratories']:.4g}, {better} that of one laboratory"
        f" ({scores['one-laboratory']:.4g}), {took_s:.0f} s after the start"
    )
    await asyncio.Event().wait()


def _lenient(file: Path) -> Path:
    """Write the rules that come with Choroid, but that any speed will do: all share this computer, which may be busy."""
    rules = load_policy().model_dump(mode="json")
    for role in ("compute", "storage", "relay"):
        rules["roles"][role] = [{"figure": each["figure"], "min": 1e-9} for each in rules["roles"][role]]
    rules["min_share"] = 1e-9
    file.write_text(yaml.safe_dump(rules))
    return file


async def _join(name: str, address: str, settings: GridDemo, parts: DemoParts) -> None:
    number = (*LABORATORIES, *MEMBERS).index(name)
    where = ("--name", name, "--data", str(settings.data / name), "--work", "--loopback", f"127.{80 + number}")
    await parts.start(name, *CHOROID, "grid", "join", address, *where)


async def _recordings(settings: GridDemo, parts: DemoParts) -> list[str]:
    """Record in both laboratories, and give the members encrypted replicas; return the ids of the data sets."""
    folder, store = settings.data / "recordings", settings.data / "file-server"
    say("recordings of the laboratories are simulated")
    few = ("--laboratories", str(len(LABORATORIES)), "--organoids", "4", "--minutes", str(MINUTES))
    await done("simulate", parts, "grid", "data", "simulate", str(folder), *few)
    one = ("--specimen", str(SPECIMEN), "--minutes", str(MINUTES))
    await done("specimen", parts, "grid", "data", "simulate", str(folder), *one)
    keys = [as_reader(IdentityKey.in_folder(settings.data / name).public) for name in (LABORATORIES[0], *MEMBERS)]
    readers = [word for key in keys for word in ("--reader", key)]
    found = []
    for name in LABORATORIES:
        data = ("--data", str(settings.data / name))
        share = ("--share", "members", *readers, *data)
        await done(f"{name}-adds", parts, "grid", "data", "add", str(folder / name), "--name", name, *share)
        await done(f"{name}-replicates", parts, "grid", "data", "replicate", name, str(store), *data)
        with closing(DataSets(settings.data / name).open(name)) as opened:
            found.append(opened.manifest.id)
    submitter = IdentityKey.in_folder(settings.data / LABORATORIES[0]).id
    allow = ("grid", "data", "allow", "--jobs-of", submitter)
    for name in (LABORATORIES[0], *MEMBERS):
        await done(f"{name}-takes", parts, "grid", "data", "take", str(store), "--data", str(settings.data / name))
    for name in MEMBERS:  # the first laboratory submits, over data of the second one, too
        await done(f"{name}-allows", parts, *allow, LABORATORIES[1], "--data", str(settings.data / name))
    say("each member has encrypted replicas of both laboratories")
    return found


def _manifest(name: str, sets: Sequence[str], ranks: int, *, outer_steps: int = OUTER_STEPS) -> str:
    """Return a job with as many samples whatever the number of its ranks is."""
    return yaml.safe_dump(
        {
            "name": name,
            "preset": "tiny",
            "data": {"train": list(sets), "test": list(sets)},
            "ranks": {"max": ranks},
            "local_steps": LOCAL_STEPS,
            "outer_steps": outer_steps,
            "batch": BATCH,
            "inner": {"rate": 1e-3, "decay": 0.02, "warm_up": LOCAL_STEPS},
            "budget": {"core_hours": 4, "bytes": 2_000_000_000},
            "threads": 1,
        }
    )


async def _planned(job: Path, single: Path, owner: Path, settings: GridDemo, parts: DemoParts) -> str:
    """Measure this computer, and plan the job for as many of its kind as there are members."""
    probes = [settings.data / f"{name}.json" for name in MEMBERS]
    measured = ("--here", MEMBERS[0], "--keep", str(probes[0]), "--data", str(owner))
    await done("measure", parts, "grid", "plan", str(single), *measured)
    for probe, name in zip(probes[1:], MEMBERS[1:], strict=True):
        probe.write_text(json.dumps({**json.loads(probes[0].read_bytes()), "name": name}))
    given = [word for probe in (*probes, *await _links(owner, settings, parts)) for word in ("--probe", str(probe))]
    return (await done("plan", parts, "grid", "plan", str(job), *given, "--data", str(owner))).rstrip()


async def _links(owner: Path, settings: GridDemo, parts: DemoParts) -> list[Path]:
    """Measure the tunnels between the members."""
    files = [settings.data / f"links-{name}.json" for name in MEMBERS]
    async with GridClient(owner) as client, client.work("links", MEMBERS, wait_s=None):
        for name in MEMBERS:
            await until((settings.data / name / WORK_FILE).exists, f"the tunnels of {name}", parts, name, "relay")
            measure = (sys.executable, "-P", "-m", "grid.planning.links", str(settings.data / name / WORK_FILE))
            await parts.start(f"links-{name}", *measure, ends=True)
        for name, file in zip(MEMBERS, files, strict=True):
            await parts.ended(f"links-{name}")
            file.write_text(parts.said(f"links-{name}"))
    return files


async def _trained(job: Path, settings: GridDemo, parts: DemoParts) -> Path:
    """Submit the job, kill a member on the way and start it again; return the model."""
    owner, members = settings.data / LABORATORIES[0], [word for name in MEMBERS for word in ("--member", name)]
    await parts.start("job", *CHOROID, "grid", "job", "submit", str(job), *members, "--data", str(owner), ends=True)
    say(f"{LABORATORIES[0]} submits the job to {', '.join(MEMBERS)}")
    address = (settings.hub / "address.txt").read_text(encoding="utf-8").strip()
    patience = patience_of(parts, parts.names, END_S)
    killed, said, ending = False, 0, asyncio.create_task(parts.ended("job"))
    while not ending.done():
        reports = await asyncio.to_thread(_reports, settings.hub)
        outer = max((each.outer for each in reports), default=0)
        if outer > said:
            said = outer
            said_of = [f"{MEMBERS[each.rank]}: {each.outer} of {OUTER_STEPS}, loss {each.loss:.4g}" for each in reports]
            say("exchanges: " + "; ".join(said_of))
        if outer >= KILLED_AFTER and not killed:
            killed = True
            say(f"{MEMBERS[1]} is killed, and comes back")
            parts.kill(MEMBERS[1])
            await _join(MEMBERS[1], address, settings, parts)
            patience = patience_of(parts, parts.names, END_S)
        look(patience, "the end of the training")
        await asyncio.wait([ending], timeout=POLL_S)
    for each in await asyncio.to_thread(_reports, settings.hub):
        say(f"{MEMBERS[each.rank]}: {each.state}, {each.outer} exchanges, loss {each.loss:.4g}")
    models = [path for name in MEMBERS for path in (settings.data / name).glob("jobs/*/rank-*/model-*.safetensors")]
    if not models:
        raise UserError(f"no member has a model. Next: see the logs in {settings.data / 'logs'}")
    say(f"the models of the members are {'equal' if len({path.name for path in models}) == 1 else 'NOT equal'} by hash")
    return models[0]


def _reports(hub: Path) -> list[pb.WorkReport]:
    """Return what the ranks of the only job at the hub have reported last."""
    with closing(Store(hub)) as store:
        book = WorkBook(store, Members(store), load_policy().work)
        rows = (*book.living(), *book.ended(1))
        return [report for row in rows for report in book.info(row).reports]


async def _on_board(
    name: str, model: Path, member: Path, settings: GridDemo, operator: HubOperator, parts: DemoParts
) -> float:
    """Take a model to the organoid of a new user, submit it, and return its score."""
    file = settings.data / f"{name}.onnx"
    specimen = next((settings.data / "recordings").glob(f"*{SPECIMEN}.npz"))
    given = ("--recording", str(specimen), "--checkpoint", str(model), "--out", str(file))
    await done(f"{name}-tune", parts, "grid", "tune", BOARD, *given)
    named = ("--name", name, "--data", str(member))
    await done(f"{name}-submit", parts, "grid", "model", "submit", BOARD, str(file), *named)
    row = await graded(member, BOARD, operator, parts, name)
    return float(row["published"])
