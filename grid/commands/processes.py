"""`choroid grid hub run`, `join`, `relay` and `lab join`: processes that run until they are stopped."""

from __future__ import annotations

import asyncio
import math
import re
import socket
from collections.abc import Callable
from pathlib import Path

from grid.commands.stopping import until_stopped
from grid.data.data_sets import DataSets
from grid.data.exchange import Shelf
from grid.data.replica import Replica
from grid.data.storage import StorageMember, data_service, running
from grid.errors import GridError
from grid.hub.hub import HubSettings, running_hub
from grid.identity.keys import write_private
from grid.jobs.member import TrainingMember
from grid.lab.daemon import LabDaemon
from grid.lab.engine import EngineAccess, RigDesk
from grid.member.daemon import MemberDaemon, enrolled
from grid.member.membership import HubAddress, Membership
from grid.work.network import BASE
from grid.work.relay import RelayDaemon

ADDRESS_FILE = "address.txt"
"""In the hub's folder: what members join with."""


def hub(settings: HubSettings, say: Callable[[str], None]) -> None:
    """Run a hub until SIGINT or SIGTERM. Raises :class:`GridError` when it cannot start."""
    until_stopped(_hub(settings, say))


def join(
    address: str,
    data: Path,
    name: str,
    say: Callable[[str], None],
    *,
    work: bool = False,
    loopback: str = "",
    store: Path | None = None,
    quota_bytes: float = math.inf,
) -> None:
    """Join a grid and lend this computer until SIGINT or SIGTERM.

    Args:
        address: host:port#fingerprint; empty for a folder that has joined before.
        data: Data folder of the member.
        name: Its name; empty takes the machine's.
        say: Takes lines of progress.
        work: Whether it takes work leases.
        loopback: First half of the addresses of its jobs, in 127.0.0.0/8.
        store: Where it keeps replicas of data sets of others, under work leases.
        quota_bytes: Most that they may take.

    Raises:
        GridError: The hub cannot be reached, refuses, or has revoked this member.
    """
    if loopback and not re.fullmatch(r"127\.(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])", loopback):
        raise GridError(f"“{loopback[:20]}” is no first half of a loopback address. Next: give one such as {BASE}")
    member = membership(address, data, name, "member")
    until_stopped(
        _work(member, say, loopback or BASE, store, quota_bytes)
        if work or store
        else _join(member, MemberDaemon(member, say), say)
    )


def relay(
    address: str, data: Path, name: str, listen: tuple[str, int], dialled: str, say: Callable[[str], None]
) -> None:
    """Join a grid and relay tunnels of others until SIGINT or SIGTERM.

    Args:
        address: host:port#fingerprint; empty for a folder that has joined before.
        data: Data folder of the relay.
        name: Its name; empty takes the machine's.
        listen: Address and port to listen on.
        dialled: Host that members dial; empty: the address that the hub sees.
        say: Takes lines of progress.

    Raises:
        GridError: The port is taken, or the hub cannot be reached, refuses, or has revoked this relay.
    """
    until_stopped(_relay(membership(address, data, name, "member"), listen, dialled, say))


def lab(address: str, data: Path, name: str, rig: Path, organoid: str, say: Callable[[str], None]) -> None:
    """Offer the electrode array of a running rig until SIGINT or SIGTERM.

    Args:
        address: host:port#fingerprint; empty for a folder that has joined before.
        data: Data folder of the laboratory in the grid.
        name: Its name; empty takes the machine's.
        rig: Data folder of the running rig.
        organoid: Name under which its tissue is offered.
        say: Takes lines of progress.

    Raises:
        GridError: The hub or the rig cannot be reached, or the hub has revoked this laboratory.
    """
    until_stopped(_lab(membership(address, data, name, "lab"), rig, organoid, say))


def membership(address: str, data: Path, name: str, kind: str) -> Membership:
    """Return the membership that a command is about. Raises :class:`GridError` without an address or a former one."""
    if not address:
        return Membership.load(data)
    return Membership(data, HubAddress.parse(address), name or socket.gethostname().partition(".")[0][:60], kind)


async def _hub(settings: HubSettings, say: Callable[[str], None]) -> None:
    async with running_hub(settings) as running:
        write_private(settings.data / ADDRESS_FILE, f"{running.address}\n".encode())
        say(f"hub {running.store.name}")
        say(f"join with: choroid grid join '{running.address}'")
        await asyncio.Event().wait()


async def _join(member: Membership, daemon: MemberDaemon, say: Callable[[str], None]) -> None:
    await enrolled(member, say)
    await daemon.run()


async def _work(
    member: Membership, say: Callable[[str], None], loopback: str, store: Path | None, quota_bytes: float
) -> None:
    """Take work leases, under which data sets of this member are given, and with a store those of others are kept."""
    replica = None if store is None else Replica(store)
    shelf = Shelf(DataSets(member.folder), member.key, replica)
    storage = None if replica is None else StorageMember(shelf, replica, say, quota_bytes=quota_bytes)

    async with running(None if storage is None else storage.scrub()):
        await _join(member, TrainingMember(member, say, base=loopback, service=data_service(shelf, storage)), say)


async def _relay(member: Membership, listen: tuple[str, int], dialled: str, say: Callable[[str], None]) -> None:
    daemon = RelayDaemon(member, say)
    port = await daemon.open(*listen, dialled)
    say(f"relay: listens on {listen[0]}:{port}; the hub uses it when it has the role relay")
    await enrolled(member, say)
    await daemon.run()


async def _lab(laboratory: Membership, rig: Path, organoid: str, say: Callable[[str], None]) -> None:
    desk = await RigDesk.connect(rig)
    try:
        await enrolled(laboratory, say)
        engine = EngineAccess(rig, desk, f"grid-{laboratory.key.id[:8]}-")
        await LabDaemon(laboratory, engine, organoid, say).run()
    finally:
        await desk.close()
