"""Answer the calls of nerves.proto over the engine's core.

Every call needs a valid token, checked before the call itself is read (:mod:`nerves.admission`). Nothing here can
hold up the real-time thread: it takes commands from a bounded queue and wakes this event loop without waiting for it.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio

from choroid.client.wire import nerves_pb2 as pb
from choroid.client.wire import nerves_pb2_grpc as pb_grpc
from nerves import ledger
from nerves.admission import Context
from nerves.cards.contract import Phase
from nerves.commands import Busy, Command, CutOffCommand, LeaseCommand, StimulateCommand, StimulationOutcome
from nerves.core import Core
from nerves.events import EventKind
from nerves.governor import Request
from nerves.leases import Lease, LeaseRefused
from nerves.messages import (
    ELECTRODE_STATES,
    array_metrics,
    geometry_message,
    ledger_record,
    living_lease,
    metrics_reply,
    stimulate_reply,
    welfare_message,
)
from nerves.metrics.following import MetricsFollower
from nerves.metrics.pairs import cross_correlogram
from nerves.streams import Streams
from nerves.tokens import Grant, Keyring
from nerves.uploads import ReflexUploads

T = TypeVar("T")

MAX_SUBSCRIBERS = 64
MAX_TEXT = 200
MAX_KEY = 64
MIN_BIN_MS, MAX_BIN_MS, MAX_LAG_BINS = 0.1, 1000.0, 1000
RESPONSES_S, MAX_RESPONSES_S = 300.0, 3600.0
RESPONSES_MS, MAX_WINDOW_MS = (-20.0, 50.0), 1000.0
DECISION_WITHIN_S = 1.0
OUTCOME_WITHIN_S = 3.0
"""Longest wait for the fate of a pulse after its latest frame (s of real time); the core gives each one within a second."""


class Gateway(pb_grpc.NervesServicer):
    """The calls of nerves.proto. One instance a server; `subscribers` counts the open streams."""

    def __init__(
        self, core: Core, keyring: Keyring, ledger_path: Path, unknown: int, metrics: MetricsFollower | None = None
    ) -> None:
        self._core = core
        self._keyring = keyring
        self._ledger_path = ledger_path
        self._unknown = unknown
        self._metrics = metrics or MetricsFollower(core)
        self._loop = asyncio.get_running_loop()
        self.streams = Streams(core, self._loop)
        self.subscribers = 0
        self._uploads = ReflexUploads(core, self._loop)
        self.recording_problem: Callable[[], str] = lambda: ""
        """Returns what the recordings lack; empty without one."""

    async def Info(self, request: pb.InfoRequest, context: Context) -> pb.InfoReply:
        """Return what the array is and what its envelope allows."""
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
            replay=info.replay,
            stimulates=info.stimulates,
            skew_us=info.skew_us,
            jitter_us=info.jitter_us,
            geometry=None if info.geometry is None else geometry_message(info.geometry),
            reflex_latency_frames=self._core.reflex_latency_frames,
        )

    async def Status(self, request: pb.StatusRequest, context: Context) -> pb.StatusReply:
        """Return the engine's clock, leases, pulses, gaps, and why stimulation is impossible at present."""
        core = self._core
        sees = (await self._grant(context)).sees
        return pb.StatusReply(
            next_frame=core.next_frame,
            leases=core.leases if sees is None else core.leases_of(sees),
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
        """Return the firing over the last seconds."""
        firing = self._core.firing()
        metrics = self._metrics.latest
        return pb.SummaryReply(
            frame=firing.frame,
            mean_active_hz=firing.mean_active_hz,
            active_electrodes=firing.active,
            electrodes=self._core.info.electrodes,
            rates_hz=firing.rates_hz,
            noise_uv=firing.noise_uv,
            welfare=welfare_message(self._core),
            observed_electrodes=firing.observed,
            states=[ELECTRODE_STATES[state] for state in firing.states],
            metrics=None if metrics is None else array_metrics(metrics),
            card_faults=[
                pb.CardFault(state=fault.state.name, text=fault.text, electrodes=fault.electrodes)
                for fault in self._core.card_faults
            ],
            recording_problem=self.recording_problem(),
            muted=[pb.Muted(cause=cause, seconds=seconds) for cause, seconds in firing.muted_s.items()],
            watched_s=firing.watched_s,
            artefacts=firing.artefacts,
        )

    async def StreamSummary(
        self, request: pb.StreamSummaryRequest, context: Context
    ) -> AsyncGenerator[pb.SummaryReply]:
        """Yield the firing over the last seconds at regular times."""
        with await self._subscription(context):
            while True:
                yield await self.Summary(pb.SummaryRequest(), context)
                await asyncio.sleep(min(max(request.every_ms, 100), 60_000) / 1000)

    async def Metrics(self, request: pb.MetricsRequest, context: Context) -> pb.MetricsReply:
        """Return figures of firing over the last minute."""
        metrics = self._metrics.latest
        return pb.MetricsReply() if metrics is None else metrics_reply(metrics)

    async def CrossCorrelation(self, request: pb.CrossCorrelationRequest, context: Context) -> pb.CrossCorrelationReply:
        """Return the cross-correlation histogram of two electrodes over the last minute."""
        for electrode in (request.reference, request.target):
            await self._require_electrode(context, electrode)
        bin_ms, max_lag = request.bin_ms or 1.0, request.max_lag or 50
        if not (MIN_BIN_MS <= bin_ms <= MAX_BIN_MS and max_lag <= MAX_LAG_BINS):
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"a bin has {MIN_BIN_MS:g} to {MAX_BIN_MS:g} ms, and the longest lag is {MAX_LAG_BINS} bins",
            )
        window = self._metrics.window()
        if window is None:
            return pb.CrossCorrelationReply()
        rate = self._core.info.sample_rate_hz
        reference, target = window.train(request.reference), window.train(request.target)
        width = max(1, round(bin_ms / 1000.0 * rate))
        counts = await asyncio.to_thread(cross_correlogram, reference, target, window.begin, window.end, width, max_lag)
        return pb.CrossCorrelationReply(
            counts=counts.tolist(),
            reference_spikes=len(reference),
            target_spikes=len(target),
            seconds=(window.end - window.begin) / rate,
        )

    async def Responses(self, request: pb.ResponsesRequest, context: Context) -> pb.ResponsesReply:
        """Return the spikes of an electrode around the latest pulses."""
        for electrode in (request.electrode, *request.stimulated):
            await self._require_electrode(context, electrode)
        begin, end = (request.from_ms, request.to_ms) if request.from_ms or request.to_ms else RESPONSES_MS
        seconds, bin_ms = request.seconds or RESPONSES_S, request.bin_ms or 1.0
        if not (
            -MAX_WINDOW_MS <= begin < end <= MAX_WINDOW_MS
            and MIN_BIN_MS <= bin_ms <= end - begin <= MAX_LAG_BINS * bin_ms
            and 0.0 < seconds <= MAX_RESPONSES_S
        ):
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"a window lies within {MAX_WINDOW_MS:g} ms of the pulse, a bin has {MIN_BIN_MS:g} ms or more, there are"
                f" {MAX_LAG_BINS} bins at most, and pulses are counted for {MAX_RESPONSES_S:g} s at most",
            )
        asked = (request.electrode, frozenset(request.stimulated), seconds, self._core.next_frame)
        try:
            found, since = await asyncio.to_thread(self._core.responses.of, *asked, (begin, end), bin_ms)
        except ValueError as error:  # a bin that is shorter than a frame
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        baseline, (low, high) = float(found.baseline_hz[0]), found.baseline_interval_hz[0].tolist()
        known = not math.isnan(baseline)
        return pb.ResponsesReply(
            trials=found.trials,
            overlapping=found.overlapping,
            from_frame=max(since, 0),
            edges_ms=found.edges_ms.tolist(),
            counts=found.counts[0].tolist(),
            observed_s=found.observed_s[0].tolist(),
            baseline_hz=baseline if known else None,
            baseline_low_hz=low if known else None,
            baseline_high_hz=high if known else None,
        )

    async def StreamFrames(self, request: pb.StreamFramesRequest, context: Context) -> AsyncGenerator[pb.FramesReply]:
        """Yield raw frames at the reader's own pace."""
        head = self._core.frames.head
        await self._require_past(context, request.from_frame, head)
        wanted = min(max(request.frames or 250, 25), 25_000)
        messages = self.streams.frames(request.from_frame or head, wanted)
        async with self._subscribed_to(context, messages):
            async for message in messages:
                yield message

    async def StreamSpikes(self, request: pb.StreamSpikesRequest, context: Context) -> AsyncGenerator[pb.SpikesReply]:
        """Yield spikes as they are found, or from a frame on."""
        await self._require_past(context, request.from_frame, self._core.next_frame)
        await self._require_electrode(context, max(request.electrodes, default=0))
        messages = self.streams.spikes(request)
        async with self._subscribed_to(context, messages):
            async for message in messages:
                yield message

    async def StreamEvents(self, request: pb.StreamEventsRequest, context: Context) -> AsyncGenerator[pb.Event]:
        """Yield events after a number, or those to come."""
        grant = await self._grant(context)
        messages = self.streams.events(request.after if request.HasField("after") else None, grant.sees)
        async with self._subscribed_to(context, messages):
            async for message in messages:
                yield message

    async def HoldLease(
        self, requests: AsyncIterator[pb.HoldRequest], context: Context
    ) -> AsyncGenerator[pb.LeaseReply]:
        """Give a lease that lives no longer than this call; each further message is a heartbeat."""
        grant = await self._grant(context)
        first = await anext(aiter(requests), None)
        if first is None:
            return
        given = await self._acquire(context, grant, tuple(first.electrodes), first.ttl_ms / 1000, held=True)
        if not given.granted:
            yield given
            return
        why = "its holder's connection ended"
        try:
            yield given
            async for _ in requests:
                if not (await self._lease(context, "renew", grant, lease=given.lease)).granted:
                    yield pb.LeaseReply(lease=given.lease, fence=given.fence, ended=self._ended(given.lease))
                    return
            await self._lease(context, "release", grant, lease=given.lease)
        finally:
            released = LeaseCommand("release", grant.requester, _ignore_lease, given.lease, why=why)
            self._core.submit(released)

    def _ended(self, lease: str) -> str:
        """Return why a lease has ended."""
        _, events, _ = self._core.events.read(0, None)
        return next(
            (each.text for each in reversed(events) if each.kind is EventKind.LEASE_ENDED and each.lease == lease),
            "the lease has ended",
        )

    async def AcquireLease(self, request: pb.AcquireLeaseRequest, context: Context) -> pb.LeaseReply:
        """Give the right to stimulate, within the token's electrodes."""
        grant = await self._grant(context)
        return await self._acquire(context, grant, tuple(request.electrodes), request.ttl_ms / 1000, held=False)

    async def RenewLease(self, request: pb.RenewLeaseRequest, context: Context) -> pb.LeaseReply:
        """Renew a lease: its time begins again."""
        return await self._lease(context, "renew", await self._grant(context), lease=request.lease)

    async def ReleaseLease(self, request: pb.ReleaseLeaseRequest, context: Context) -> pb.LeaseReply:
        """End a lease and everything that waits under it."""
        return await self._lease(context, "release", await self._grant(context), lease=request.lease)

    async def Leases(self, request: pb.LeasesRequest, context: Context) -> pb.LeasesReply:
        """Return the living leases and the use of budgets that the caller may see."""
        sees = (await self._grant(context)).sees
        seen = [each for each in self._core.budgets if sees is None or each.requester in ("", sees)]
        return pb.LeasesReply(
            leases=[living_lease(lease) for lease in self._core.living_leases(sees)],
            budgets=[pb.BudgetUse(**asdict(each)) for each in seen],
        )

    async def Stimulate(self, request: pb.StimulateRequest, context: Context) -> pb.StimulateReply:
        """Put a request before the governor; answer with its decision and, unless the request says otherwise, its outcome."""
        grant = await self._grant(context)
        if len(request.idempotency_key) > MAX_KEY:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"an idempotency key has at most {MAX_KEY} characters"
            )
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
            fence=request.fence,
            idempotency_key=request.idempotency_key,
            budget=grant.budget,
        )
        command = StimulateCommand(
            stimulation,
            self._completing(decided),
            self._completing(finished),
            decided.cancelled,
            awaited=not request.reply_at_decision,
        )
        try:
            outcome = await self._answer(context, command, decided)
            if command.awaited:
                await self._finished(context, outcome, finished)
        except asyncio.CancelledError:
            if command.awaited:
                self._core.submit(CutOffCommand(command))
            raise
        return stimulate_reply(outcome, command.repeated)

    async def _finished(
        self, context: Context, outcome: StimulationOutcome, finished: asyncio.Future[StimulationOutcome]
    ) -> None:
        """Wait for the fate of every pulse, which comes soon after the last one is due."""
        last = max((pulse.not_after for pulse in outcome.pulses), default=0)
        ahead_s = max(0.0, (last - self._core.next_frame) / self._core.info.sample_rate_hz)
        try:
            await asyncio.wait_for(finished, ahead_s + OUTCOME_WITHIN_S)
        except TimeoutError:
            await context.abort(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"{self._core.info.name}: the fate of the pulses of decision {outcome.number} did not become known; likely"
                " cause: no frames come; the ledger has the decision",
            )

    async def RunReflex(
        self, requests: AsyncIterator[pb.ReflexRequest], context: Context
    ) -> AsyncGenerator[pb.ReflexReport]:
        """Run an uploaded graph inside the engine until this call or its lease ends."""
        async with aclosing(self._uploads.run(requests, await self._grant(context))) as reports:
            async for report in reports:
                yield report

    async def Ledger(self, request: pb.LedgerRequest, context: Context) -> AsyncIterator[pb.LedgerRecord]:
        """Yield what was asked, decided and delivered, oldest first."""
        grant = await self._grant(context)
        after = min(request.after, (1 << 63) - 1)
        try:
            records = await asyncio.to_thread(
                ledger.read, self._ledger_path, after=after, limit=request.limit or 100, requester=grant.sees
            )
        except sqlite3.Error as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"the ledger cannot be read at present: {error}")
        for record in records:
            yield ledger_record(record)

    async def _grant(self, context: Context) -> Grant:
        grant = self._keyring.find(context.invocation_metadata())
        if grant is None:  # the interceptor has checked already; this is the second check
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "no valid token")
        return grant

    async def _acquire(
        self, context: Context, grant: Grant, electrodes: tuple[int, ...], ttl_s: float, *, held: bool
    ) -> pb.LeaseReply:
        if grant.electrodes is not None and not grant.electrodes.issuperset(electrodes):
            return pb.LeaseReply(reason=f"{grant.requester}'s token does not reach these electrodes")
        return await self._lease(context, "acquire", grant, electrodes=electrodes, ttl_s=ttl_s, held=held, lease="")

    async def _lease(
        self,
        context: Context,
        verb: Any,
        grant: Grant,
        *,
        lease: str,
        electrodes: tuple[int, ...] = (),
        ttl_s: float = 0.0,
        held: bool = False,
    ) -> pb.LeaseReply:
        answered: asyncio.Future[Lease | LeaseRefused] = self._loop.create_future()
        answer_to = self._completing(answered)
        command = LeaseCommand(verb, grant.requester, answer_to, lease[:MAX_TEXT], electrodes, ttl_s, held)
        answer = await self._answer(context, command, answered)
        if isinstance(answer, LeaseRefused):
            return pb.LeaseReply(reason=str(answer))
        return pb.LeaseReply(granted=True, lease=answer.id, until_frame=answer.until_frame, fence=answer.fence)

    async def _answer(self, context: Context, command: Command, answered: asyncio.Future[T]) -> T:
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

    async def _require_past(self, context: Context, frame: int, head: int) -> None:
        if frame > head:
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, f"frame {frame} has not come yet; the next is {head}")

    async def _require_electrode(self, context: Context, electrode: int) -> None:
        if electrode >= self._core.info.electrodes:
            await context.abort(
                grpc.StatusCode.OUT_OF_RANGE,
                f"there is no electrode {electrode}; this array has 0 to {self._core.info.electrodes - 1}",
            )

    @asynccontextmanager
    async def _subscribed_to(self, context: Context, messages: AsyncGenerator[Any]) -> AsyncIterator[None]:
        """Count a stream while it is open, and close what feeds it."""
        with await self._subscription(context):
            async with aclosing(messages):
                yield

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


def _ignore_lease(_: Lease | LeaseRefused) -> None:
    """Ignore the answer to a release: a lease that has ended already is released too."""
