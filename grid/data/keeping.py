"""An author's side of storage: hold the lease under which members keep replicas, with others when one leaves."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from grid.data.data_sets import DataSets
from grid.data.exchange import JOB, DataPeer, http_client
from grid.data.manifest import DataManifest, Sharing, read_manifest
from grid.errors import GridError, GridRefused
from grid.member.tissue import GridClient, WorkLease
from grid.wire import grid_pb2 as pb
from grid.work.served import lease_of

LOOK_S = 1.0
AGAIN_S = 5.0
JOINED_WITHIN_S = 30.0
"""Longest time from the grant of a lease until its addresses are known here."""


async def keep(
    folder: Path,
    which: Sequence[str],
    say: Callable[[str], None],
    *,
    replicas: int = 2,
    on: Sequence[str] = (),
    until_complete: bool = False,
    again_s: float = AGAIN_S,
) -> None:
    """Hold a lease with storage members until cancelled, so that they bring data sets and repair them.

    `choroid grid join --work` of the same folder has to run: it serves the data.

    Args:
        folder: Data folder of the author.
        which: Data sets that have to be complete, by name or id; what else may leave this member goes along.
        say: Takes lines for people.
        replicas: How many members have to keep each.
        on: These members, by name; otherwise the first ones that are connected and have the role storage.
        until_complete: Return when the replicas are complete.
        again_s: Pause after a lease has ended.

    Raises:
        GridError: A data set is unknown or may not leave, too few members have the role storage, or the hub refuses.
    """
    manifests = _may_leave(DataSets(folder), which)
    failed: Counter[str] = Counter()
    began = False
    async with GridClient(folder) as client:
        while True:
            chosen: list[str] = []
            try:
                chosen = await _chosen(client, replicas, on, failed)
                say(f"replicas on {', '.join(chosen)}")
                async with client.work(JOB, [client.membership.name, *chosen], role="storage", on_wait=say) as lease:
                    began = True
                    peers = dict(zip(chosen, (await _joined(folder, lease.info.lease))[1:], strict=True))
                    if await _watched(folder, lease, peers, manifests, say, until_complete):
                        return
                say(f"the lease has ended; {lease.info.reason or 'a member has left it'}")
            except GridError as error:
                if not began and (on or not isinstance(error, GridRefused)):
                    raise  # a person has to act; later ones pass, as a hub that is away does
                failed.update(chosen)
                say(str(error))
                await client.again()
            await asyncio.sleep(again_s)


async def _watched(
    folder: Path,
    lease: WorkLease,
    addresses: Mapping[str, str],
    manifests: Sequence[DataManifest],
    say: Callable[[str], None],
    until_complete: bool,
) -> bool:
    """Say what the members have while the lease runs; return true at once when all is complete, if that is asked for."""
    said: dict[str, str] = {}
    with http_client() as http:
        while _runs(folder, lease):
            complete = 0
            for name, address in addresses.items():
                here = await asyncio.to_thread(_complete, DataPeer(address, http), manifests)
                complete += here == len(manifests)
                text = here if isinstance(here, str) else f"{here} of {len(manifests)} data sets are complete"
                if said.get(name) != text:
                    said[name] = text
                    say(f"{name}: {text}")
            if until_complete and complete == len(addresses):
                return True
            await asyncio.sleep(LOOK_S)
    return False


def _runs(folder: Path, lease: WorkLease) -> bool:
    """Whether a lease runs: the process of this member learns of its end at once, its holder at the next heartbeat."""
    try:
        lease_of(folder, lease.info.lease)
    except GridError:
        return False
    return lease.info.state == pb.LeaseInfo.ACTIVE


def _may_leave(sets: DataSets, which: Sequence[str]) -> list[DataManifest]:
    found = []
    for each in which:
        with closing(sets.open(each)) as data:
            if data.manifest.sharing is Sharing.NO:
                raise GridError(
                    f"“{data.manifest.name}” stays in its laboratory. Next: add it again with --share members, if its people"
                    " agree"
                )
            if data.source is None:
                raise GridError(f"the files of “{data.manifest.name}” are not on this machine. Next: ask its author")
            found.append(data.manifest)
    return found


async def _chosen(client: GridClient, replicas: int, on: Sequence[str], failed: Counter[str]) -> list[str]:
    """Return the members that keep the replicas, those first that failed least. Raises :class:`GridError` for too few."""
    able = [
        each.name
        for each in await client.members()
        if each.state == "approved"
        and each.connected
        and each.id != client.membership.key.id
        and any(role.role == "storage" and role.granted for role in each.standing.roles)
    ]
    missing = [name for name in on if name not in able]
    if missing or len(able) < replicas:
        raise GridError(
            f"{', '.join(missing) or f'only {len(able)} members'}: not connected with the role storage; {replicas} are"
            " needed. Next: start `choroid grid join --work --store FOLDER` at more members, or lower --replicas"
        )
    return list(on) or sorted(able, key=failed.__getitem__)[:replicas]


async def _joined(folder: Path, lease: str) -> list[str]:
    """Return the addresses of the ranks when the process of this member has written them down."""
    left = round(JOINED_WITHIN_S / LOOK_S)
    while True:
        try:
            return lease_of(folder, lease)[0]
        except GridError:
            left -= 1
            if not left:
                raise
        await asyncio.sleep(LOOK_S)


def _complete(peer: DataPeer, manifests: Sequence[DataManifest]) -> int | str:
    """Return how many data sets a peer has complete and has read without finding damage, or why that is not known.

    Raises:
        GridRefused: The member keeps no replicas.
    """
    try:
        sets, keeps, trouble = peer.shelf()
        there = {read_manifest(each["manifest"]).id for each in sets if each.get("whole") is True}
    except GridError as error:
        return str(error)
    if not keeps:
        raise GridRefused(f"{peer.address} has no store. Next: start it with `choroid grid join --store FOLDER`")
    complete = len(there & {each.id for each in manifests})
    return trouble if trouble and complete < len(manifests) else complete
