"""The laboratory's electrode engine, through its own interface: agents are added and removed at the rig, which keeps them.

The engine has the final word. Each lease gets a credential of its own at the engine, with the electrodes and the budget of
the lease; when the lease ends the credential is revoked, which ends its leases and waiting pulses at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from choroid.client.connection import AsyncControllerClient, connect_async
from choroid.client.errors import ClientError, NervesError
from choroid.client.nerves import AsyncNervesClient
from choroid.client.nerves_terms import NervesEvent, endpoint_of
from choroid.client.wire import nerves_pb2 as nerves_pb
from grid.errors import GridError

NERVES_FILE = "nerves.json"
LEDGER_PAGE = 1000
LEDGER_S = 5.0
"""Time in which the engine reads a page of its ledger; leases do not wait longer for it."""
CLOSING = ("STIMULATION_STOPPED", "PERMIT_CLOSED", "ALARM", "ENGINE_STARTED")
"""Events of the engine after which no lease for stimulation goes on."""


class AgentDesk(Protocol):
    """Issues and revokes credentials at the rig."""

    async def issue(self, name: str, role: str, electrodes: list[int] | None, budget: Mapping[str, float]) -> str:
        """Add an agent; return its token."""
        ...

    async def revoke(self, name: str) -> None:
        """Revoke an agent; nothing happens when it is revoked already."""
        ...

    async def names(self) -> dict[str, bool]:
        """Return every agent's name, and whether it is valid."""
        ...


class RigDesk:
    """The desk of a running rig, through its HTTP interface."""

    def __init__(self, rig: AsyncControllerClient) -> None:
        self._rig = rig

    @classmethod
    async def connect(cls, data: Path) -> RigDesk:
        """Connect to the rig that runs with the data folder `data`. Raises :class:`GridError`."""
        try:
            return cls(await connect_async(data=data))
        except ClientError as error:
            raise GridError(f"the rig of {data} cannot be reached: {error}") from None

    async def issue(self, name: str, role: str, electrodes: list[int] | None, budget: Mapping[str, float]) -> str:
        """See :class:`AgentDesk`."""
        body: dict[str, Any] = {"name": name, "role": role, "electrodes": electrodes, "reason": "grid", **budget}
        return str((await self._request("POST", "/api/agents", body))["token"])

    async def revoke(self, name: str) -> None:
        """See :class:`AgentDesk`."""
        if (await self.names()).get(name):
            await self._request("POST", f"/api/agents/{quote(name, safe='')}/revoke", {"reason": "grid"})

    async def names(self) -> dict[str, bool]:
        """See :class:`AgentDesk`."""
        found = await self._request("GET", "/api/agents", None)
        return {each["name"]: not each["revoked_utc"] for each in found["agents"]}

    async def close(self) -> None:
        """Close the connection."""
        await self._rig.close()

    async def _request(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        try:
            return await self._rig.request(method, path, body)
        except ClientError as error:
            raise GridError(f"the rig did not do it: {error}") from None


@dataclass(frozen=True, slots=True)
class EngineState:
    """What a laboratory can offer now."""

    electrodes: int
    sample_rate_hz: float
    simulated: bool
    stimulation: bool
    reason: str


class EngineAccess:
    """The electrode engine of a rig: state, events, what was delivered.

    Attributes:
        address: Where it listens on this machine.
    """

    def __init__(self, data: Path, desk: AgentDesk, prefix: str) -> None:
        """Prepare it; :meth:`open` connects.

        Args:
            data: Data folder of the rig.
            desk: Where its agents are issued.
            prefix: Begins the names of the agents of this laboratory's leases.
        """
        self._data = data
        self._desk = desk
        self.prefix = prefix
        self._watcher = ""
        self._client: AsyncNervesClient | None = None
        self._begins_after = 0
        self.address = ""

    async def open(self) -> None:
        """Revoke what an earlier process has left, and connect as an auditor of its own.

        Raises:
            GridError: The rig or its engine cannot be reached.
        """
        known = await self._desk.names()
        for name, valid in known.items():
            if valid and name.startswith(self.prefix):
                await self._desk.revoke(name)
        numbers = (int(name.rpartition("-")[2]) for name in known if name.startswith(f"{self.prefix}watch-"))
        self._watcher = f"{self.prefix}watch-{max(numbers, default=0) + 1}"
        token = await self._desk.issue(self._watcher, "auditor", None, {})
        try:
            self.address, _ = endpoint_of(self._data / NERVES_FILE)
            self._client = AsyncNervesClient(self.address, token)
            await self._client.info()
        except NervesError as error:
            raise GridError(str(error)) from None
        self._begins_after = await self._newest()  # what is older was not asked for by a lease of this process

    async def close(self) -> None:
        """Disconnect and revoke the own credential."""
        if self._client is not None:
            await self._client.close()
            self._client = None
            await self._desk.revoke(self._watcher)

    async def admit(self, name: str, electrodes: list[int], mode: str, budget: Mapping[str, float]) -> str:
        """Add the agent of a lease; return its token. Raises :class:`GridError`."""
        role = "agent" if mode == "stimulate" else "reader"
        return await self._desk.issue(name, role, electrodes, budget if mode == "stimulate" else {})

    async def dismiss(self, name: str) -> None:
        """Revoke the agent of a lease: its pulses and leases at the engine end at once. Raises :class:`GridError`."""
        await self._desk.revoke(name)

    async def state(self) -> EngineState:
        """Return what can be offered. Raises :class:`GridError` when the engine does not answer."""
        try:
            info, summary = await self._engine.info(), await self._engine.summary()
            status = await self._engine.status()
        except NervesError as error:
            raise GridError(str(error)) from None
        welfare = summary.welfare
        reason = status.trouble
        if welfare.level == "none":
            reason = welfare.reason or "the permit of the tissue allows no stimulation"
        elif welfare.response_lost:
            reason = "the response of the tissue is lost"
        return EngineState(info.electrodes, info.sample_rate_hz, info.simulated, not reason, reason)

    async def events(self) -> AsyncGenerator[NervesEvent]:
        """Yield events of the engine after which leases for stimulation end. Raises :class:`GridError`."""
        try:
            async with aclosing(self._engine.events()) as events:
                async for event in events:
                    if event.kind in CLOSING:
                        yield event
        except NervesError as error:
            raise GridError(str(error)) from None

    async def delivered(self, after: int) -> tuple[int, dict[str, tuple[float, int]]]:
        """Return the number of the last decision, and (charge in nC, pulses) by agent since decision `after`."""
        found: dict[str, tuple[float, int]] = {}
        after = max(after, self._begins_after)
        while page := await self._page(after, LEDGER_PAGE):
            for record in page:
                after = max(after, record.decision)
                pulses = sum(pulse.state not in NOT_DELIVERED for pulse in record.pulses)
                charge_nc, number = found.get(record.requester, (0.0, 0))
                found[record.requester] = (charge_nc + pulses * record.charge_nc, number + pulses)
            if len(page) < LEDGER_PAGE:
                break
        return after, found

    async def _page(self, after: int, limit: int) -> list[nerves_pb.LedgerRecord]:
        try:
            async with asyncio.timeout(LEDGER_S):
                return [record async for record in self._engine.ledger(after=after, limit=limit)]
        except TimeoutError:
            raise GridError(f"the electrode engine did not read its ledger within {LEDGER_S:g} s") from None
        except NervesError as error:
            raise GridError(str(error)) from None

    async def _newest(self) -> int:
        """Return the number of the newest decision, 0 if there is none, by bisection: a ledger of months has millions."""
        low, high = 0, 1
        if not await self._page(low, 1):
            return low
        while await self._page(high, 1):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if await self._page(middle, 1) else (low, middle)
        return high

    @property
    def _engine(self) -> AsyncNervesClient:
        if self._client is None:
            raise GridError("the electrode engine is not connected")
        return self._client


NOT_DELIVERED = (nerves_pb.PulseFate.DROPPED, nerves_pb.PulseFate.CANCELLED)
"""Anything else counts as delivered, also what waits or is unknown."""
