"""`choroid grid hub run`, `join` and `lab join`: processes that run until they are stopped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

from grid.commands.stopping import until_stopped
from grid.hub.hub import HubSettings, running_hub
from grid.identity.keys import write_private
from grid.lab.daemon import LabDaemon
from grid.lab.engine import EngineAccess, RigDesk
from grid.member.daemon import MemberDaemon, enrolled
from grid.member.membership import HubAddress, Membership

ADDRESS_FILE = "address.txt"
"""In the hub's folder: what members join with."""


def hub(settings: HubSettings, say: Callable[[str], None]) -> None:
    """Run a hub until SIGINT or SIGTERM. Raises :class:`GridError` when it cannot start."""
    until_stopped(_hub(settings, say))


def join(address: str, data: Path, name: str, say: Callable[[str], None]) -> None:
    """Join a grid and lend this computer until SIGINT or SIGTERM.

    Args:
        address: host:port#fingerprint; empty for a folder that has joined before.
        data: Data folder of the member.
        name: Its name; empty takes the machine's.
        say: Takes lines of progress.

    Raises:
        GridError: The hub cannot be reached, refuses, or has revoked this member.
    """
    until_stopped(_join(membership(address, data, name, "member"), say))


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


async def _join(member: Membership, say: Callable[[str], None]) -> None:
    await enrolled(member, say)
    await MemberDaemon(member, say).run()


async def _lab(laboratory: Membership, rig: Path, organoid: str, say: Callable[[str], None]) -> None:
    desk = await RigDesk.connect(rig)
    try:
        await enrolled(laboratory, say)
        engine = EngineAccess(rig, desk, f"grid-{laboratory.key.id[:8]}-")
        await LabDaemon(laboratory, engine, organoid, say).run()
    finally:
        await desk.close()
