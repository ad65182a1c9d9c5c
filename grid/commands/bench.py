"""`choroid grid bench`: a hub with many connected members: join rate, memory, latency of leases."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np

from grid.clock import perf_s
from grid.errors import GridError
from grid.hub.store import Store
from grid.member.membership import HubAddress, Membership
from grid.policy.policy import ROLES
from grid.policy.standing import MemberStanding
from grid.wire import grid_pb2 as pb
from grid.wire import grid_pb2_grpc as pb_grpc

AT_ONCE = 8
LEASES = 100


def bench(members: int) -> dict[str, Any]:
    """Connect `members` members to a hub in a process of its own; return the figures.

    Returns:
        members, join_s and join_hz (enrolment with two calls, certificate, connection), hub_rss_mb, lease_p50_ms and
        lease_p99_ms (request until the laboratory has accepted), renew_p50_ms and renew_p99_ms.
    """
    with tempfile.TemporaryDirectory(prefix="choroid-grid-bench-") as text, hub_process(Path(text)) as (address, pid):
        return asyncio.run(_bench(Path(text), address, pid, members))


@contextlib.contextmanager
def hub_process(folder: Path) -> Iterator[tuple[HubAddress, int]]:
    """Run a hub as a process with the data folder `folder`/hub; yield its address and process id."""
    words = [sys.executable, "-P", "-m", "choroid", "grid", "hub", "--data", str(folder / "hub"), "--no-grading"]
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
    calls: list[Any] = []
    channels: list[grpc.aio.Channel] = []
    try:
        joined = [Membership(folder / f"m{n}", address, f"m{n}", "member") for n in range(members)]
        lab = Membership(folder / "lab", address, "lab", "lab")
        approve_all(folder / "hub", [*joined, lab])
        start = perf_s()
        turns = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(_join(each, turns, calls, channels) for each in joined))
        join_s = perf_s() - start
        serving = asyncio.create_task(_laboratory(lab))
        try:
            leases, renewals = await _leases(channels, lab.name)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        return {
            "members": members,
            "join_s": round(join_s, 2),
            "join_hz": round(members / join_s, 1),
            "hub_rss_mb": await asyncio.to_thread(_rss_mb, pid),
            **_percentiles("lease", leases),
            **_percentiles("renew", renewals),
        }
    finally:
        for call in calls:
            call.cancel()
        for channel in channels:
            await channel.close(None)


def approve_all(folder: Path, memberships: list[Membership]) -> None:
    """Approve the identities beforehand, with every role: this measures the hub, not this machine."""
    store = Store(folder)
    standing = MemberStanding(dict.fromkeys(ROLES, ()), {"cores": 1.0}, {}, store.utc())
    with store.transaction() as database:
        for each in memberships:
            row = (each.key.id, each.name, each.kind, each.key.public, store.utc(), json.dumps(standing.as_row()))
            database.execute(
                "INSERT INTO members (id, name, kind, public_key, state, requested_s, standing)"
                " VALUES (?, ?, ?, ?, 'approved', ?, ?)",
                row,
            )
    store.close()


async def _join(
    member: Membership, turns: asyncio.Semaphore, calls: list[Any], channels: list[grpc.aio.Channel]
) -> None:
    async with turns:
        await member.enrol()
        channel = member.channel()
        channels.append(channel)
        stub: pb_grpc.HubAsyncStub = pb_grpc.HubStub(channel)
        call = stub.Session()  # type: ignore[call-arg]
        calls.append(call)
        await call.write(pb.MemberMessage(heartbeat=pb.Heartbeat()))
        await call.read()


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


async def _leases(channels: list[grpc.aio.Channel], lab: str) -> tuple[list[float], list[float]]:
    """Ask for leases one after the other, from many members; return the seconds of grants and renewals."""
    grants, renewals = [], []
    for number in range(LEASES):
        stub: pb_grpc.HubAsyncStub = pb_grpc.HubStub(channels[number % len(channels)])
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


def _percentiles(name: str, seconds: list[float]) -> dict[str, float]:
    p50, p99 = np.percentile(seconds, [50, 99])
    return {f"{name}_p50_ms": round(1000 * float(p50), 2), f"{name}_p99_ms": round(1000 * float(p99), 2)}
