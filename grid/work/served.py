"""A member that takes work leases (`choroid grid join --work`). Each ends here by this machine's own clock.

While one runs, `work.json` in the data folder says which addresses the ranks have. The programs of the job are started with
`CHOROID_WORK=LEASE` in their environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from grid.errors import GridError, GridRefused
from grid.identity.keys import write_private
from grid.member.daemon import MemberDaemon
from grid.member.membership import Membership
from grid.member.peers import KnownPeers
from grid.wire import grid_pb2 as pb
from grid.work.network import BASE, JobNetwork

logger = logging.getLogger(__name__)

WORK_FILE = "work.json"
Service = Callable[[list[str], int, str], Awaitable[None]]
"""Takes the addresses of the ranks, the own rank and the job."""
TICK_S = 0.2


def lease_of(folder: Path, lease: str = "") -> tuple[list[str], int]:
    """Return the addresses of the ranks, and the own rank, of the work lease that runs in a data folder.

    Args:
        folder: Data folder of the member.
        lease: Only this one.

    Raises:
        GridError: None runs there, or another.
    """
    try:
        about = json.loads((folder / WORK_FILE).read_bytes())
        addresses, rank, found = [str(each) for each in about["addresses"]], int(about["rank"]), about["lease"]
    except (OSError, ValueError, KeyError, TypeError):
        found = ""
    if not found or (lease and found != lease):
        raise GridError(
            f"{folder} has no work lease {lease} that runs. Likely cause: `choroid grid join --work` does not run there, or"
            " no relay is in reach. Next: start it, and see what it says"
        )
    return addresses, rank


class WorkingMember(MemberDaemon):
    """A member that also opens tunnels to the other ranks of a job.

    Attributes:
        lease: The work lease that runs here.
        network: Its tunnels.
    """

    def __init__(
        self,
        membership: Membership,
        progress: Callable[[str], None] = lambda _: None,
        *,
        base: str = BASE,
        service: Service | None = None,
    ) -> None:
        """Prepare it.

        Args:
            membership: Of this member.
            progress: Takes lines for people.
            base: First half of the addresses of its jobs.
            service: Runs while a lease runs here; its end or failure ends nothing else.
        """
        super().__init__(membership, progress)
        self.lease: pb.WorkInfo | None = None
        self.network: JobNetwork | None = None
        self._base = base
        self._service = service
        self._file = membership.folder / WORK_FILE
        self._peers = KnownPeers(Path(membership.folder))
        self._until = self._ends_at = 0.0
        self._running: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Stay connected until cancelled. Raises :class:`GridRefused` when the identity was revoked."""
        self._file.unlink(missing_ok=True)
        watching = asyncio.create_task(self._watch(), name="work lease")
        try:
            await super().run()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            self._end("this member leaves")
            await asyncio.gather(*self._leaving, return_exceptions=True)

    def _hello(self) -> pb.Hello:
        hello = super()._hello()
        hello.leases.extend([self.lease.lease] if self.lease else [])
        return hello

    def _order(self, order: pb.WorkOrder) -> None:
        """Take an order of the hub. A renewal of a lease that is not known here comes after a restart of this process."""
        if order.verb == pb.LeaseOrder.END:
            if self.lease is not None and self.lease.lease == order.work.lease:
                self._end(order.work.reason or "the hub has ended it")  # at once: an offer may follow
            return
        if self.network is None or self.lease is None:
            self._begin(order)
        elif self.lease.lease != order.work.lease:
            self._verdict(order.work.lease, f"this member works under the lease {self.lease.lease}")
            return
        elif order.verb == pb.LeaseOrder.OFFER:
            self._verdict(order.work.lease)  # the first answer was lost
        self._until = asyncio.get_running_loop().time() + order.ttl_s
        if self.network is not None:
            self.network.use(list(order.relays))

    def _begin(self, order: pb.WorkOrder) -> None:
        own = self._membership.key
        try:
            for rank in order.work.ranks:
                if rank.member != own.id:
                    self._peers.require(rank.member, rank.key)
            if own.id not in {rank.member for rank in order.work.ranks}:
                raise GridRefused("this member has no rank in it")
            self.network = JobNetwork(own, order.work, self._base)
        except GridError as error:
            self._verdict(order.work.lease, str(error))
            return
        self.lease = order.work
        self._ends_at = asyncio.get_running_loop().time() + order.duration_s
        self._running = asyncio.create_task(self._run(self.network, order.work), name=f"tunnels of {order.work.job}")
        self._verdict(order.work.lease)

    async def _run(self, network: JobNetwork, lease: pb.WorkInfo) -> None:
        """Run the tunnels of a lease, and the service next to them."""
        rank = [each.member for each in lease.ranks].index(self._membership.key.id)
        serving = asyncio.create_task(self._serve(network, lease.job, rank), name=f"service of {lease.job}")
        try:
            await network.run()
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def _serve(self, network: JobNetwork, job: str, rank: int) -> None:
        try:
            if self._service is not None:
                await self._service(network.addresses, rank, job)
        except Exception as error:
            logger.error("the service of %s has failed: %s", job, error)
            self._progress(f"the service of {job} has failed: {error}")

    def _keys(self, lease: str) -> bytes:
        """Return what this rank registers with its consent to a lease."""
        return b""

    def _verdict(self, lease: str, refusal: str = "") -> None:
        keys = b"" if refusal else self._keys(lease)
        verdict = pb.LeaseVerdict(lease=lease, accepted=not refusal, reason=refusal[:300], keys=keys)
        self.link.send(pb.MemberMessage(verdict=verdict))

    async def _watch(self) -> None:
        """End a lease that was not renewed; write down the addresses when all ranks are joined."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK_S)
            if self.lease is None or self.network is None:
                continue
            if loop.time() >= min(self._until, self._ends_at):
                self._end("it has ended, or was not renewed")
            elif self._running is not None and self._running.done():
                reason = f"its tunnels have failed here: {self._running.exception()}"
                self._verdict(self.lease.lease, reason)
                self._end(reason)
            elif self.network.ready.is_set() and not self._file.exists():
                self._write(self.lease, self.network)

    def _write(self, lease: pb.WorkInfo, network: JobNetwork) -> None:
        rank = [each.member for each in lease.ranks].index(self._membership.key.id)
        members = [each.name for each in lease.ranks]
        about = {
            "lease": lease.lease,
            "job": lease.job,
            "rank": rank,
            "addresses": network.addresses,
            "members": members,
        }
        try:
            write_private(self._file, json.dumps(about).encode())
        except OSError as error:
            logger.error("%s cannot be written (%s). Next: free space", self._file, error.strerror)
        self._progress(f"work lease {lease.lease} ({lease.job}): rank {rank} has {network.addresses[rank]}")

    def _end(self, reason: str) -> None:
        """Leave the lease now; its tunnels are closed in a task."""
        lease, network, running = self.lease, self.network, self._running
        self.lease = self.network = self._running = None
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)
        if network is not None and running is not None:
            task = asyncio.create_task(_closed(network, running), name="end of a work lease")
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
        if lease is not None:
            self._progress(f"work lease {lease.lease} ({lease.job}) has ended here: {reason}")


async def _closed(network: JobNetwork, running: asyncio.Task[None]) -> None:
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await network.close()
