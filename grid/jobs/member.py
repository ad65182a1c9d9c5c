"""A member that trains (`choroid grid join --work`): when a work lease with a manifest runs, it starts its rank."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

from controller.signed_log.public import fingerprint
from grid.data.exchange import http_client, peers_of
from grid.errors import GridError, GridRefused
from grid.jobs.code import allowed
from grid.jobs.environment import FEDERATED, check, interpreter
from grid.jobs.folder import flower_of, job_folder, make_ready, rank_folder, require_data
from grid.jobs.local import left_s
from grid.jobs.manifest import JobManifest, read_signed
from grid.jobs.node_keys import LOOPBACK, keys_of_ranks, node_keys, statement
from grid.jobs.process import Event, RankProcess
from grid.jobs.removal import remove_copies
from grid.member.membership import Membership
from grid.wire import grid_pb2 as pb
from grid.work.network import BASE, JobNetwork
from grid.work.served import Service, WorkingMember

logger = logging.getLogger(__name__)

MAX_RESTARTS = 20
AGAIN_S = 5.0
KEYS_S = 0.2


class TrainingMember(WorkingMember):
    """A member that also runs a rank of a training job, if its operator allows the code.

    Attributes:
        rank: The process of its rank.
    """

    def __init__(
        self,
        membership: Membership,
        progress: Callable[[str], None] = lambda _: None,
        *,
        base: str = BASE,
        service: Service | None = None,
    ) -> None:
        super().__init__(membership, progress, base=base, service=service)
        self.rank: RankProcess | None = None
        self._data = Path(membership.folder)
        self._training: asyncio.Task[None] | None = None
        self._last = pb.WorkReport()
        self._registered = pb.WorkInfo()
        """The lease as the hub has told of it last, with the keys of all ranks of a federated job."""

    def _order(self, order: pb.WorkOrder) -> None:
        super()._order(order)
        if order.verb == pb.LeaseOrder.RENEW and self.lease is not None and self.lease.lease == order.work.lease:
            self._registered = order.work
            if self._last.lease == order.work.lease:
                self._send()  # the last report may have been lost with the connection

    def _begin(self, order: pb.WorkOrder) -> None:
        if order.work.manifest:
            try:
                self._require(order.work)
            except GridError as error:
                self._verdict(order.work.lease, str(error))
                return
        super()._begin(order)

    def _keys(self, lease: str) -> bytes:
        if self.lease is None or self.network is None or not self.lease.manifest:
            return b""
        manifest, _ = read_signed(self.lease.manifest)
        if flower_of(manifest) is None:
            return b""
        number = [each.member for each in self.lease.ranks].index(self._membership.key.id)
        own = (self.network.addresses[number], LOOPBACK)
        folder = rank_folder(job_folder(self._data, manifest), number)
        return statement(self._membership.key, lease, *node_keys(folder, own))

    async def _nodes(self, lease: pb.WorkInfo, rank: Path) -> list[str]:
        """Return the keys of all nodes by rank, as soon as all are registered at the hub."""
        while self._registered.lease != lease.lease or not all(each.keys for each in self._registered.ranks):  # noqa: ASYNC110
            await asyncio.sleep(KEYS_S)
        said = [(known.key, each.keys) for known, each in zip(lease.ranks, self._registered.ranks, strict=True)]
        return keys_of_ranks(said, lease.lease, rank)

    def _require(self, work: pb.WorkInfo) -> JobManifest:
        """Return the manifest of a lease. Raises :class:`GridError` with the reason for which it does not run here."""
        manifest, owner = read_signed(work.manifest)
        if fingerprint(owner) != work.member:
            raise GridRefused("the manifest is not signed by the holder of the lease")
        manifest.require_ranks([each.member for each in work.ranks])
        if manifest.members and self._membership.key.id not in manifest.members:
            raise GridRefused("the manifest does not admit this member")
        allowed(self._data, manifest.code)
        interpreter()
        flower_of(manifest)
        require_data(self._data, manifest, work.member)
        left_s(manifest)
        return manifest

    def _write(self, lease: pb.WorkInfo, network: JobNetwork) -> None:
        super()._write(lease, network)
        if lease.manifest and self._training is None:
            task = asyncio.create_task(self._train(lease, network), name=f"rank of {lease.job}")
            self._training = task

    async def _train(self, lease: pb.WorkInfo, network: JobNetwork) -> None:
        number = [each.member for each in lease.ranks].index(self._membership.key.id)
        self._last = pb.WorkReport(lease=lease.lease, rank=number, state="trains")
        try:
            manifest = self._require(lease)
            python = interpreter()
            flower = flower_of(manifest)
            await asyncio.to_thread(check, python)
            if flower is not None:
                await asyncio.to_thread(check, flower, FEDERATED)
            with http_client() as client:
                peers = peers_of(network.addresses, number, client)
                job = await asyncio.to_thread(make_ready, self._data, manifest, python, peers, flower)
            nodes = await self._nodes(lease, job.rank(number)) if flower is not None else []
            self.rank = RankProcess(job, number, network.addresses, self._report, nodes)
            cores = os.cpu_count() or 1
            threads = min(manifest.threads or cores, cores)
            failed, before = 0, -1
            while failed <= MAX_RESTARTS:
                await self.rank.run(threads, left_s(manifest), lease.lease)
                if self.rank.ended is not None:
                    remove_copies(job.path)
                    self._say("ended", str(self.rank.ended["reason"]))
                    return
                failed = failed + 1 if self._last.outer == before else 1
                before = self._last.outer
                self._say("trains", f"started again ({failed}): {self.rank.last_words()}")
                await asyncio.sleep(AGAIN_S)
            raise GridError(f"its rank has ended {failed} times without a step between: {self.rank.last_words()}")
        except GridError as error:
            self._say("failed", str(error))
        except Exception as error:
            logger.exception("rank %d of %s", number, lease.job)
            self._say("failed", f"{type(error).__name__}: {error}")

    def _report(self, event: Event) -> None:
        if event["event"] == "step" or (event["event"] == "update" and event["rank"] != 0):
            self._last.outer, self._last.loss, self._last.sent = event["outer"], event["loss"], event["sent"]
        elif event["event"] == "checkpoint":
            self._last.checkpoint = event["sha256"]
            self._last.scores.update({str(name): float(value) for name, value in event["scores"].items()})
            self._say("trains")

    def _say(self, state: str, reason: str = "") -> None:
        self._last.state, self._last.reason = state, reason[:300]
        self._send()
        if reason:
            self._progress(f"{state}: {reason}")

    def _send(self) -> None:
        report = pb.WorkReport()
        report.CopyFrom(self._last)
        self.link.send(pb.MemberMessage(report=report))

    def _end(self, reason: str) -> None:
        training, self._training, self.rank = self._training, None, None
        if training is not None:
            training.cancel()
            task = asyncio.create_task(_over(training), name="end of a rank")
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
        super()._end(reason)


async def _over(training: asyncio.Task[None]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await training
