"""Admission by measurement: challenge a connected member, verify and time its answers, keep its standing, repeat later."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

from grid.challenges import cores, disk, gemm, link, memory
from grid.errors import GridRefused
from grid.hub.members import Members, standing_message
from grid.hub.sessions import MemberSession
from grid.hub.store import Store
from grid.policy.policy import ROLES, GridPolicy
from grid.policy.standing import MemberStanding, best, counted_cores, load_dependent, standing
from grid.wire import grid_pb2 as pb

logger = logging.getLogger(__name__)

AT_ONCE = 2
"""Members that are measured at the same time: more would measure the hub."""
BUSY_AGAIN_S = 300.0
"""A member that was refused while its machine was busy is measured again after this time, if the policy's is longer."""
WITHIN_S = 120.0
MAX_CHAINS = 256
MIN_ELAPSED_S = 1e-4
Fault = Callable[[bytes, np.random.Generator], str]


class MemberAdmission:
    """Measures members. One instance a hub."""

    def __init__(self, store: Store, members: Members, policy: GridPolicy) -> None:
        self._store = store
        self._members = members
        self._policy = policy
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def watch(self, session: MemberSession) -> None:
        """Measure a member when it is due, as long as it is connected."""
        before = self._members.standing(session.identity)
        if before.figures:
            session.send(pb.HubMessage(standing=standing_message(before)))
        while True:
            again_s = min(self._policy.recheck_s, BUSY_AGAIN_S) if before.busy else self._policy.recheck_s
            if before.figures:
                left_s = before.measured_utc_s + again_s - self._store.utc()
                await asyncio.sleep(min(max(left_s, 0.0), again_s))  # the clock may have been set back since
            found = await self.judged(session)
            self._members.set_standing(session.identity, session.name, found)
            session.send(pb.HubMessage(standing=standing_message(found)))
            before = found
            logger.info("%s has the roles %s", session.name, ", ".join(found.roles) or "(none)")

    async def judged(self, session: MemberSession) -> MemberStanding:
        """Measure a member and return its standing, which is not kept yet.

        No role is refused or taken away for a figure that other work on the machine lowers before the measurements are
        repeated; the best of each figure counts. An answer that is forged or cannot be given is no matter of load.
        """
        before = self._members.standing(session.identity)
        versions = {"choroid": session.hello.choroid, "python": session.hello.python}
        claimed = min(session.hello.claims.cores, MAX_CHAINS)
        figures: dict[str, float] = {}
        load = 0.0
        for pause_s in (0.0, *self._policy.retry_s):
            await asyncio.sleep(pause_s)
            async with self._turns:
                run = _Run(session, self._policy)
                await run.everything()
            load = max(load, run.load)
            figures = run.figures if run.failed else best(figures, run.figures)
            if "all_cores_hash_hz" in figures:
                figures["cores"] = counted_cores(figures, claimed)
            found = standing(self._policy, figures, run.problems, versions, before, self._store.utc(), load)
            missed = set().union(*(load_dependent(self._policy, role, figures, before.admitted) for role in ROLES))
            missed -= {"cores"} if figures.get("cores") == claimed else set()
            if run.failed or not (missed or run.problems):
                break
        return found


class _Run:
    """One series of challenges."""

    def __init__(self, session: MemberSession, policy: GridPolicy) -> None:
        self._session = session
        self._sizes = policy.challenges
        self._claims = session.hello.claims
        self._chosen = np.random.default_rng(secrets.randbits(128))
        self._round_trip_s = 0.0
        self.figures: dict[str, float] = {}
        self.problems: dict[str, str] = {}
        self.failed = False
        self.load = 0.0

    async def everything(self) -> None:
        parts = (
            self._round_trip,
            self._downlink,
            self._uplink,
            self._cores,
            self._gemm,
            self._memory,
            self._disk,
            self._gpus,
        )
        for part in parts:
            name = part.__name__.strip("_")
            try:
                await part()
            except TimeoutError:
                self.problems[name] = f"no answer within {WITHIN_S:g} s"
            except _Failed as failed:
                self.problems[name] = str(failed)
                self.failed = True

    async def _round_trip(self) -> None:
        times = []
        for _ in range(self._sizes.round_trips):
            nonce = secrets.token_bytes(32)
            answer, elapsed_s = await self._ask("round_trip", nonce)
            if answer.result != link.receipt(nonce, b""):
                raise _Failed("the answer is wrong")
            times.append(elapsed_s)
        self._round_trip_s = min(times)
        self.figures["round_trip_s"] = float(np.median(times))

    async def _downlink(self) -> None:
        nonce, size = secrets.token_bytes(32), self._sizes.link_bytes
        data = link.payload(nonce, size)
        answer, elapsed_s = await self._ask("downlink", secrets.token_bytes(32), data=data)
        if answer.result != link.receipt(self._nonce, data):
            raise _Failed("the bytes did not arrive whole")
        self.figures["downlink_bit_s"] = 8 * size / self._without_trip(elapsed_s)

    async def _uplink(self) -> None:
        nonce, size = secrets.token_bytes(32), self._sizes.link_bytes
        answer, elapsed_s = await self._ask("uplink", nonce, bytes=size)
        if answer.result != await asyncio.to_thread(link.payload, nonce, size):
            raise _Failed("the bytes are not those of the nonce")
        self.figures["uplink_bit_s"] = 8 * size / self._without_trip(elapsed_s)

    async def _cores(self) -> None:
        claimed = min(self._claims.cores, MAX_CHAINS)
        if claimed < 1:
            raise _Failed("no core is claimed")
        one_s = await self._chains(1)
        many_s = one_s if claimed == 1 else await self._chains(claimed)
        self.figures["core_hash_hz"] = self._sizes.hash_iterations / one_s
        self.figures["all_cores_hash_hz"] = claimed * self._sizes.hash_iterations / many_s

    async def _chains(self, chains: int) -> float:
        nonce, iterations = secrets.token_bytes(32), self._sizes.hash_iterations
        answer, elapsed_s = await self._ask("cores", nonce, chains=chains, iterations=iterations)
        await self._check(lambda result, chosen: cores.fault(nonce, chains, iterations, result, chosen), answer)
        return self._without_trip(elapsed_s)

    async def _gemm(self) -> None:
        self.figures["gemm_flop_s"] = await self._products("gemm")

    async def _products(self, kind: str) -> float:
        nonce, size, count = secrets.token_bytes(32), self._sizes.gemm_size, self._sizes.gemm_count
        answer, elapsed_s = await self._ask(kind, nonce, size=size, count=count)
        await self._check(lambda result, chosen: gemm.fault(nonce, size, count, result, chosen), answer)
        return gemm.operations(size, count) / self._without_trip(elapsed_s)

    async def _memory(self) -> None:
        wanted = max(self._sizes.memory_bytes, 2 * sum(gpu.memory_bytes for gpu in self._claims.gpus))
        nonce, size = secrets.token_bytes(32), min(wanted, self._claims.memory_bytes)
        answer, elapsed_s = await self._ask("memory", nonce, bytes=size)
        await self._check(lambda result, chosen: memory.fault(nonce, size, result, chosen), answer)
        self.figures["memory_bytes"] = float(size)
        self.figures["memory_bytes_s"] = memory.moved_bytes(size) / self._without_trip(elapsed_s)

    async def _disk(self) -> None:
        nonce, size = secrets.token_bytes(32), min(self._sizes.disk_bytes, self._claims.disk_free_bytes)
        answer, elapsed_s = await self._ask("disk", nonce, bytes=size)
        await self._check(lambda result, chosen: disk.fault(nonce, size, result, chosen), answer)
        write, read = disk.rates(size, answer.result, self._without_trip(elapsed_s))
        self.figures.update(disk_write_bytes_s=write, disk_read_bytes_s=read)
        self.figures["disk_free_bytes"] = float(self._claims.disk_free_bytes)

    async def _gpus(self) -> None:
        gpus = list(self._claims.gpus)
        if not gpus:
            return
        self.figures["accelerator_flop_s"] = await self._products("accelerator")
        self.figures["gpus"] = float(len(gpus))
        self.figures["gpu_memory_bytes"] = float(sum(gpu.memory_bytes for gpu in gpus))
        lanes = [gpu.pcie_lanes for gpu in gpus]
        power_w = [gpu.power_w for gpu in gpus]
        if all(lanes):
            self.figures["pcie_lanes"] = float(min(lanes))
        if all(power_w):
            self.figures["gpu_power_w"] = float(sum(power_w))

    async def _ask(
        self, kind: str, nonce: bytes, *, data: bytes = b"", **sizes: int
    ) -> tuple[pb.ChallengeAnswer, float]:
        self._nonce = nonce
        challenge = pb.Challenge(id=secrets.token_hex(8), kind=kind, nonce=nonce, sizes=sizes, data=data)
        answer, elapsed_s = await self._session.ask(challenge, WITHIN_S)
        self.load = max(self.load, answer.load)
        if answer.problem:
            raise _Failed(f"the member could not do it: {answer.problem[:200]}")
        return answer, elapsed_s

    async def _check(self, fault: Fault, answer: pb.ChallengeAnswer) -> None:
        found = await asyncio.to_thread(fault, answer.result, self._chosen)
        if found:
            raise _Failed(f"the answer is forged or damaged: {found}")

    def _without_trip(self, elapsed_s: float) -> float:
        return max(elapsed_s - self._round_trip_s, MIN_ELAPSED_S)


class _Failed(Exception):
    """A challenge was not passed."""


async def ended_with(session: MemberSession, work: asyncio.Task[Any]) -> None:
    """End the measurements of a connection that has ended."""
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError, GridRefused):
        await work
    logger.debug("the measurements of %s have ended", session.name)
