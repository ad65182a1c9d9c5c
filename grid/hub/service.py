"""The service for members and laboratories, behind mutual TLS. Every call checks that its caller is still approved."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from grid.errors import GridError, GridRefused
from grid.hub.admission import MemberAdmission, ended_with
from grid.hub.dispatch import Dispatch
from grid.hub.leases import LeaseBook
from grid.hub.members import Members
from grid.hub.relaying import Tunnels
from grid.hub.sessions import MemberSession, Sessions
from grid.hub.store import Store
from grid.hub.work_dispatch import WorkDispatch
from grid.identity.authority import CERTIFICATE_S, expires_utc_s, identity_of
from grid.identity.requests import PROCESS_KEY
from grid.policy.policy import GridPolicy
from grid.wire import grid_pb2 as pb
from grid.wire import grid_pb2_grpc as pb_grpc

HubContext = grpc.aio.ServicerContext[Any, Any]
HEARTBEAT_S = 5.0
MAX_PROCESS = 64
MAX_ROWS = 1000
SHOWN_ENDED = 100


@functools.lru_cache(maxsize=4096)
def _named_by(certificate: bytes) -> tuple[str, float]:
    return identity_of(certificate), expires_utc_s(certificate)


class HubService(pb_grpc.HubServicer):
    """Answers the calls of `Hub`."""

    def __init__(
        self,
        store: Store,
        members: Members,
        book: LeaseBook,
        sessions: Sessions,
        tunnels: Tunnels,
        dispatch: Dispatch,
        work: WorkDispatch,
        policy: GridPolicy,
    ) -> None:
        self._store = store
        self._members = members
        self._book = book
        self._sessions = sessions
        self._tunnels = tunnels
        self._dispatch = dispatch
        self._work = work
        self._policy = policy
        self._admission = MemberAdmission(store, members, policy)

    async def Session(
        self, request_iterator: AsyncIterator[pb.MemberMessage], context: HubContext
    ) -> AsyncIterator[pb.HubMessage]:
        """The lasting connection of a member or a laboratory."""
        caller, expires_s = await self._caller(context)
        said = {key: value for key, value in context.invocation_metadata() or () if key == PROCESS_KEY}
        process = str(said.get(PROCESS_KEY, ""))[:MAX_PROCESS]
        session = MemberSession(caller["id"], caller["name"], caller["kind"], process=process, peer=context.peer())
        async with _explained(context):
            self._sessions.opened(session)
        reading = asyncio.create_task(self._read(session, request_iterator))
        lapse = asyncio.get_running_loop().call_later(
            min(max(expires_s - self._store.utc(), 0.0), CERTIFICATE_S), session.end, "its certificate has expired"
        )
        try:
            yield pb.HubMessage(
                welcome=pb.Welcome(
                    hub=self._store.name,
                    utc_s=self._store.utc(),
                    policy_version=self._policy.version,
                    heartbeat_s=HEARTBEAT_S,
                )
            )
            while (message := await session.next()) is not None:
                yield message
            await context.abort(grpc.StatusCode.ABORTED, session.ended)
        finally:
            lapse.cancel()
            session.end("the client has closed it")
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            self._sessions.closed(session)

    async def RequestLease(self, request: pb.LeaseRequest, context: HubContext) -> pb.LeaseInfo:
        """Ask for a lease on tissue."""
        caller, _ = await self._caller(context)
        async with _explained(context):
            lease = self._book.request(caller["id"], request)
            self._dispatch.now()
            return self._book.info(self._book.find(lease["id"]))

    async def RenewLeases(self, request: pb.RenewRequest, context: HubContext) -> pb.LeasesReply:
        """Heartbeat of the caller's leases."""
        caller, _ = await self._caller(context)
        async with _explained(context):
            found = self._book.renew(caller["id"], request.leases)
            for row in found:
                self._dispatch.renewed(row)
            return pb.LeasesReply(leases=[self._book.info(row) for row in found])

    async def ReleaseLease(self, request: pb.ReleaseRequest, context: HubContext) -> pb.LeaseInfo:
        """End a lease of the caller."""
        caller, _ = await self._caller(context)
        async with _explained(context):
            row = self._book.release(caller["id"], request.lease, request.reason)
            self._dispatch.now()
            return self._book.info(row)

    async def RequestWork(self, request: pb.WorkRequest, context: HubContext) -> pb.WorkInfo:
        """Ask for a work lease."""
        caller, _ = await self._caller(context)
        async with _explained(context):
            lease = self._work.book.request(caller["id"], request)
            self._work.now()
            return self._work.book.info(self._work.book.find(lease["id"]))

    async def RenewWork(self, request: pb.RenewRequest, context: HubContext) -> pb.WorkReply:
        """Heartbeat of work leases."""
        caller, _ = await self._caller(context)
        async with _explained(context):
            found = self._work.book.renew(caller["id"], request.leases)
            for row in found:
                self._work.renewed(row)
            return pb.WorkReply(work=[self._work.book.info(row) for row in found])

    async def ReleaseWork(self, request: pb.ReleaseRequest, context: HubContext) -> pb.WorkInfo:
        """End a work lease of the caller."""
        caller, _ = await self._caller(context)
        async with _explained(context):
            row = self._work.book.release(caller["id"], request.lease, request.reason)
            self._work.now()
            return self._work.book.info(row)

    async def Relay(
        self, request_iterator: AsyncIterator[pb.RelayFrame], context: HubContext
    ) -> AsyncIterator[pb.RelayFrame]:
        """Bytes between two parties of a grant."""
        caller, _ = await self._caller(context)
        async with _explained(context):
            first = await anext(request_iterator, pb.RelayFrame())
            called = bool(first.tunnel)
            if called:
                tunnel = self._tunnels.answer(first.tunnel, caller["id"])
            else:
                grant = self._book.grant(first.lease)
                tunnel = await self._tunnels.call(grant.id, caller["id"], grant.peer(caller["id"], first.peer))
        async with contextlib.aclosing(self._tunnels.copy(tunnel, request_iterator, called=called)) as frames:
            async for frame in frames:
                yield frame

    async def Tissues(self, request: pb.TissuesRequest, context: HubContext) -> pb.TissuesReply:
        """The tissue that laboratories offer at present."""
        await self._caller(context)
        return self._dispatch.tissues()

    async def Members(self, request: pb.MembersRequest, context: HubContext) -> pb.MembersReply:
        """Members, their roles and their measured figures."""
        await self._caller(context)
        return self._dispatch.members()

    async def Leases(self, request: pb.LeasesRequest, context: HubContext) -> pb.LeasesReply:
        """Leases: living ones, and the last that ended."""
        await self._caller(context)
        rows = [*self._book.living(), *self._book.ended(min(request.ended, SHOWN_ENDED))]
        return pb.LeasesReply(leases=[self._book.info(row) for row in rows])

    async def Log(self, request: pb.LogRequest, context: HubContext) -> pb.LogReply:
        """Rows of the log, and the signed checkpoint over it."""
        await self._caller(context)
        log = self._store.log
        rows = log.rows(getattr(request, "from"), min(request.limit or MAX_ROWS, MAX_ROWS))
        found = [pb.LogRow(index=number, body=body) for number, body in rows]
        return pb.LogReply(rows=found, checkpoint=log.checkpoint(), size=log.size)

    async def identity(self, context: HubContext) -> str:
        """Return the caller's identity; end the call of one that is not approved."""
        caller, _ = await self._caller(context)
        return str(caller["id"])

    async def _read(self, session: MemberSession, messages: AsyncIterator[pb.MemberMessage]) -> None:
        """Take the messages of a client until it closes; measure it in the meantime."""
        measuring: asyncio.Task[None] | None = None
        try:
            async for message in messages:
                session.alive_at = asyncio.get_running_loop().time()
                kind = message.WhichOneof("content")
                if kind == "hello" and measuring is None:
                    self._greet(session, message.hello)
                    if session.kind == "member":
                        measuring = asyncio.create_task(self._admission.watch(session), name=f"measure {session.name}")
                        measuring.add_done_callback(lambda task: _report(session, task))
                else:
                    self._take(session, kind or "", message)
        except GridError as error:
            session.end(str(error))
        finally:
            if measuring is not None:
                await ended_with(session, measuring)
            session.end("the client has closed it")

    def _greet(self, session: MemberSession, hello: pb.Hello) -> None:
        session.hello, session.greeted = hello, True
        claims = hello.claims
        said = {"cores": claims.cores, "memory_bytes": claims.memory_bytes, "gpus": [g.name for g in claims.gpus]}
        self._members.set_claims(session.identity, said)
        if session.kind == "lab":
            self._dispatch.lab_came(session, list(hello.leases))
        else:
            self._work.member_came(session)

    def _take(self, session: MemberSession, kind: str, message: pb.MemberMessage) -> None:
        if kind == "heartbeat":
            session.working_on = message.heartbeat.working_on[:200]
        elif kind == "answer":
            session.answered(message.answer)
        elif session.kind == "lab":
            self._dispatch.from_lab(session, kind, message)
        elif kind == "verdict":
            self._work.book.verdict(session.identity, message.verdict)
            self._work.now()
        elif kind == "refusal":
            self._work.refused(session, message.refusal)
        elif kind == "report":
            self._work.report(session, message.report)

    async def _caller(self, context: HubContext) -> tuple[Any, float]:
        """Return the caller's row and when its certificate expires; end the call of one that is not approved."""
        certificate = next(iter(context.auth_context().get("x509_pem_cert", ())), b"")
        if not certificate:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "this call needs a certificate of the grid")
        identity, expires_s = _named_by(certificate)
        if expires_s <= self._store.utc():
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "the certificate has expired. Next: renew it (choroid grid join does so by itself)",
            )
        async with _explained(context):
            found = self._members.approved(identity)
        if found is None:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                "this identity is not approved, or was revoked. Next: ask the hub's operator",
            )
        return found, expires_s


@contextlib.asynccontextmanager
async def _explained(context: HubContext) -> AsyncIterator[None]:
    """Answer errors of the grid with their text."""
    try:
        yield
    except GridRefused as refused:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refused))
    except GridError as error:
        await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))


def _report(session: MemberSession, task: asyncio.Task[None]) -> None:
    """End a connection whose measurements have failed: the client comes again, and is measured again."""
    if not task.cancelled() and task.exception() is not None:
        session.end(f"its measurement has failed: {task.exception()}")
