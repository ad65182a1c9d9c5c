"""`choroid grid job`, `choroid grid prepare`: training jobs of a member."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grid.commands.stopping import until_stopped
from grid.errors import GridError
from grid.jobs.code import allow as allow_code
from grid.jobs.environment import FEDERATED, TRAIN, default_folder, interpreter
from grid.jobs.environment import check as check_environment
from grid.jobs.environment import prepare as prepare_environment
from grid.jobs.folder import JOBS, MANIFEST, flower_of, make_ready, pinned, require_data
from grid.jobs.local import left_s, run_local
from grid.jobs.manifest import JobManifest, read_job
from grid.jobs.process import Event
from grid.jobs.removal import remove_copies, remove_job
from grid.jobs.signing import signed
from grid.member.tissue import GridClient
from grid.wire import grid_pb2 as pb

EVENTS = "events.jsonl"
POLL_S = 3.0
LAST_S = 60.0
"""Longest time of the other ranks after one has ended."""


def prepare(
    name: str, folder: Path | None, python: str, say: Callable[[str], None], *, only_check: bool
) -> dict[str, Any]:
    """Make an environment, or check it.

    Args:
        name: Which one: train, federated.
        folder: Where; None is the default.
        python: The Python that makes it; empty is this one.
        say: Takes lines of progress.
        only_check: Whether nothing is made.

    Raises:
        GridError: It cannot be made, or is not as it should be.
    """
    kind = next(each for each in (TRAIN, FEDERATED) if each.name == name)
    if not only_check:
        prepare_environment(folder or default_folder(kind), python, say, kind)
    found = interpreter(folder, kind)
    return {"interpreter": str(found), "package": kind.package, **check_environment(found, kind)}


def check(data: Path, file: Path) -> dict[str, Any]:
    """Check the manifest of a job against this member: code, data sets, environment.

    Raises:
        GridError: The first thing that would keep it from running here.
    """
    manifest = pinned(data, read_job(file))
    require_data(data, manifest)
    left_s(manifest)
    _checked_environments(manifest)
    return described(manifest)


def _checked_environments(manifest: JobManifest) -> tuple[Path, Path | None]:
    """Return the Pythons of a job, of training and of Flower. Raises :class:`GridError` when one cannot be used."""
    python, flower = interpreter(), flower_of(manifest)
    check_environment(python)
    if flower is not None:
        check_environment(flower, FEDERATED)
    return python, flower


def run(data: Path, file: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Run all ranks of a job on this machine until its end, or until it is stopped.

    Args:
        data: Data folder of the member.
        file: Manifest of the job.
        say: Takes lines of progress.

    Raises:
        GridError: The job cannot run here.
    """
    manifest = pinned(data, read_job(file))
    left_s(manifest)
    python, flower = _checked_environments(manifest)
    job = make_ready(data, manifest, python, flower=flower)
    found: dict[str, Any] = {}

    async def until_ended() -> None:
        found.update(await run_local(job, lambda event: _shown(event, say)))

    until_stopped(until_ended())
    if not found:
        raise GridError(f"stopped. Next: the same command goes on at the last checkpoint in {job.path}")
    remove_copies(job.path)
    model = job.rank(found["rank"]) / f"model-{found['model']}.safetensors"
    return {**described(manifest), "folder": str(job.path), "model": str(model), "end": found}


def submit(data: Path, file: Path, members: Sequence[str], say: Callable[[str], None]) -> dict[str, Any]:
    """Sign a job, and hold a work lease of its members until it has ended, or until it is stopped.

    Args:
        data: Data folder of the owner, a member.
        file: Manifest of the job.
        members: Names or identities of the members, in the order of their ranks.
        say: Takes lines of progress.

    Raises:
        GridError: The manifest is refused, a member refuses, or the job failed everywhere.
    """
    manifest = pinned(data, read_job(file))
    left_s(manifest)
    if len(members) != manifest.ranks.max:
        raise GridError(
            f"the job has {manifest.ranks.max} ranks, {len(members)} members are named. Next: name one --member for each"
        )
    found: dict[str, Any] = {}

    async def until_ended() -> None:
        found.update(await _held(data, manifest, members, say))

    until_stopped(until_ended())
    if not found:
        raise GridError(
            "stopped; the members have ended their ranks. Next: submit again, to go on at the last checkpoint"
        )
    return {**described(manifest), **found}


async def _held(
    data: Path, manifest: JobManifest, members: Sequence[str], say: Callable[[str], None]
) -> dict[str, Any]:
    """Hold the lease of a job until its ranks have ended; return their last reports."""
    loop = asyncio.get_running_loop()
    async with GridClient(data) as client:
        manifest = manifest.with_ranks(_identities(await client.members(), members))
        body = signed(manifest, client.membership.key)
        async with client.work(manifest.name, members, manifest=body, wait_s=None, on_wait=say) as lease:
            said: dict[int, str] = {}
            first_end_s = float("inf")
            while True:
                info = await lease.look()
                for report in info.reports:
                    text = _report_text(report)
                    if said.get(report.rank) != text:
                        said[report.rank] = text
                        say(text)
                states = [report.state for report in info.reports]
                if "ended" in states:
                    first_end_s = min(first_end_s, loop.time())
                over = [state in ("ended", "failed") for state in states]
                if (len(over) == len(members) and all(over)) or loop.time() - first_end_s > LAST_S:
                    break
                if info.state == pb.LeaseInfo.ENDED:
                    raise GridError(f"the work lease has ended: {info.reason}. Next: submit the job again")
                await asyncio.sleep(POLL_S)
    if "ended" not in states:
        raise GridError(f"the job failed at all ranks: {info.reports[0].reason}")
    return {"reports": [{"rank": each.rank, "outer": each.outer, "state": each.state} for each in info.reports]}


def _identities(known: Sequence[pb.Member], members: Sequence[str]) -> list[str]:
    """Return the identities of members that are given by name or the start of an identity.

    Raises:
        GridError: One is not known, or there are several.
    """
    found = []
    for who in members:
        ids = [each.id for each in known if each.state == "approved" and each.name == who]
        ids = ids or [
            each.id for each in known if each.state == "approved" and len(who) >= 8 and each.id.startswith(who)
        ]
        if len(ids) != 1:
            raise GridError(
                f"{who[:70]} is no approved member. Next: ask the hub's operator for its name, or see its page"
            )
        found += ids
    return found


def _report_text(report: pb.WorkReport) -> str:
    reason = f"; {report.reason}" if report.reason else ""
    return f"rank {report.rank} {report.state}: outer step {report.outer}, loss {report.loss:.4g}{reason}"


def allow(data: Path, folder: Path) -> dict[str, Any]:
    """Allow a code package to run here."""
    return {"code": allow_code(data, folder)}


def every(data: Path) -> dict[str, Any]:
    """Return the jobs that have a folder here, by name."""
    found = []
    for path in (data / JOBS).glob(f"*/{MANIFEST}"):
        plain = json.loads(path.read_bytes())
        found.append({"job": path.parent.name, "name": plain["name"], **_progress(path.parent, plain)})
    return {"jobs": sorted(found, key=lambda each: str(each["name"]))}


def show(data: Path, which: str, *, limit: int) -> dict[str, Any]:
    """Return a job with its last events.

    Args:
        data: Data folder of the member.
        which: Its name, or the start of its hash.
        limit: How many events of each rank.

    Raises:
        GridError: There is none, or there are several.
    """
    found = _named(data, which)
    folder = data / JOBS / found["job"]
    plain = json.loads((folder / MANIFEST).read_bytes())
    return {
        **found,
        "manifest": plain,
        "events": {path.parent.name: _events(path)[-limit:] for path in _logs(folder)},
    }


def remove(data: Path, which: str, *, everything: bool) -> dict[str, Any]:
    """Remove a job from this folder (:func:`grid.jobs.removal.remove_job`).

    Args:
        data: Data folder of the member.
        which: Its name, or the start of its hash.
        everything: Whether its models and events go as well.

    Raises:
        GridError: There is none, there are several, or it runs.
    """
    found = _named(data, which)
    folder = data / JOBS / found["job"]
    freed = remove_job(folder, ended=bool(found["ended"]), everything=everything)
    return {"removed": found["job"], "freed_bytes": freed, "left": sorted(map(str, folder.glob("rank-*/model-*")))}


def _named(data: Path, which: str) -> dict[str, Any]:
    found = [each for each in every(data)["jobs"] if each["name"] == which or each["job"].startswith(which[:16])]
    if len(found) != 1:
        what = "several jobs are" if found else "no job is"
        raise GridError(f"{what} called “{which[:100]}”. Next: choose one of `choroid grid job list`")
    return dict(found[0])


def described(manifest: JobManifest) -> dict[str, Any]:
    """Return a job as the commands print it."""
    return {"job": manifest.id, "manifest": json.loads(manifest.plain)}


def text_of(answer: dict[str, Any]) -> str:
    """Return the answer of a command for people."""
    if "jobs" in answer:
        return "\n".join(map(_line, answer["jobs"])) or "no jobs. Next: `choroid grid job run FILE`"
    if "removed" in answer:
        lines = [f"{answer['removed']}: {answer['freed_bytes'] / 1e6:,.1f} MB are free again"]
        return "\n".join(lines + [f"kept: {each}" for each in answer["left"]])
    if "interpreter" in answer:
        return f"ready: {answer['package']} {answer[answer['package']]}, Python {answer['python']}: {answer['interpreter']}"
    if "code" in answer:
        return f"allowed: {answer['code']}"
    if "events" in answer:
        lines = [_line(answer)]
        lines += [
            f"{rank}: {json.dumps(event, ensure_ascii=False)}"
            for rank, events in answer["events"].items()
            for event in events
        ]
        return "\n".join(lines)
    plain = answer["manifest"]
    lines = [
        f"job {answer['job']}",
        f"{plain['name']}: {plain['preset']}, {plain['engine']} on {plain['ranks']['max']} ranks,"
        f" {plain['outer_steps']} × {plain['local_steps']} steps of {plain['batch']} samples",
    ]
    if "end" in answer:
        end = answer["end"]
        scores = ", ".join(f"{name} {value:.4g}" for name, value in end["scores"].items())
        lines.append(f"{end['reason']}: {end['outer']} outer steps, {end['sent'] / 1e6:,.1f} MB sent; {scores}")
        lines.append(f"model: {answer['model']}")
    return "\n".join(lines)


def _shown(event: Event, say: Callable[[str], None]) -> None:
    rank = event.get("rank")
    match event["event"]:
        case "step" if rank == min(event["members"]):
            out = "".join(f"; rank {each} left out: {why}" for each, why in event["excluded"].items())
            say(
                f"outer step {event['outer']}: loss {event['loss']:.4g}, {len(event['members'])} ranks,"
                f" {event['sent'] / 1e6:.2f} MB, {event['s']:.1f} s{out}"
            )
        case "checkpoint" if event["scores"]:
            scores = ", ".join(f"{name} {value:.4g}" for name, value in event["scores"].items())
            say(f"outer step {event['outer']}: held out: {scores}")
        case "lost" | "unwritten" | "damaged" | "none":
            say(f"rank {rank}: {event.get('reason', 'no update could be counted')}")
        case "taken":
            say(f"rank {rank} has taken the weights of rank {event['source']} at outer step {event['outer']}")


def _logs(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"rank-*/{EVENTS}"))


def _events(path: Path) -> list[dict[str, Any]]:
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # the last line of a killed process
            continue
    return found


def _progress(folder: Path, plain: dict[str, Any]) -> dict[str, Any]:
    steps = [event for path in _logs(folder) for event in _events(path) if event["event"] in ("step", "end")]
    last = max(
        (event for event in steps if event["event"] == "step"), key=lambda event: int(event["outer"]), default=None
    )
    return {
        "outer": last["outer"] if last else 0,
        "outer_steps": plain["outer_steps"],
        "loss": last["loss"] if last else None,
        "ended": next((event["reason"] for event in steps if event["event"] == "end"), ""),
    }


def _line(one: dict[str, Any]) -> str:
    loss = "" if one["loss"] is None else f", loss {one['loss']:.4g}"
    state = one["ended"] or "not ended"
    return f"{one['job']} {one['name']}: outer step {one['outer']} of {one['outer_steps']}{loss}; {state}"
