"""The hub's process: two gRPC ports, one database, one loop that keeps what is promised."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio

from grid.clock import SteadyUtc, UtcSeconds, utc_s
from grid.errors import GridError
from grid.grading.hosting import HostedBoards
from grid.grading.rpc import BoardsRpc
from grid.hub.confirming import Confirming
from grid.hub.dispatch import Dispatch
from grid.hub.enrolment import EnrolmentService
from grid.hub.leases import LeaseBook
from grid.hub.members import SEEN_S, Members
from grid.hub.owner import owned
from grid.hub.relaying import Tunnels
from grid.hub.service import HEARTBEAT_S, HubService
from grid.hub.sessions import Sessions
from grid.hub.witnessing import WitnessingService
from grid.hub.work_dispatch import WorkDispatch
from grid.identity.authority import CERTIFICATE_S, Authority
from grid.log.witness import Witness
from grid.policy.policy import GridPolicy, load_policy
from grid.wire import grid_pb2_grpc as pb_grpc
from grid.wire.boards import boards_pb2_grpc

logger = logging.getLogger(__name__)

LOCK_FILE = "hub.lock"
TICK_S = 0.25
FOLLOW_S = 1.0
"""A clock that was set by more than this is followed (s); the rest is drift."""
SILENT_S = 6 * HEARTBEAT_S
"""A connection without any message for this long ends."""
MAX_MESSAGE_BYTES = 40_000_000
OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
)


@dataclass(frozen=True, slots=True)
class HubSettings:
    """How a hub is started.

    Attributes:
        data: Its data folder.
        host: Where both ports listen.
        enrolment_port: Port that people pass on; 0 takes any free one.
        member_port: Port for members with a certificate; 0 takes any free one.
        name: Name of a new hub and its log.
        new_log: Whether a key that exists may begin a new log.
        policy: Policy file; None means the one that comes with Choroid.
        grading: Whether submitted models are graded here.
        executor: Where the graders spread episodes; None plays them in the hub's task processes, one after the other.
        utc: Source of UTC.
        confirm_every_s: How often the witnesses of the log are asked to confirm it.
    """

    data: Path
    host: str = "127.0.0.1"
    enrolment_port: int = 0
    member_port: int = 0
    name: str = ""
    new_log: bool = False
    policy: Path | None = None
    grading: bool = True
    executor: Executor | None = None
    utc: UtcSeconds = field(default=utc_s)
    confirm_every_s: float = 60.0


class Hub:
    """A running hub. Made by :func:`running_hub`.

    Attributes:
        store: Its database.
        members: Its members.
        book: Its leases on tissue.
        work: Its work leases, and what is announced of them.
        sessions: Its open connections.
        boards: Its boards.
        address: What members join with: host:port#fingerprint of the authority.
    """

    def __init__(self, settings: HubSettings, policy: GridPolicy) -> None:
        self.policy = policy
        self._utc = SteadyUtc(settings.utc, asyncio.get_running_loop().time)
        self.store = owned(settings.data, name=settings.name, utc=self._utc, new_log=settings.new_log)
        self.authority = Authority.in_folder(settings.data, self.store.utc)
        self.members = Members(self.store, policy.enrolment)
        self.sessions = Sessions()
        self.tunnels = Tunnels(self.sessions)
        self.book = LeaseBook(self.store, self.members, self.policy.leases)
        self.witness = Witness(self.store.database, self.store.log, self.store.utc)
        self.dispatch = Dispatch(self.store, self.members, self.book, self.sessions, self.tunnels, self.policy.leases)
        self.work = WorkDispatch(self.store, self.members, self.sessions, policy.work)
        self.boards = HostedBoards(
            settings.data, self.store, append=self.store.note, clock=self.store.utc, executor=settings.executor
        )
        self._enrolment = EnrolmentService(self.store, self.members, self.authority, self.policy)
        self.confirming = Confirming(self.store, settings.confirm_every_s)
        self._settings = settings
        self._servers: list[grpc.aio.Server] = []
        self._server_pair_until_s = 0.0
        self._version: tuple[int, int] | None = None
        self.address = ""
        self.member_port = 0

    async def open(self) -> None:
        """Listen. Raises :class:`GridError` when a port is taken."""
        service = HubService(
            self.store, self.members, self.book, self.sessions, self.tunnels, self.dispatch, self.work, self.policy
        )
        self.book.resume()
        self.work.book.resume()
        members, enrolment = grpc.aio.server(options=OPTIONS), grpc.aio.server(options=OPTIONS)
        pb_grpc.add_HubServicer_to_server(service, members)
        boards_pb2_grpc.add_BoardsServicer_to_server(BoardsRpc(self.boards.service, service.identity), members)
        pb_grpc.add_EnrolmentServicer_to_server(self._enrolment, enrolment)
        pb_grpc.add_WitnessingServicer_to_server(WitnessingService(self.witness), enrolment)
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        credentials = grpc.dynamic_ssl_server_credentials(
            self._certificates(),
            self._fresh_certificates,  # type: ignore[arg-type]  # None means: keep them
            require_client_authentication=True,
        )
        self.member_port = _bind(members, f"{host}:{self._settings.member_port}", credentials)
        self._enrolment.member_port = self.member_port
        own = grpc.ssl_server_credentials([self.authority.own_pair()])
        port = _bind(enrolment, f"{host}:{self._settings.enrolment_port}", own)
        self.address = f"{host}:{port}#{self.authority.fingerprint[:32]}"
        for server in (members, enrolment):
            await server.start()
            self._servers.append(server)

    async def run(self) -> None:
        """Keep leases, revocations and marks up to date, until it is cancelled."""
        loop = asyncio.get_running_loop()
        seen_at = loop.time()
        problem = ""
        while True:
            try:
                self._follow_clock()
                self._end_revoked()
                self._end_silent(loop.time())
                self.dispatch.now()
                self.work.now()
                if loop.time() >= seen_at + SEEN_S:
                    seen_at = loop.time()
                    self.members.seen({each.identity: each.working_on for each in self.sessions.every()})
                problem = ""
            except GridError as error:
                if str(error) != problem:
                    logger.error("%s", error)
                problem = str(error)
            await asyncio.sleep(TICK_S)

    async def grade(self) -> None:
        """Grade submitted models until it is cancelled. Leases do not depend on it."""
        if self._settings.grading:
            await self.boards.run()

    async def close(self) -> None:
        """Stop listening and close the database."""
        self.sessions.end_where(lambda _: "the hub is stopping")
        for server in self._servers:
            await server.stop(grace=0.2)
        self.store.close()

    def _follow_clock(self) -> None:
        """Follow a clock that was set. Times of leases, claims and rotations move with it: they last as long as before."""
        by_s = self._utc.off_s
        if abs(by_s) < FOLLOW_S:
            return
        with self.store.transaction():
            self.book.move(by_s)
            self.work.book.move(by_s)
            self.boards.move(by_s)
            self.store.note("hub.clock", {"set_by_s": round(by_s, 3)})
        self._utc.follow(by_s)
        self._server_pair_until_s = 0.0
        logger.warning("the clock of this machine was set by %+.1f s; leases last as long as before", by_s)

    def _end_revoked(self) -> None:
        """End the connections of identities that are no longer approved, if the database has changed since the last time."""
        version = self.store.version()
        if version != self._version:
            approved = self.members.approved_ones()
            self.sessions.end_where(lambda each: "" if each.identity in approved else "this identity was revoked")
            self._version = version

    def _end_silent(self, now: float) -> None:
        said = f"no message for {SILENT_S:g} s"
        self.sessions.end_where(lambda each: said if now - each.alive_at > SILENT_S else "")

    def _certificates(self) -> grpc.ServerCertificateConfiguration:
        self._server_pair_until_s = self.store.utc() + CERTIFICATE_S / 2
        pair = self.authority.server_pair()
        return grpc.ssl_server_certificate_configuration([pair], self.authority.certificate_pem)

    def _fresh_certificates(self) -> grpc.ServerCertificateConfiguration | None:
        """Return new certificates when half of the life of the present ones is over; gRPC asks at each handshake."""
        return self._certificates() if self.store.utc() > self._server_pair_until_s else None


@contextlib.asynccontextmanager
async def running_hub(settings: HubSettings) -> AsyncIterator[Hub]:
    """Run a hub while the block lasts.

    Raises:
        GridError: The policy is malformed, the folder cannot be used or another hub has it, or a port is taken.
    """
    policy = load_policy(settings.policy)
    with _held(settings.data):
        hub = Hub(settings, policy)
        tasks: list[asyncio.Task[None]] = []
        try:
            await hub.open()
            works = {"hub": hub.run(), "grading": hub.grade(), "witnesses of the log": hub.confirming.run()}
            tasks = [asyncio.create_task(work, name=name) for name, work in works.items()]
            for task in tasks:
                task.add_done_callback(_report)
            yield hub
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await hub.close()


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the lock of a hub's folder, at most until this process ends.

    Raises:
        GridError: Another hub has it, or the folder cannot be used.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise GridError(
            f"{folder} cannot be used ({error.strerror}). Next: check --data, the rights of the folder and the disk"
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise GridError(
                f"another hub runs with {folder}. Two hubs would not know of each other's connections. Next: end it, or"
                " name another folder with --data"
            ) from None
        yield
    finally:
        os.close(lock)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.error("%s has ended: a defect of this software", task.get_name(), exc_info=task.exception())


def _bind(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials) -> int:
    try:
        return int(server.add_secure_port(address, credentials))
    except RuntimeError as error:
        raise GridError(f"the hub cannot listen on {address} ({error}). Next: choose another port") from None
