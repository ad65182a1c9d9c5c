"""The electrode engine for a remote agent: :class:`NervesClient`, and :class:`AsyncNervesClient` with asyncio.

The sample index of the array, called frame, is the clock of every call. Answers are the messages of `nerves.proto`; spikes
and frames come as NumPy arrays.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

import grpc
import grpc.aio

from choroid.client.errors import NervesError
from choroid.client.methods import Asynchronous, Blocking, ClientRequest, answered, streamed
from choroid.client.nerves_leases import AsyncHeldLease, HeldLease
from choroid.client.nerves_reflexes import AsyncRunningReflex, RunningReflex, reflex_requests
from choroid.client.nerves_terms import (
    OPTIONS,
    FrameBatch,
    FrameGap,
    NervesEvent,
    PulsePhase,
    SpikeBatch,
    endpoint_of,
    event_of,
    explained,
    frames_of,
    granted,
    pulse_request,
    require_private,
    spikes_of,
    spikes_request,
)
from choroid.client.wire import nerves_pb2 as pb
from choroid.client.wire import nerves_pb2_grpc as pb_grpc

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")
Lease = TypeVar("Lease", HeldLease, AsyncHeldLease)
Reflex = TypeVar("Reflex", RunningReflex, AsyncRunningReflex)

TIMEOUT_S = 10.0
"""How long a call that is answered once may take (s)."""
STIMULATE_TIMEOUT_S = 75.0
"""The same for a stimulation: no envelope allows a pulse more than 60 s ahead."""


@dataclass(frozen=True, slots=True)
class EngineCall(ClientRequest[T]):
    """Describes a call of the engine: `begin` starts it, `parse` reads its answer, or each answer of a stream."""

    begin: Callable[[], Any]
    parse: Callable[[Any], T]

    def then(self, parse: Callable[[T], R]) -> EngineCall[R]:
        """Add a step that reads the answer further.

        Args:
            parse: Receives what this call would return.

        Returns:
            The call with the further step.
        """
        return EngineCall(self.begin, lambda found: parse(self.parse(found)))


class _NervesMethods(Generic[Lease, Reflex]):
    """Declares the methods of both clients of the engine; leases are held, and reflexes run, in the way of each."""

    _grpc: ClassVar[Any]
    """The module that opens channels."""

    def __init__(self, address: str, token: str, *, credentials: grpc.ChannelCredentials | None = None) -> None:
        """Open a channel; nothing is sent yet.

        Args:
            address: host:port. Without `credentials` it has to be on this machine.
            token: A token with the scope that the calls need: read, stimulate or audit.
            credentials: TLS credentials, for an address on another machine: :func:`tls_credentials`.

        Raises:
            NervesError: The token would travel over a network unencrypted.
        """
        require_private(address, credentials)
        self.address = address
        self._channel = (
            self._grpc.insecure_channel(address, options=OPTIONS)
            if credentials is None
            else self._grpc.secure_channel(address, credentials, options=OPTIONS)
        )
        self._stub: pb_grpc.NervesStub = pb_grpc.NervesStub(self._channel)
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._held: dict[str, Lease] = {}

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """Connect with the address and the agent's token in `nerves.json`.

        Args:
            path: The file `nerves.json` in the data folder of `choroid run`.

        Returns:
            The client. Nothing is sent yet.

        Raises:
            NervesError: The file cannot be read, has no token, or names an address on another machine.
        """
        return cls(*endpoint_of(path))

    @answered
    def info(self) -> EngineCall[pb.InfoReply]:
        """Return what the array is and what its envelope allows."""
        return self._once(self._stub.Info, pb.InfoRequest())

    @answered
    def status(self) -> EngineCall[pb.StatusReply]:
        """Return the engine's status: its clock, leases, pulses, gaps, and why stimulation is impossible at present."""
        return self._once(self._stub.Status, pb.StatusRequest())

    @answered
    def summary(self) -> EngineCall[pb.SummaryReply]:
        """Return the firing over the last seconds, and the welfare figures."""
        return self._once(self._stub.Summary, pb.SummaryRequest())

    @streamed
    def summaries(self, every_ms: int = 1000) -> EngineCall[pb.SummaryReply]:
        """Yield summaries until the channel is closed.

        Args:
            every_ms: Real time from one summary to the next (ms), at least 100.

        Yields:
            The firing over the last seconds, and the welfare figures.
        """
        request = pb.StreamSummaryRequest(every_ms=every_ms)
        return self._many(self._stub.StreamSummary, request)

    @answered
    def metrics(self) -> EngineCall[pb.MetricsReply]:
        """Return figures of firing over the last minute: bursts, synchrony, variation of intervals; array and electrodes."""
        return self._once(self._stub.Metrics, pb.MetricsRequest())

    @answered
    def cross_correlation(
        self, reference: int, target: int, *, bin_ms: float = 1.0, max_lag: int = 50
    ) -> EngineCall[pb.CrossCorrelationReply]:
        """Return the cross-correlation histogram of two electrodes over the last minute.

        Args:
            reference: Electrode whose spikes are at lag 0.
            target: Electrode that is counted around them.
            bin_ms: Length of a bin (ms), 0.1 to 1000.
            max_lag: Longest lag to either side (bins), at most 1000.

        Returns:
            `counts` by lag, from −`max_lag` to `max_lag`; empty in the first 20 s. At positive lags the target fires later.
        """
        request = pb.CrossCorrelationRequest(reference=reference, target=target, bin_ms=bin_ms, max_lag=max_lag)
        return self._once(self._stub.CrossCorrelation, request)

    @answered
    def responses(
        self,
        electrode: int,
        *,
        stimulated: Iterable[int] = (),
        seconds: float = 300.0,
        window_ms: tuple[float, float] = (-20.0, 50.0),
        bin_ms: float = 1.0,
    ) -> EngineCall[pb.ResponsesReply]:
        """Return the spikes of an electrode around the latest pulses: a peri-stimulus time histogram.

        Args:
            electrode: Whose spikes are counted.
            stimulated: Only pulses of these electrodes; none means all.
            seconds: How far back, at most 3600; the engine keeps 4,096 pulses and 65,536 spikes.
            window_ms: Begin and end of the window from the begin of a pulse on, within ±1000 ms.
            bin_ms: Width of a latency bin (ms), 0.1 to 1000; at most 1000 bins.

        Returns:
            `edges_ms`, and for each bin `counts` and `observed_s`: a bin without observed time has no rate.
        """
        begin, end = window_ms
        request = pb.ResponsesRequest(
            electrode=electrode, stimulated=list(stimulated), seconds=seconds, from_ms=begin, to_ms=end, bin_ms=bin_ms
        )
        return self._once(self._stub.Responses, request)

    @streamed
    def spikes(
        self,
        min_interval_ms: int = 0,
        *,
        from_frame: int | None = None,
        electrodes: Iterable[int] = (),
        waveforms: bool = False,
    ) -> EngineCall[SpikeBatch]:
        """Yield spikes as they are detected.

        Args:
            min_interval_ms: Shortest real time between two batches (ms); 0 sends each spike with its 1 ms block.
            from_frame: Where to begin; None means now. The engine keeps the last 65,536 spikes.
            electrodes: Only these electrodes; none means all.
            waveforms: Whether to send the raw samples around each spike, 1 ms before to 2 ms after it.

        Yields:
            Spikes in the order of their frames.
        """
        request = spikes_request(min_interval_ms, from_frame, electrodes, waveforms)
        return self._many(self._stub.StreamSpikes, request).then(spikes_of)

    @streamed
    def frames(self, from_frame: int = 0, frames: int = 250) -> EngineCall[FrameBatch | FrameGap]:
        """Yield raw frames.

        Args:
            from_frame: Where to begin; 0 means now. The engine keeps the last 5 s.
            frames: Frames in one batch, 25 to 25,000.

        Yields:
            Consecutive frames, or a gap in them.
        """
        request = pb.StreamFramesRequest(from_frame=from_frame, frames=frames)
        return self._many(self._stub.StreamFrames, request).then(frames_of)

    @streamed
    def events(self, after: int | None = None) -> EngineCall[NervesEvent]:
        """Yield events: ended leases, muted channels, gaps, permits, stops, alarms.

        Args:
            after: Number of the last event that is known; None means only events to come.

        Yields:
            Events in the order of their numbers.
        """
        request = pb.StreamEventsRequest(after=after)
        return self._many(self._stub.StreamEvents, request).then(event_of)

    @answered
    def leases(self) -> EngineCall[pb.LeasesReply]:
        """Return living leases and use of budgets: one's own and the organoid's, with the scope audit those of all agents."""
        return self._once(self._stub.Leases, pb.LeasesRequest())

    @answered
    def acquire_lease(self, electrodes: Iterable[int], ttl_ms: int = 2000) -> EngineCall[pb.LeaseReply]:
        """Acquire the right to stimulate electrodes, and hold it with heartbeats until it is released.

        The lease ends with this process or its connection. Without a heartbeat for 30 ms no pulse is delivered.

        Args:
            electrodes: Their indices.
            ttl_ms: The lease ends this long (ms of real time) after the last heartbeat.

        Returns:
            The lease; its name is `lease`.

        Raises:
            NervesError: It was not granted.
        """
        return EngineCall(lambda: self._hold(list(electrodes), ttl_ms), self._keep)

    @answered
    def renew_lease(self, lease: str) -> EngineCall[pb.LeaseReply]:
        """Renew a lease, as its heartbeats do.

        Args:
            lease: Name of the lease.

        Returns:
            The lease.

        Raises:
            NervesError: It has ended.
        """
        return self._once(self._stub.RenewLease, pb.RenewLeaseRequest(lease=lease)).then(granted)

    @answered
    def release_lease(self, lease: str) -> EngineCall[None]:
        """End a lease and cancel every pulse that waits under it.

        Args:
            lease: Name of the lease.
        """
        held = self._held.pop(lease, None)
        if held is not None:
            return EngineCall(held.release, _unchanged)
        return self._once(self._stub.ReleaseLease, pb.ReleaseLeaseRequest(lease=lease)).then(lambda _: None)

    @answered
    def stimulate(
        self,
        lease: str,
        electrodes: Iterable[int],
        phases: Sequence[PulsePhase],
        *,
        purpose: str,
        at_frame: int = 0,
        not_after: int = 0,
        pulses: int = 1,
        period_frames: int = 0,
        reply_at_decision: bool = False,
        idempotency_key: str = "",
        timeout_s: float = STIMULATE_TIMEOUT_S,
    ) -> EngineCall[pb.StimulateReply]:
        """Ask for pulses.

        Args:
            lease: Name of the lease that covers the electrodes.
            electrodes: Where.
            phases: The pulse; its charge must be balanced.
            purpose: What it is for; kept in the stimulation ledger.
            at_frame: Frame at which the first pulse begins; 0 means as soon as possible.
            not_after: Latest frame at which it may begin; 0 means 1 ms after `at_frame`, or 5 ms if that is 0.
            pulses: Number of pulses.
            period_frames: Frames from one pulse to the next.
            reply_at_decision: Whether to answer with the decision instead of waiting for the delivery.
            idempotency_key: A name for this request, at most 64 characters. After a broken connection, the same request with
                the same key is answered as the first was, and stimulates no second time.
            timeout_s: Maximum wait for the answer (s); a request that is not decided by then is withdrawn.

        Returns:
            `accepted` with the fate of each pulse, or every reason for the refusal and the most limiting one. A refusal by
            the governor is an answer, not an error.
        """
        request = pulse_request(
            lease,
            electrodes,
            phases,
            purpose,
            at_frame,
            not_after,
            pulses,
            period_frames,
            reply_at_decision,
            idempotency_key,
            self._fence(lease),
        )
        return self._once(self._stub.Stimulate, request, timeout_s)

    @answered
    def run_reflex(
        self,
        lease: str,
        model: bytes,
        designs: Sequence[Sequence[PulsePhase]],
        *,
        purpose: str,
        min_interval_frames: int = 0,
        bin_frames: int = 0,
    ) -> EngineCall[Reflex]:
        """Upload an ONNX graph that runs inside the engine, once in each bin, and asks for pulses.

        Args:
            lease: Name of the lease under which it stimulates; the reflex ends with it.
            model: The graph. Inputs: `spikes`, float32 (bins, electrodes), the number of spikes in each of the last bins,
                newest last; `state…` of any fixed shape, zeros at first. Outputs: `pulses`, float32 (designs, electrodes),
                where a value above 0.5 asks for a pulse now; `next_state…` for each state.
            designs: The pulses that it can ask for.
            purpose: What it is for; kept in the stimulation ledger.
            min_interval_frames: Shortest time between two requests; at least 5 ms.
            bin_frames: Frames of one bin, rounded up to whole blocks of the card; 0: those of 1 ms.

        Returns:
            The reflex as it runs: a :class:`RunningReflex`, with asyncio an :class:`AsyncRunningReflex`.

        Raises:
            NervesError: The graph or the terms are refused; the text says why.
        """
        requests = reflex_requests(lease, self._fence(lease), model, designs, purpose, min_interval_frames, bin_frames)
        return EngineCall(lambda: self._begin(requests), _unchanged)

    @streamed
    def ledger(self, after: int = 0, limit: int = 100) -> EngineCall[pb.LedgerRecord]:
        """Yield records of the stimulation ledger: what was asked, decided and delivered.

        Args:
            after: Number of the last record that is known; 0 begins with the first.
            limit: Maximum number of records, 1 to 1000.

        Yields:
            Records in the order of their numbers.
        """
        request = pb.LedgerRequest(after=after, limit=limit)
        return self._many(self._stub.Ledger, request)

    def _once(
        self, call: grpc.UnaryUnaryMultiCallable[Q, R], request: Q, timeout_s: float = TIMEOUT_S
    ) -> EngineCall[R]:
        return EngineCall(lambda: call(request, metadata=self._metadata, timeout=timeout_s), _unchanged)

    def _many(self, call: grpc.UnaryStreamMultiCallable[Q, R], request: Q) -> EngineCall[R]:
        return EngineCall(lambda: call(request, metadata=self._metadata), _unchanged)

    def _hold(self, electrodes: list[int], ttl_ms: int) -> Any:
        """Acquire a lease and hold it."""
        raise NotImplementedError

    def _begin(self, requests: Iterator[pb.ReflexRequest]) -> Any:
        """Begin a reflex."""
        raise NotImplementedError

    def _keep(self, held: Lease) -> pb.LeaseReply:
        self._held[held.reply.lease] = held
        return held.reply

    def _fence(self, lease: str) -> int:
        return self._held[lease].reply.fence if lease in self._held else 0

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            raise explained(error, self.address) from None
        except TimeoutError:  # of a lease that is awaited on the loop
            raise NervesError(
                f"the electrode engine at {self.address} has not answered in time. Likely cause: it hangs, or its machine is"
                " overloaded. Next: see on the rig's page whether spikes arrive, then try again",
                code="DEADLINE_EXCEEDED",
            ) from None


class NervesClient(_NervesMethods[HeldLease, RunningReflex], Blocking):
    """Connects to the electrode engine. Close it after use, or use it in a `with` block.

    Every method raises :class:`NervesError` when the engine cannot be reached or refuses the call.
    """

    _grpc: ClassVar[Any] = grpc

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the channel."""
        self.close()

    def close(self) -> None:
        """End the leases and close the channel."""
        for lease in self._held.values():
            lease.release()
        self._held.clear()
        self._channel.close()

    def _ask(self, request: EngineCall[T]) -> T:
        with self._explained():
            return request.parse(request.begin())

    def _listen(self, request: EngineCall[T]) -> Generator[T]:
        """Yield the messages of a stream; it is ended on the engine's side when the generator is closed."""
        with self._explained():
            call = request.begin()
            try:
                yield from map(request.parse, call)
            finally:
                call.cancel()

    def _hold(self, electrodes: list[int], ttl_ms: int) -> HeldLease:
        return HeldLease(self._stub, self._metadata, electrodes, ttl_ms)

    def _begin(self, requests: Iterator[pb.ReflexRequest]) -> RunningReflex:
        return RunningReflex(self._stub, self._metadata, requests)


class AsyncNervesClient(_NervesMethods[AsyncHeldLease, AsyncRunningReflex], Asynchronous):
    """Connects to the electrode engine, for use with asyncio. Make it on the loop that uses it.

    The methods are those of :class:`NervesClient`.
    """

    _grpc: ClassVar[Any] = grpc.aio
    _stub: pb_grpc.NervesAsyncStub

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close the channel."""
        await self.close()

    async def close(self) -> None:
        """See :meth:`NervesClient.close`."""
        for lease in self._held.values():
            await lease.drop()
        self._held.clear()
        await self._channel.close(None)

    async def _ask(self, request: EngineCall[T]) -> T:
        with self._explained():
            return request.parse(await request.begin())

    async def _listen(self, request: EngineCall[T]) -> AsyncGenerator[T]:
        """Yield the messages of a stream; it is ended on both sides when the generator is closed."""
        with self._explained():
            call = request.begin()
            try:
                async for reply in call:
                    yield request.parse(reply)
            finally:
                call.cancel()
                await call.code()

    async def _hold(self, electrodes: list[int], ttl_ms: int) -> AsyncHeldLease:
        held = AsyncHeldLease(self._stub, self._metadata)
        await held.acquire(electrodes, ttl_ms)
        return held

    async def _begin(self, requests: Iterator[pb.ReflexRequest]) -> AsyncRunningReflex:
        reflex = AsyncRunningReflex(self._stub, self._metadata)
        await reflex.begin(requests)
        return reflex


def _unchanged(reply: R) -> R:
    return reply
