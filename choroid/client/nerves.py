"""The electrode engine for a remote agent: :class:`NervesClient`, and :class:`AsyncNervesClient` with asyncio.

The sample index of the array, called frame, is the clock of every call. Answers are the messages of `nerves.proto`; spikes
and frames come as NumPy arrays.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import grpc
import grpc.aio

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

Q = TypeVar("Q")
R = TypeVar("R")

TIMEOUT_S = 10.0
"""How long a call that is answered once may take (s)."""
STIMULATE_TIMEOUT_S = 75.0
"""The same for a stimulation: no envelope allows a pulse more than 60 s ahead."""


class NervesClient:
    """The electrode engine. Close it after use, or use it in a `with` block.

    Every method raises :class:`NervesError` when the engine cannot be reached or refuses the call.
    """

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
            grpc.insecure_channel(address, options=OPTIONS)
            if credentials is None
            else grpc.secure_channel(address, credentials, options=OPTIONS)
        )
        self._stub: pb_grpc.NervesStub = pb_grpc.NervesStub(self._channel)
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._held: dict[str, HeldLease] = {}

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """Connect with the address and the agent's token in the `nerves.json` of a data folder."""
        return cls(*endpoint_of(path))

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

    def info(self) -> pb.InfoReply:
        """Return what the array is and what its envelope allows."""
        with self._explained():
            return self._stub.Info(pb.InfoRequest(), metadata=self._metadata, timeout=TIMEOUT_S)

    def status(self) -> pb.StatusReply:
        """Return the engine's status: its clock, leases, pulses, gaps, and why stimulation is impossible at present."""
        with self._explained():
            return self._stub.Status(pb.StatusRequest(), metadata=self._metadata, timeout=TIMEOUT_S)

    def summary(self) -> pb.SummaryReply:
        """Return the firing over the last seconds, and the welfare figures."""
        with self._explained():
            return self._stub.Summary(pb.SummaryRequest(), metadata=self._metadata, timeout=TIMEOUT_S)

    def summaries(self, every_ms: int = 1000) -> Generator[pb.SummaryReply]:
        """Yield summaries, one each `every_ms` of real time (at least 100), until the channel is closed."""
        request = pb.StreamSummaryRequest(every_ms=every_ms)
        yield from self._stream(self._stub.StreamSummary(request, metadata=self._metadata))

    def metrics(self) -> pb.MetricsReply:
        """Return figures of firing over the last minute: bursts, synchrony, variation of intervals; array and electrodes."""
        with self._explained():
            return self._stub.Metrics(pb.MetricsRequest(), metadata=self._metadata, timeout=TIMEOUT_S)

    def cross_correlation(
        self, reference: int, target: int, *, bin_ms: float = 1.0, max_lag: int = 50
    ) -> pb.CrossCorrelationReply:
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
        with self._explained():
            return self._stub.CrossCorrelation(request, metadata=self._metadata, timeout=TIMEOUT_S)

    def spikes(
        self,
        min_interval_ms: int = 0,
        *,
        from_frame: int | None = None,
        electrodes: Iterable[int] = (),
        waveforms: bool = False,
    ) -> Generator[SpikeBatch]:
        """Yield spikes as they are detected.

        Args:
            min_interval_ms: Shortest real time between two batches (ms); 0 sends each spike with its 1 ms block.
            from_frame: Where to begin; None means now. The engine keeps the last 65,536 spikes.
            electrodes: Only these electrodes; none means all.
            waveforms: Whether to send the raw samples around each spike, 1 ms before to 2 ms after it.
        """
        request = spikes_request(min_interval_ms, from_frame, electrodes, waveforms)
        yield from map(spikes_of, self._stream(self._stub.StreamSpikes(request, metadata=self._metadata)))

    def frames(self, from_frame: int = 0, frames: int = 250) -> Generator[FrameBatch | FrameGap]:
        """Yield raw frames.

        Args:
            from_frame: Where to begin; 0 means now. The engine keeps the last 5 s.
            frames: Frames in one batch, 25 to 25,000.
        """
        request = pb.StreamFramesRequest(from_frame=from_frame, frames=frames)
        yield from map(frames_of, self._stream(self._stub.StreamFrames(request, metadata=self._metadata)))

    def events(self, after: int | None = None) -> Generator[NervesEvent]:
        """Yield events: ended leases, muted channels, gaps, permits, stops, alarms.

        Args:
            after: Number of the last event that is known; None means only events to come.
        """
        request = pb.StreamEventsRequest(after=after)
        yield from map(event_of, self._stream(self._stub.StreamEvents(request, metadata=self._metadata)))

    def leases(self) -> pb.LeasesReply:
        """Return living leases and use of budgets: one's own and the organoid's, with the scope audit those of all agents."""
        with self._explained():
            return self._stub.Leases(pb.LeasesRequest(), metadata=self._metadata, timeout=TIMEOUT_S)

    def acquire_lease(self, electrodes: Iterable[int], ttl_ms: int = 2000) -> pb.LeaseReply:
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
        with self._explained():
            held = HeldLease(self._stub, self._metadata, list(electrodes), ttl_ms)
        self._held[held.reply.lease] = held
        return held.reply

    def renew_lease(self, lease: str) -> pb.LeaseReply:
        """Renew a lease, as its heartbeats do; raises :class:`NervesError` when it has ended."""
        with self._explained():
            request = pb.RenewLeaseRequest(lease=lease)
            return granted(self._stub.RenewLease(request, metadata=self._metadata, timeout=TIMEOUT_S))

    def release_lease(self, lease: str) -> None:
        """End a lease and cancel every pulse that waits under it."""
        held = self._held.pop(lease, None)
        if held is not None:
            held.release()
            return
        with self._explained():
            request = pb.ReleaseLeaseRequest(lease=lease)
            self._stub.ReleaseLease(request, metadata=self._metadata, timeout=TIMEOUT_S)

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
    ) -> pb.StimulateReply:
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
        fence = self._held[lease].reply.fence if lease in self._held else 0
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
            fence,
        )
        with self._explained():
            return self._stub.Stimulate(request, metadata=self._metadata, timeout=timeout_s)

    def run_reflex(
        self,
        lease: str,
        model: bytes,
        designs: Sequence[Sequence[PulsePhase]],
        *,
        purpose: str,
        min_interval_frames: int = 0,
    ) -> RunningReflex:
        """Upload an ONNX graph that runs inside the engine, once each block of 1 ms, and asks for pulses.

        Args:
            lease: Name of the lease under which it stimulates; the reflex ends with it.
            model: The graph. Inputs: `spikes`, float32 (bins, electrodes), the number of spikes in each of the last blocks,
                newest last; `state…` of any fixed shape, zeros at first. Outputs: `pulses`, float32 (designs, electrodes),
                where a value above 0.5 asks for a pulse now; `next_state…` for each state.
            designs: The pulses that it can ask for.
            purpose: What it is for; kept in the stimulation ledger.
            min_interval_frames: Shortest time between two requests; at least 5 ms.

        Raises:
            NervesError: The graph or the terms are refused; the text says why.
        """
        fence = self._held[lease].reply.fence if lease in self._held else 0
        requests = reflex_requests(lease, fence, model, designs, purpose, min_interval_frames)
        with self._explained():
            return RunningReflex(self._stub, self._metadata, requests)

    def ledger(self, after: int = 0, limit: int = 100) -> Generator[pb.LedgerRecord]:
        """Yield what was asked, decided and delivered: records with a higher number than `after`, at most 1000."""
        request = pb.LedgerRequest(after=after, limit=limit)
        yield from self._stream(self._stub.Ledger(request, metadata=self._metadata))

    def _stream(self, call: grpc.CallIterator[R]) -> Generator[R]:
        """Yield the messages of a stream; it is ended on the engine's side when the generator is closed."""
        with self._explained():
            try:
                yield from call
            finally:
                call.cancel()  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            raise explained(error, self.address) from None


class AsyncNervesClient:
    """The electrode engine, for use with asyncio. Make it on the loop that uses it.

    The methods are those of :class:`NervesClient`.
    """

    def __init__(self, address: str, token: str, *, credentials: grpc.ChannelCredentials | None = None) -> None:
        """Open a channel; arguments and errors as :class:`NervesClient`."""
        require_private(address, credentials)
        self.address = address
        self._channel = (
            grpc.aio.insecure_channel(address, options=OPTIONS)
            if credentials is None
            else grpc.aio.secure_channel(address, credentials, options=OPTIONS)
        )
        self._stub: pb_grpc.NervesAsyncStub = pb_grpc.NervesStub(self._channel)
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._held: dict[str, AsyncHeldLease] = {}

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """See :meth:`NervesClient.from_file`."""
        return cls(*endpoint_of(path))

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

    async def info(self) -> pb.InfoReply:
        """See :meth:`NervesClient.info`."""
        return await self._once(self._stub.Info(pb.InfoRequest(), metadata=self._metadata, timeout=TIMEOUT_S))

    async def status(self) -> pb.StatusReply:
        """See :meth:`NervesClient.status`."""
        return await self._once(self._stub.Status(pb.StatusRequest(), metadata=self._metadata, timeout=TIMEOUT_S))

    async def summary(self) -> pb.SummaryReply:
        """See :meth:`NervesClient.summary`."""
        return await self._once(self._stub.Summary(pb.SummaryRequest(), metadata=self._metadata, timeout=TIMEOUT_S))

    async def summaries(self, every_ms: int = 1000) -> AsyncGenerator[pb.SummaryReply]:
        """See :meth:`NervesClient.summaries`."""
        request = pb.StreamSummaryRequest(every_ms=every_ms)
        async with self._streamed(self._stub.StreamSummary(request, metadata=self._metadata)) as call:
            async for reply in call:
                yield reply

    async def metrics(self) -> pb.MetricsReply:
        """See :meth:`NervesClient.metrics`."""
        return await self._once(self._stub.Metrics(pb.MetricsRequest(), metadata=self._metadata, timeout=TIMEOUT_S))

    async def cross_correlation(
        self, reference: int, target: int, *, bin_ms: float = 1.0, max_lag: int = 50
    ) -> pb.CrossCorrelationReply:
        """See :meth:`NervesClient.cross_correlation`."""
        request = pb.CrossCorrelationRequest(reference=reference, target=target, bin_ms=bin_ms, max_lag=max_lag)
        return await self._once(self._stub.CrossCorrelation(request, metadata=self._metadata, timeout=TIMEOUT_S))

    async def spikes(
        self,
        min_interval_ms: int = 0,
        *,
        from_frame: int | None = None,
        electrodes: Iterable[int] = (),
        waveforms: bool = False,
    ) -> AsyncGenerator[SpikeBatch]:
        """See :meth:`NervesClient.spikes`."""
        request = spikes_request(min_interval_ms, from_frame, electrodes, waveforms)
        async with self._streamed(self._stub.StreamSpikes(request, metadata=self._metadata)) as call:
            async for reply in call:
                yield spikes_of(reply)

    async def frames(self, from_frame: int = 0, frames: int = 250) -> AsyncGenerator[FrameBatch | FrameGap]:
        """See :meth:`NervesClient.frames`."""
        request = pb.StreamFramesRequest(from_frame=from_frame, frames=frames)
        async with self._streamed(self._stub.StreamFrames(request, metadata=self._metadata)) as call:
            async for reply in call:
                yield frames_of(reply)

    async def events(self, after: int | None = None) -> AsyncGenerator[NervesEvent]:
        """See :meth:`NervesClient.events`."""
        request = pb.StreamEventsRequest(after=after)
        async with self._streamed(self._stub.StreamEvents(request, metadata=self._metadata)) as call:
            async for reply in call:
                yield event_of(reply)

    async def leases(self) -> pb.LeasesReply:
        """See :meth:`NervesClient.leases`."""
        return await self._once(self._stub.Leases(pb.LeasesRequest(), metadata=self._metadata, timeout=TIMEOUT_S))

    async def acquire_lease(self, electrodes: Iterable[int], ttl_ms: int = 2000) -> pb.LeaseReply:
        """See :meth:`NervesClient.acquire_lease`."""
        held = AsyncHeldLease(self._stub, self._metadata)
        await self._once(held.acquire(list(electrodes), ttl_ms))
        self._held[held.reply.lease] = held
        return held.reply

    async def renew_lease(self, lease: str) -> pb.LeaseReply:
        """See :meth:`NervesClient.renew_lease`."""
        request = pb.RenewLeaseRequest(lease=lease)
        return granted(await self._once(self._stub.RenewLease(request, metadata=self._metadata, timeout=TIMEOUT_S)))

    async def release_lease(self, lease: str) -> None:
        """See :meth:`NervesClient.release_lease`."""
        held = self._held.pop(lease, None)
        if held is not None:
            await held.release()
            return
        request = pb.ReleaseLeaseRequest(lease=lease)
        await self._once(self._stub.ReleaseLease(request, metadata=self._metadata, timeout=TIMEOUT_S))

    async def stimulate(
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
    ) -> pb.StimulateReply:
        """See :meth:`NervesClient.stimulate`."""
        fence = self._held[lease].reply.fence if lease in self._held else 0
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
            fence,
        )
        return await self._once(self._stub.Stimulate(request, metadata=self._metadata, timeout=timeout_s))

    async def run_reflex(
        self,
        lease: str,
        model: bytes,
        designs: Sequence[Sequence[PulsePhase]],
        *,
        purpose: str,
        min_interval_frames: int = 0,
    ) -> AsyncRunningReflex:
        """See :meth:`NervesClient.run_reflex`."""
        fence = self._held[lease].reply.fence if lease in self._held else 0
        reflex = AsyncRunningReflex(self._stub, self._metadata)
        await self._once(reflex.begin(reflex_requests(lease, fence, model, designs, purpose, min_interval_frames)))
        return reflex

    async def ledger(self, after: int = 0, limit: int = 100) -> AsyncGenerator[pb.LedgerRecord]:
        """See :meth:`NervesClient.ledger`."""
        request = pb.LedgerRequest(after=after, limit=limit)
        async with self._streamed(self._stub.Ledger(request, metadata=self._metadata)) as call:
            async for reply in call:
                yield reply

    async def _once(self, call: Awaitable[R]) -> R:
        try:
            return await call
        except grpc.RpcError as error:
            raise explained(error, self.address) from None

    @contextlib.asynccontextmanager
    async def _streamed(self, call: grpc.aio.UnaryStreamCall[Q, R]) -> AsyncIterator[grpc.aio.UnaryStreamCall[Q, R]]:
        """Hold a stream; it is ended on both sides when the block is left."""
        try:
            yield call
        except grpc.RpcError as error:
            raise explained(error, self.address) from None
        finally:
            call.cancel()
            await call.code()
