"""The leases that a laboratory serves. Each ends here by this machine's own clock, whether or not the hub is there."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from grid.errors import GridError, GridRefused
from grid.lab.engine import EngineAccess
from grid.member.peers import KnownPeers
from grid.wire import grid_pb2 as pb

logger = logging.getLogger(__name__)

TICK_S = 0.2
REPORT_S = 2.0
RETRY_S = 1.0


@dataclass(slots=True)
class ServedLease:
    """A lease that runs here.

    Attributes:
        order: The hub's order.
        agent: Name of its agent at the engine.
        token: Token of the agent.
        until: Loop time at which it ends without a renewal.
        ends_at: Loop time at which it ends in any case.
        ending: Why it ends, from then on for good; empty while it runs.
        again_at: Loop time at which its agent is revoked again, if the rig did not do it.
        charge_nc: Delivered so far.
        pulses: Delivered so far.
        tunnels: Tasks of its tunnels.
    """

    order: pb.LeaseOrder
    agent: str
    token: str
    until: float
    ends_at: float = math.inf
    ending: str = ""
    again_at: float = math.inf
    charge_nc: float = 0.0
    pulses: int = 0
    tunnels: set[asyncio.Task[None]] = field(default_factory=set)


class ServedLeases:
    """What this laboratory grants. `send` takes messages for the hub; they may be lost with the connection."""

    def __init__(
        self, engine: EngineAccess, peers: KnownPeers, organoid: str, send: Callable[[pb.MemberMessage], None]
    ) -> None:
        self._engine = engine
        self._peers = peers
        self._organoid = organoid
        self._send = send
        self._running: dict[str, ServedLease] = {}
        self._seen = 0
        self._tallying = asyncio.Lock()
        self._tally_at = 0.0
        self.refusal = ""

    def names(self) -> list[str]:
        """Return the names of the leases that run."""
        return list(self._running)

    def find(self, lease: str) -> ServedLease | None:
        """Return a lease that runs and is not about to end."""
        served = self._running.get(lease)
        return None if served is None or served.ending else served

    async def take(self, order: pb.LeaseOrder) -> None:
        """Execute an order of the hub: offer, renewal or end."""
        lease = order.lease.lease
        if order.verb == pb.LeaseOrder.OFFER:
            await self._offered(order)
        elif order.verb == pb.LeaseOrder.RENEW and lease in self._running:
            self._running[lease].until = asyncio.get_running_loop().time() + order.ttl_s
        elif order.verb == pb.LeaseOrder.END and lease in self._running:
            await self.end(lease, order.lease.reason or "the hub has ended it")

    async def end(self, lease: str, reason: str) -> None:
        """End a lease: its agent at the engine first, then its tunnels, then the report.

        A rig that does not revoke the agent is asked again each second. No renewal keeps the lease alive in the meantime.
        """
        served = self._running.get(lease)
        if served is None:
            return
        served.ending = served.ending or reason
        try:
            await self._engine.dismiss(served.agent)
        except GridError as error:
            logger.error("the agent of the lease %s is revoked again in a second: %s", lease, error)
            served.again_at = asyncio.get_running_loop().time() + RETRY_S
            return
        finally:
            for task in tuple(served.tunnels):
                task.cancel()
        await self._tally()
        if self._running.pop(lease, None) is None:
            return  # another call has reported it
        logger.info("lease %s has ended: %s", lease, served.ending)
        self._report(lease, served, served.ending)

    async def end_stimulation(self, reason: str) -> None:
        """End every lease for stimulation."""
        for lease, served in tuple(self._running.items()):
            if served.order.lease.mode == "stimulate":
                await self.end(lease, reason)

    async def end_all(self, reason: str) -> None:
        """End every lease."""
        for lease in tuple(self._running):
            await self.end(lease, reason)

    async def watch(self) -> None:
        """End what was not renewed or has used up its charge, until cancelled."""
        loop = asyncio.get_running_loop()
        reported_at = loop.time()
        while True:
            await asyncio.sleep(TICK_S)
            for lease, served in tuple(self._running.items()):
                if served.ending:
                    if loop.time() >= served.again_at:
                        await self.end(lease, served.ending)
                elif loop.time() >= served.ends_at:
                    await self.end(lease, f"its {served.order.duration_s:g} s are over")
                elif loop.time() >= served.until:
                    await self.end(lease, f"no renewal from the hub for {served.order.ttl_s:g} s")
            if self._running and loop.time() >= reported_at + REPORT_S:
                reported_at = loop.time()
                await self._count()

    async def _offered(self, order: pb.LeaseOrder) -> None:
        lease = order.lease
        try:
            self._check(lease, order.member_key)
            await self._end_former(lease)
            name = f"{self._engine.prefix}{lease.lease}"
            budget = {"nc_s": order.nc_s, "pulses_min": order.pulses_min}
            token = await self._engine.admit(name, list(lease.electrodes), lease.mode, budget)
        except GridError as error:
            verdict = pb.LeaseVerdict(lease=lease.lease, accepted=False, reason=str(error)[:300])
        else:
            now = asyncio.get_running_loop().time()
            ends_at = now + order.duration_s
            self._running[lease.lease] = ServedLease(order, name, token, now + order.ttl_s, ends_at)
            verdict = pb.LeaseVerdict(lease=lease.lease, accepted=True)
        self._send(pb.MemberMessage(verdict=verdict))

    def _check(self, lease: pb.LeaseInfo, member_key: bytes) -> None:
        self._peers.require(lease.member, member_key)
        if lease.organoid != self._organoid:
            raise GridRefused(f"there is no organoid {lease.organoid[:60]} here")
        if lease.mode != "stimulate":
            return
        if self.refusal:
            raise GridRefused(self.refusal)
        for served in self._running.values():
            other = served.order.lease
            if lease.fence <= other.fence:
                raise GridRefused(f"its fencing token {lease.fence} is not newer than {other.fence}")

    async def _end_former(self, lease: pb.LeaseInfo) -> None:
        """End the leases for stimulation on the same electrodes: the newer fencing token takes their place.

        The hub has ended them. Its order may be lost, or the rig may have been too busy to revoke their agent.
        """
        if lease.mode != "stimulate":
            return
        for name, served in tuple(self._running.items()):
            other = served.order.lease
            if other.mode == "stimulate" and set(other.electrodes) & set(lease.electrodes):
                await self.end(name, f"the lease {lease.lease} has taken its place")
                if name in self._running:
                    raise GridRefused(f"the lease {name} on one of these electrodes could not be ended")

    async def _count(self) -> None:
        for lease in await self._tally():
            served = self._running.get(lease)
            if served is None:
                continue
            if served.charge_nc >= served.order.charge_nc:
                await self.end(lease, f"its charge of {served.order.charge_nc:g} nC is used up")
            else:
                self._report(lease, served, "")

    async def _tally(self) -> list[str]:
        """Read what was delivered since the last time, each record once; return the leases with pulses.

        After a failure nothing is read for 2 s, so that many leases that end wait for it once.
        """
        loop = asyncio.get_running_loop()
        async with self._tallying:
            if loop.time() < self._tally_at:
                return []
            try:
                self._seen, delivered = await self._engine.delivered(self._seen)
            except GridError as error:
                logger.warning("the deliveries of leases are not known at present: %s", error)
                self._tally_at = loop.time() + REPORT_S
                return []
            changed = []
            for lease, served in self._running.items():
                charge_nc, pulses = delivered.get(served.agent, (0.0, 0))
                served.charge_nc += charge_nc
                served.pulses += pulses
                if pulses:
                    changed.append(lease)
            return changed

    def _report(self, lease: str, served: ServedLease, ended: str) -> None:
        use = pb.LeaseUse(
            lease=lease, charge_nc=served.charge_nc, pulses=served.pulses, ended=bool(ended), reason=ended[:300]
        )
        self._send(pb.MemberMessage(use=use))
