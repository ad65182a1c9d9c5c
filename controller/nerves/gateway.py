"""Serve the gRPC service of nerves.proto over the engine's core.

Every call needs a valid token, checked before the call itself is read. Streams read the core's rings at their own
pace: a slow stream loses its own data and receives a report of the loss (N6). Nothing here can hold up the real-time
thread: it takes commands from a bounded queue and wakes this event loop without waiting for it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import grpc
import grpc.aio

from controller.nerves import ledger
from controller.nerves.core import Busy, Core, LeaseCommand, StimulateCommand, StimulationOutcome
from controller.nerves.device import Phase
from controller.nerves.governor import Request
from controller.nerves.leases import Lease, LeaseRefused
from controller.nerves.ring import Gap
from controller.nerves.tokens import Grant, Keyring, TokenScope
from controller.nerves.wire import nerves_pb2 as pb
from controller.nerves.wire import nerves_pb2_grpc as pb_grpc

if TYPE_CHECKING:
    Interceptor = grpc.aio.ServerInterceptor[Any, Any]
else:
    Interceptor = grpc.aio.ServerInterceptor

T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]

SERVICE = "choroid.nerves.v1.Nerves"
SCOPES: dict[str, frozenset[TokenScope]] = {
    f"/{SERVICE}/{name}": frozenset(scopes)
    for name, scopes in {
        "Info": {TokenScope.READ},
        "Status": {TokenScope.READ},
        "Summary": {TokenScope.READ},
        "StreamSummary": {TokenScope.READ},
        "StreamFrames": {TokenScope.READ},
        "StreamSpikes": {TokenScope.READ},
        "AcquireLease": {TokenScope.STIMULATE},
        "RenewLease": {TokenScope.STIMULATE},
        "ReleaseLease": {TokenScope.STIMULATE},
        "Stimulate": {TokenScope.STIMULATE},
        "Ledger": {TokenScope.STIMULATE, TokenScope.AUDIT},
    }.items()
}
"""Any one of the named scopes allows the call; a call that is not named here is refused."""

MAX_MESSAGE_BYTES = 64 * 1024
MAX_SUBSCRIBERS = 64
MAX_TEXT = 200
MAX_SPIKES = 4096
DECISION_WITHIN_S = 1.0
OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.max_concurrent_streams", 128),
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)


class WakeSignal:
    """Wakes waiting coroutines from the real-time thread, which never waits itself."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[asyncio.Future[None]] = []

    def ticket(self) -> asyncio.Future[None]:
        """Completed at the next rise after now: take it, look for data, and only then wait for it."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        return future

    def rise(self) -> None:
        """There is something new. From any thread."""
        if self._waiting:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class TokenInterceptor(Interceptor):
    """Refuse each call without a valid token, of a known or an unknown method (S1), and each beyond its scopes (S2)."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any]]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """Give the real handler, or one that refuses."""
        grant = self._keyring.find(handler_call_details.invocation_metadata)
        if grant is None:
            return _refusal(
                grpc.StatusCode.UNAUTHENTICATED,
                "no valid token; send metadata “authorization: Bearer <token>”",
            )
        handler = await continuation(handler_call_details)
        if handler is None:
            return handler
        needed = SCOPES.get(handler_call_details.method, frozenset())
        if not needed & grant.scopes:
            wanted = " or ".join(sorted(needed)) or "nothing that exists"
            return _refusal(grpc.StatusCode.PERMISSION_DENIED, f"{grant.requester}'s token lacks the scope: {wanted}")
        return handler


def _refusal(code: grpc.StatusCode, text: str) -> grpc.RpcMethodHandler[Any, Any]:
    async def refuse(_: object, context: Context) -> NoReturn:
        await context.abort(code, text)

    return grpc.unary_unary_rpc_method_handler(refuse)


class Gateway(pb_grpc.NervesServicer):
    """The calls of nerves.proto. One instance a server; `subscribers` counts the open streams."""

    def __init__(self, core: Core, keyring: Keyring, ledger_path: Path, unknown: int) -> None:
        self._core = core
        self._keyring = keyring
        self._ledger_path = ledger_path
        self._unknown = unknown
        self._loop = asyncio.get_running_loop()
        self.spike_signal = WakeSignal(self._loop)
        self.frame_signal = WakeSignal(self._loop)
        self.subscribers = 0

    async def Info(self, request: pb.InfoRequest, context: Context) -> pb.InfoReply:
        """What the array is and what its envelope allows."""
        info = self._core.info
        envelope = self._core.envelope
        return pb.InfoReply(
            array=info.name,
            electrodes=info.electrodes,
            sample_rate_hz=info.sample_rate_hz,
            uv_per_unit=info.uv_per_unit,
            material=info.material,
            diameter_um=info.diameter_um,
            simulated=info.simulated,
            time_step_us=info.time_step_us,
            current_step_ua=info.current_step_ua,
            lead_frames=info.lead_frames,
            envelope={field.name: float(getattr(envelope, field.name)) for field in fields(envelope)},
            impedance_kohm=[z or 0.0 for z in self._core.impedances()],
        )

    async def Status(self, request: pb.StatusRequest, context: Context) -> pb.StatusReply:
        """How the engine is."""
        core = self._core
        return pb.StatusReply(
            next_frame=core.next_frame,
            leases=core.leases,
            pulses_pending=core.pending,
            pulses_delivered=core.delivered,
            charge_nc=core.charge_nc,
            gaps=core.gaps,
            lost_frames=core.lost_frames,
            trouble=core.trouble,
            subscribers=self.subscribers,
            unknown_pulses=self._unknown,
        )

    async def Summary(self, request: pb.SummaryRequest, context: Context) -> pb.SummaryReply:
        """Firing over the last seconds."""
        firing = self._core.firing()
        return pb.SummaryReply(
            frame=firing.frame,
            mean_active_hz=firing.mean_active_hz,
            active_electrodes=firing.active,
            electrodes=self._core.info.electrodes,
            rates_hz=firing.rates_hz,
            noise_uv=firing.noise_uv,
            welfare=_welfare(self._core),
        )

    async def StreamSummary(self, request: pb.StreamSummaryRequest, context: Context) -> AsyncIterator[pb.SummaryReply]:
        """Firing, again and again."""
        with await self._subscription(context):
            while True:
                yield await self.Summary(pb.SummaryRequest(), context)
                await asyncio.sleep(min(max(request.every_ms, 100), 60_000) / 1000)

    async def StreamFrames(self, request: pb.StreamFramesRequest, context: Context) -> AsyncIterator[pb.FramesReply]:
        """Raw frames at the reader's own pace."""
        ring = self._core.frames
        wanted = min(max(request.frames or 250, 25), 25_000)
        position = request.from_frame or ring.head
        if position > ring.head:
            await context.abort(
                grpc.StatusCode.OUT_OF_RANGE, f"frame {position} has not come yet; the next is {ring.head}"
            )
        with await self._subscription(context):
            while True:
                ticket = self.frame_signal.ticket()
                if ring.head - position < wanted:
                    await ticket
                    continue
                gaps, stretch, position = ring.read(position, wanted)
                for gap in gaps:
                    yield pb.FramesReply(gap=_gap(gap))
                if stretch is not None:
                    yield pb.FramesReply(
                        frames=pb.Frames(
                            first_frame=stretch.first_frame,
                            count=len(stretch.samples),
                            electrodes=self._core.info.electrodes,
                            samples=stretch.samples.astype("<i2", copy=False).tobytes(),
                        )
                    )

    async def StreamSpikes(self, request: pb.StreamSpikesRequest, context: Context) -> AsyncIterator[pb.SpikesReply]:
        """Spikes as they are found."""
        ring = self._core.spikes
        number = ring.count
        pause_s = min(request.min_interval_ms, 10_000) / 1000
        with await self._subscription(context):
            while True:
                ticket = self.spike_signal.ticket()
                if ring.count == number:
                    await ticket
                    continue
                lost, spikes, number = ring.read(number, MAX_SPIKES)
                yield pb.SpikesReply(
                    lost=lost,
                    frames=spikes.frames.tolist(),
                    electrodes=spikes.electrodes.tolist(),
                    uv=spikes.uv.tolist(),
                    next_frame=self._core.next_frame,
                )
                if pause_s:
                    await asyncio.sleep(pause_s)

    async def AcquireLease(self, request: pb.AcquireLeaseRequest, context: Context) -> pb.LeaseReply:
        """Give the right to stimulate, within the token's electrodes."""
        grant = await self._grant(context)
        electrodes = tuple(request.electrodes)
        if grant.electrodes is not None and not grant.electrodes.issuperset(electrodes):
            return pb.LeaseReply(reason=f"{grant.requester}'s token does not reach these electrodes")
        return await self._lease(
            context, "acquire", grant, electrodes=electrodes, ttl_s=request.ttl_ms / 1000, lease=""
        )

    async def RenewLease(self, request: pb.RenewLeaseRequest, context: Context) -> pb.LeaseReply:
        """Renew a lease: its time begins again."""
        return await self._lease(context, "renew", await self._grant(context), lease=request.lease)

    async def ReleaseLease(self, request: pb.ReleaseLeaseRequest, context: Context) -> pb.LeaseReply:
        """End a lease and everything that waits under it."""
        return await self._lease(context, "release", await self._grant(context), lease=request.lease)

    async def Stimulate(self, request: pb.StimulateRequest, context: Context) -> pb.StimulateReply:
        """Put a request before the governor; answer with its decision and, unless the request says otherwise, its outcome."""
        grant = await self._grant(context)
        decided: asyncio.Future[StimulationOutcome] = self._loop.create_future()
        finished: asyncio.Future[StimulationOutcome] = self._loop.create_future()
        stimulation = Request(
            requester=grant.requester,
            lease=request.lease[:MAX_TEXT],
            electrodes=tuple(request.electrodes),
            phases=tuple(Phase(phase.duration_us, phase.current_ua) for phase in request.phases),
            at_frame=request.at_frame,
            not_after=request.not_after,
            pulses=request.pulses or 1,
            period_frames=request.period_frames,
            purpose=request.purpose[:MAX_TEXT],
        )
        command = StimulateCommand(
            stimulation, self._completing(decided), self._completing(finished), decided.cancelled
        )
        outcome = await self._answer(context, command, decided)
        if not request.reply_at_decision:
            await finished
        return _stimulate_reply(outcome)

    async def Ledger(self, request: pb.LedgerRequest, context: Context) -> AsyncIterator[pb.LedgerRecord]:
        """What was asked, decided and delivered, oldest first."""
        grant = await self._grant(context)
        mine = None if TokenScope.AUDIT in grant.scopes else grant.requester
        after = min(request.after, (1 << 63) - 1)
        try:
            records = await asyncio.to_thread(
                ledger.read, self._ledger_path, after=after, limit=request.limit or 100, requester=mine
            )
        except sqlite3.Error as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"the ledger cannot be read at present: {error}")
        for record in records:
            yield _ledger_record(record)

    async def _grant(self, context: Context) -> Grant:
        grant = self._keyring.find(context.invocation_metadata())
        if grant is None:  # the interceptor has checked already; this is the second check
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "no valid token")
        return grant

    async def _lease(
        self,
        context: Context,
        verb: Any,
        grant: Grant,
        *,
        lease: str,
        electrodes: tuple[int, ...] = (),
        ttl_s: float = 0.0,
    ) -> pb.LeaseReply:
        answered: asyncio.Future[Lease | LeaseRefused] = self._loop.create_future()
        command = LeaseCommand(verb, grant.requester, self._completing(answered), lease[:MAX_TEXT], electrodes, ttl_s)
        answer = await self._answer(context, command, answered)
        if isinstance(answer, LeaseRefused):
            return pb.LeaseReply(reason=str(answer))
        return pb.LeaseReply(granted=True, lease=answer.id, until_frame=answer.until_frame)

    async def _answer(
        self, context: Context, command: StimulateCommand | LeaseCommand, answered: asyncio.Future[T]
    ) -> T:
        """Give the core a command and wait for its answer; a call that ends before withdraws the command."""
        try:
            self._core.submit(command)
        except Busy as busy:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(busy))
        try:
            return await asyncio.wait_for(answered, DECISION_WITHIN_S)
        except TimeoutError:
            await context.abort(
                grpc.StatusCode.UNAVAILABLE,
                f"{self._core.info.name}: no frames for {DECISION_WITHIN_S:g} s, so nothing can be decided;"
                " likely cause: it is unplugged or its driver hangs; nothing was stimulated",
            )

    def _completing(self, future: asyncio.Future[T]) -> Callable[[T], None]:
        """Return a callback for the real-time thread that completes `future` in this event loop."""

        def complete(value: T) -> None:
            if not future.done():
                future.set_result(value)

        return lambda value: self._call_soon(complete, value)

    def _call_soon(self, callback: Callable[[T], None], value: T) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, value)

    async def _subscription(self, context: Context) -> Any:
        if self.subscribers >= MAX_SUBSCRIBERS:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{MAX_SUBSCRIBERS} streams are open; close one and try again",
            )
        return self._subscribed()

    @contextmanager
    def _subscribed(self) -> Iterator[None]:
        self.subscribers += 1
        try:
            yield
        finally:
            self.subscribers -= 1


class GatewayServer:
    """The listening server. Bound to loopback: beyond it mutual TLS is needed, which is not here yet."""

    def __init__(self, gateway: Gateway, keyring: Keyring) -> None:
        self._gateway = gateway
        self._keyring = keyring
        self._server: grpc.aio.Server | None = None

    async def open(self, host: str, port: int) -> str:
        """Listen; returns the address. Raises ValueError for a host beyond loopback, OSError for a taken
        port.
        """
        if not ipaddress.ip_address(host).is_loopback:
            raise ValueError(f"the gRPC service of the nerves cannot listen on {host}: only on loopback, 127.0.0.1")
        self._server = grpc.aio.server(
            interceptors=[TokenInterceptor(self._keyring)], options=OPTIONS, maximum_concurrent_rpcs=512
        )
        pb_grpc.add_NervesServicer_to_server(self._gateway, self._server)
        try:
            bound = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            raise OSError(f"cannot listen on {host}:{port}: {error}. Next: choose another port") from None
        await self._server.start()
        return f"{host}:{bound}"

    async def close(self) -> None:
        """Stop listening; calls that do not end by themselves within 0.2 s are ended."""
        if self._server is not None:
            await self._server.stop(grace=0.2)


def _gap(gap: Gap) -> pb.Gap:
    cause = pb.Gap.ARRAY if gap.cause == "array" else pb.Gap.READER
    return pb.Gap(first_frame=gap.first_frame, end_frame=gap.end_frame, cause=cause)


_STATES: dict[str, pb.PulseFate.State.ValueType] = {
    "planned": pb.PulseFate.PLANNED,
    "handed": pb.PulseFate.HANDED,
    "delivered": pb.PulseFate.DELIVERED,
    "dropped": pb.PulseFate.DROPPED,
    "cancelled": pb.PulseFate.CANCELLED,
    "unknown": pb.PulseFate.UNKNOWN,
}


def _welfare(core: Core) -> pb.Welfare:
    load, permit = core.load, core.permit
    return pb.Welfare(
        load=load.share,
        rest_h=load.rest_h,
        evoked_ratio=load.evoked_ratio,
        response_lost=load.response_lost,
        tier=permit.tier,
        level=permit.level.name,
        reason=permit.reason,
    )


def _stimulate_reply(outcome: StimulationOutcome) -> pb.StimulateReply:
    decision = outcome.decision
    fates = dict(outcome.fates)  # the real-time thread may still be adding to it
    pulses = []
    for pulse in outcome.pulses:
        state, frame = fates.get(pulse.id, ("planned", None))
        pulses.append(
            pb.PulseFate(
                electrode=pulse.electrode,
                at_frame=pulse.at_frame,
                state=_STATES[state],
                delivered_frame=frame,
            )
        )
    return pb.StimulateReply(
        accepted=decision.accepted,
        reasons=[pb.Reason(limit=reason.limit, text=reason.text) for reason in decision.reasons],
        limiting=decision.limiting or "",
        decision=outcome.number,
        decided_frame=outcome.frame,
        pulses=pulses,
    )


def _ledger_record(record: ledger.StimulationRecord) -> pb.LedgerRecord:
    return pb.LedgerRecord(
        decision=record.id,
        session=record.session,
        session_utc=record.utc,
        sample_rate_hz=record.sample_rate_hz,
        frame=record.frame,
        requester=record.requester,
        lease=record.lease,
        purpose=record.purpose,
        electrodes=record.electrodes,
        phases=[pb.Phase(duration_us=us, current_ua=ua) for us, ua in record.phases],
        at_frame=record.at_frame,
        not_after=record.not_after,
        accepted=record.accepted,
        reasons=record.reasons,
        limiting=record.limiting or "",
        charge_nc=record.charge_nc,
        pulses=[
            pb.PulseFate(
                electrode=pulse.electrode,
                at_frame=pulse.at_frame,
                state=_STATES[pulse.state],
                delivered_frame=pulse.delivered_frame,
                detail=pulse.detail,
            )
            for pulse in record.pulses
        ],
    )
