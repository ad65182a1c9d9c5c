"""`choroid grid hub measure`: a hub with many connected members: join rate, memory, latency of leases."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np

from grid.challenges import hardware
from grid.clock import perf_s
from grid.errors import GridError
from grid.hub.members import Members
from grid.hub.owner import owned
from grid.hub.store import Store
from grid.member.link import HubLink
from grid.member.membership import HubAddress, Membership
from grid.policy.policy import ROLES
from grid.policy.standing import MemberStanding
from grid.wire import grid_pb2 as pb
from grid.wire import grid_pb2_grpc as pb_grpc

AT_ONCE = 8
LEASES = 100
CONNECTED_WITHIN_S = 60.0
QUIET_S = 10.0


def bench(members: int) -> dict[str, Any]:
    """Connect `members` members to a hub in a process of its own; return the figures.

    Returns:
        members, connected (as the hub says, at the end), join_s and join_hz (request to join, the operator's decision,
        certificate, connection over mutual TLS), hub_rss_mb, hub_quiet_cpu_pct (CPU time of the hub in percent of one core,
        over 10 s in which members only send heartbeats), hub_quiet_loop_cpu_pct (the part of its main thread, which runs
        Python; the others are gRPC's, for network and TLS), lease_p50_ms and lease_p99_ms (request until the laboratory has
        accepted; 100 leases, each of another member, one after the other), renew_p50_ms and renew_p99_ms.
    """
    with tempfile.TemporaryDirectory(prefix="choroid-grid-bench-") as text, hub_process(Path(text)) as (address, pid):
        return asyncio.run(_bench(Path(text), address, pid, members))


@contextlib.contextmanager
def hub_process(folder: Path) -> Iterator[tuple[HubAddress, int]]:
    """Run a hub as a process with the data folder `folder`/hub; yield its address and process id."""
    words = [sys.executable, "-P", "-m", "choroid", "grid", "hub", "run", "--data", str(folder / "hub"), "--no-grading"]
    process = subprocess.Popen(  # noqa: S603
        [*words, "--port", "0", "--member-port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        yield _address(process), process.pid
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
        process.kill()
        process.communicate()


def _address(process: subprocess.Popen[str]) -> HubAddress:
    """Return what the hub prints. Raises :class:`GridError` when it does not start."""
    if process.stdout is not None:
        for line in process.stdout:
            if line.startswith("join with:"):
                return HubAddress.parse(line.split("'")[1])
    raise GridError("the hub of the benchmark did not start. Next: see what it printed")


async def _bench(folder: Path, address: HubAddress, pid: int, members: int) -> dict[str, Any]:
    turns = asyncio.Semaphore(AT_ONCE)
    joined = [Membership(folder / f"m{n}", address, f"m{n}", "member") for n in range(members)]
    lab = Membership(folder / "lab", address, "lab", "lab")
    hello = await asyncio.to_thread(hardware.hello, folder)
    links = [HubLink(each, lambda: hello, lambda _: None) for each in joined]
    tasks: list[asyncio.Task[None]] = []
    with contextlib.closing(owned(folder / "hub")) as store:
        try:
            start = perf_s()
            await asyncio.gather(*(_join(store, link, turns, tasks) for link in links))
            join_s = perf_s() - start
            await admitted(store, lab)
            tasks.append(asyncio.create_task(_laboratory(lab), name="laboratory"))
            leases, renewals = await _leases(links, lab.name)
            quiet_pct, loop_pct = await _cpu_pct(pid, QUIET_S)
            return {
                "members": members,
                "connected": await _connected(links),
                "join_s": round(join_s, 2),
                "join_hz": round(members / join_s, 1),
                "hub_rss_mb": await asyncio.to_thread(_rss_mb, pid),
                "hub_quiet_cpu_pct": quiet_pct,
                "hub_quiet_loop_cpu_pct": loop_pct,
                **_percentiles("lease", leases),
                **_percentiles("renew", renewals),
            }
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def admitted(store: Store, membership: Membership) -> None:
    """Enrol as everyone does: ask, be approved by the operator of this hub, fetch the certificate.

    Only the measurement is left out, because it would be of this machine, once a member: a member gets every role.
    """
    await membership.enrol()
    known = Members(store)
    known.decide(membership.name, "approve", "benchmark")
    if membership.kind == "member":
        standing = MemberStanding(dict.fromkeys(ROLES, ()), {"cores": 1.0}, {}, store.utc())
        known.set_standing(membership.key.id, membership.name, standing)
    await membership.enrol()


async def _join(store: Store, link: HubLink, turns: asyncio.Semaphore, tasks: list[asyncio.Task[None]]) -> None:
    """Admit a member and connect it, with its own certificate and heartbeats, until its task is cancelled."""
    async with turns:
        await admitted(store, link.membership)
        tasks.append(asyncio.create_task(link.run(), name=link.membership.name))
        async with asyncio.timeout(CONNECTED_WITHIN_S):
            await link.connected.wait()


async def _connected(links: list[HubLink]) -> int:
    """Return how many members are connected, as the hub says. Raises :class:`GridError` when one is not."""
    reply = await _stub(links[0]).Members(pb.MembersRequest())
    found = sum(each.connected and each.kind == "member" for each in reply.members)
    if found != len(links):
        raise GridError(
            f"{found} of {len(links)} members are connected. Likely cause: too few open files (`ulimit -n`), or a busy"
            " machine. Next: ask for fewer members"
        )
    return found


def _stub(link: HubLink) -> pb_grpc.HubAsyncStub:
    if link.stub is None:
        raise GridError(
            f"{link.membership.name} has lost its connection. Likely cause: a busy machine. Next: try again"
        )
    return link.stub


async def _laboratory(lab: Membership) -> None:
    """Accept every offer at once."""
    await lab.enrol()
    channel = lab.channel()
    stub: pb_grpc.HubAsyncStub = pb_grpc.HubStub(channel)
    call = stub.Session()  # type: ignore[call-arg]
    try:
        await call.write(pb.MemberMessage(hello=pb.Hello()))
        await call.write(pb.MemberMessage(tissue=pb.TissueOffer(organoid="o1", electrodes=32, stimulation=True)))
        async for message in call:
            if message.HasField("lease") and message.lease.verb == pb.LeaseOrder.OFFER:
                verdict = pb.LeaseVerdict(lease=message.lease.lease.lease, accepted=True)
                await call.write(pb.MemberMessage(verdict=verdict))
    finally:
        call.cancel()
        await channel.close(None)


async def _leases(links: list[HubLink], lab: str) -> tuple[list[float], list[float]]:
    """Ask for leases one after the other, each from another member; return the seconds of grants and renewals."""
    grants, renewals = [], []
    for number in range(LEASES):
        stub = _stub(links[number * len(links) // LEASES])
        request = pb.LeaseRequest(key=f"k{number}", lab=lab, organoid="o1", mode="read", purpose="bench")
        start = perf_s()
        info = await _requested(stub, request)
        while info.state != pb.LeaseInfo.ACTIVE:
            info = (await stub.RenewLeases(pb.RenewRequest(leases=[info.lease]))).leases[0]
        grants.append(perf_s() - start)
        start = perf_s()
        await stub.RenewLeases(pb.RenewRequest(leases=[info.lease]))
        renewals.append(perf_s() - start)
        await stub.ReleaseLease(pb.ReleaseRequest(lease=info.lease))
    return grants, renewals


async def _requested(stub: pb_grpc.HubAsyncStub, request: pb.LeaseRequest) -> pb.LeaseInfo:
    """Ask until the laboratory has come."""
    while True:
        try:
            return await stub.RequestLease(request)
        except grpc.aio.AioRpcError as error:
            if error.code() != grpc.StatusCode.FAILED_PRECONDITION or "offers no organoid" not in str(error.details()):
                raise
            await asyncio.sleep(0.1)


def _rss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return round(int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024, 1)


async def _cpu_pct(pid: int, seconds: float) -> tuple[float, float]:
    """Return the CPU time of a process and of its main thread over the next seconds, in percent of one core."""
    start_s, (all_s, loop_s) = perf_s(), await asyncio.to_thread(_cpu_s, pid)
    await asyncio.sleep(seconds)
    all_now_s, loop_now_s = await asyncio.to_thread(_cpu_s, pid)
    took_s = perf_s() - start_s
    return round(100 * (all_now_s - all_s) / took_s, 1), round(100 * (loop_now_s - loop_s) / took_s, 1)


def _cpu_s(pid: int) -> tuple[float, float]:
    """Return the CPU time of a process and of its main thread."""
    stats = [Path(f"/proc/{pid}/stat"), Path(f"/proc/{pid}/task/{pid}/stat")]
    fields = [each.read_text(encoding="ascii").rpartition(")")[2].split() for each in stats]
    used = [(int(each[11]) + int(each[12])) / os.sysconf("SC_CLK_TCK") for each in fields]
    return used[0], used[1]


def _percentiles(name: str, seconds: list[float]) -> dict[str, float]:
    p50, p99 = np.percentile(seconds, [50, 99])
    return {f"{name}_p50_ms": round(1000 * float(p50), 2), f"{name}_p99_ms": round(1000 * float(p99), 2)}
