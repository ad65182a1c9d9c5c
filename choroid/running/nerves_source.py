"""The controller's source of firing summaries: the electrode engine, over the client that remote agents use.

Two streams are kept open in the background and their latest messages are at hand at once, so that a tick of the controller
never waits for the engine, whatever the speed of its loop. While the engine cannot be reached there is no summary; while the
array stands still, the summary grows old.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing

from choroid.client.errors import NervesError
from choroid.client.nerves import AsyncNervesClient
from choroid.client.wire import nerves_pb2 as pb
from nerves.budgets import BudgetUse
from nerves.inspection import ElectrodeTable, LeaseSeen, ResponseSeen, Waveforms
from nerves.metrics.terms import METRICS, ArrayMetrics
from nerves.summary import NervesSummary, StimulationTreatment, life_s

logger = logging.getLogger(__name__)

SUMMARY_EVERY_MS = 1000
SPIKES_EVERY_MS = 100
RECENT_S = 5.0
RETRY_S = 2.0
MAX_SPIKES = 50_000
WAVEFORMS_S = 4.0
"""How far back waveforms are read; the engine keeps the last 5 s of frames."""
WAVEFORMS_WITHIN_S = 0.4
"""Maximum wait for the waveforms of an electrode (s of real time): a silent one has none."""
MAX_WAVEFORMS = 24
RESPONSES_S = 300.0
"""How far back the pulses are counted."""
LOST_SAMPLE = -32768


class GatewayNerves:
    """A `NervesSource` that connects by itself, again and again. Make it on the loop that uses it."""

    def __init__(self, address: str, token: str) -> None:
        self._client = AsyncNervesClient(address, token)
        self._summary: NervesSummary | None = None
        self._spikes: deque[tuple[int, int]] = deque(maxlen=MAX_SPIKES)
        self._frame = 0
        """The array's latest frame, by either stream."""
        self._summed_frame = 0
        """That of the latest summary, which is as fresh as the last change of this."""
        self._frame_s = 0.0
        self.card_fault = ""
        """What of the electrode card does not work at present, for people; empty while all does."""
        self.recording_problem = ""
        """What the recordings of the array lack, for people; empty while they are whole."""
        self.lost_spikes = 0
        """Spikes that came too fast for this reader."""
        self._tasks = [
            asyncio.create_task(self._repeat(self._follow_summary)),
            asyncio.create_task(self._repeat(self._follow_spikes)),
        ]

    async def summary(self) -> NervesSummary | None:
        """Return the latest firing summary, a second or so old while the array goes on; None while there is none."""
        return self._summary

    def recent_spikes(self) -> list[tuple[float, int]]:
        """Return the last 5 s of the array's clock: (seconds, electrode), oldest first; none while it stands."""
        summary = self._summary
        if summary is None or asyncio.get_running_loop().time() - summary.at_s > life_s(RECENT_S):
            return []
        while self._spikes and (self._frame - self._spikes[0][0]) * self._frame_s > RECENT_S:
            self._spikes.popleft()
        return [(frame * self._frame_s, electrode) for frame, electrode in self._spikes]

    async def electrodes(self) -> ElectrodeTable | None:
        """Return the figures of each electrode; None while the engine does not answer."""
        try:
            summary, found = await self._client.summary(), await self._client.metrics()
            info = await self._client.info()
        except NervesError:
            return None
        unknown = (math.nan,) * info.electrodes
        muted_by = {
            each.cause.lower(): tuple(100.0 * seconds / summary.watched_s for seconds in each.seconds)
            for each in summary.muted
            if summary.watched_s
        }
        return ElectrodeTable(
            states=tuple(_STATE_NAMES.get(state, "unknown") for state in summary.states),
            rates_hz=tuple(found.rate_hz) or tuple(summary.rates_hz),
            amplitudes_uv=tuple(found.amplitude_uv) or unknown,
            noise_uv=tuple(summary.noise_uv),
            impedances_kohm=tuple(kohm or math.nan for kohm in info.impedance_kohm),
            bursts_min=tuple(found.bursts_min) or unknown,
            muted_pct=tuple(sum(shares) for shares in zip(*muted_by.values(), strict=True)),
            muted_by=muted_by,
            x_um=tuple(info.geometry.x_um),
            y_um=tuple(info.geometry.y_um),
            geometry=_geometry_text(info.geometry),
        )

    async def waveforms(self, electrode: int) -> Waveforms | None:
        """Return waveforms of an electrode's spikes of the last seconds; None while the engine does not answer."""
        try:
            info, status = await self._client.info(), await self._client.status()
            if electrode >= info.electrodes:
                return None
            since = max(0, status.next_frame - round(WAVEFORMS_S * info.sample_rate_hz))
            traces: list[tuple[float, ...]] = []
            before = 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(life_s(WAVEFORMS_WITHIN_S)):
                    stream = self._client.spikes(100, from_frame=since, electrodes=[electrode], waveforms=True)
                    async with aclosing(stream) as batches:
                        async for batch in batches:
                            if batch.waveforms is not None:
                                before = batch.waveform_before
                                whole = batch.waveforms[~(batch.waveforms == LOST_SAMPLE).all(axis=1)]
                                traces += [tuple((row * info.uv_per_unit).round(1).tolist()) for row in whole]
                            if batch.next_frame >= status.next_frame:
                                break
        except NervesError:
            return None
        return Waveforms(electrode, info.sample_rate_hz, before, tuple(traces[-MAX_WAVEFORMS:]))

    async def responses(self, electrode: int) -> ResponseSeen | None:
        """Return an electrode's spikes around the pulses of the last minutes; None while the engine does not answer."""
        try:
            info, status = await self._client.info(), await self._client.status()
            if electrode >= info.electrodes:
                return None
            found = await self._client.responses(electrode, seconds=RESPONSES_S)
        except NervesError:
            return None
        known = found.HasField("baseline_hz")
        return ResponseSeen(
            electrode,
            max(0.0, (status.next_frame - found.from_frame) / info.sample_rate_hz),
            found.trials,
            found.overlapping,
            tuple(found.edges_ms),
            tuple(found.counts),
            tuple(found.observed_s),
            tuple(n / s if s > 0.0 else math.nan for n, s in zip(found.counts, found.observed_s, strict=True)),
            found.baseline_hz if known else math.nan,
            found.baseline_low_hz if known else math.nan,
            found.baseline_high_hz if known else math.nan,
        )

    async def leases(self) -> tuple[tuple[LeaseSeen, ...], tuple[BudgetUse, ...]] | None:
        """Return the living leases and the use of the budgets; None while the engine does not answer."""
        try:
            info, status = await self._client.info(), await self._client.status()
            found = await self._client.leases()
        except NervesError:
            return None
        rate, now = info.sample_rate_hz, status.next_frame
        leases = tuple(
            LeaseSeen(
                each.requester,
                tuple(each.electrodes),
                each.held,
                max(0.0, (each.until_frame - now) / rate),
                max(0.0, (now - each.alive_frame) / rate),
            )
            for each in found.leases
        )
        budgets = tuple(
            BudgetUse(each.requester, each.name, each.used, each.limit, each.unit) for each in found.budgets
        )
        return leases, budgets

    async def close(self) -> None:
        """Disconnect."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    async def _repeat(self, follow: Callable[[], Awaitable[None]]) -> None:
        """Follow without end: neither an engine that is gone nor a defect here may end it."""
        logged = ""
        while True:
            try:
                await follow()
            except NervesError:
                pass  # the engine is gone: that there is no summary tells it
            except Exception as error:
                if repr(error) != logged:  # once, not every two seconds
                    logged = repr(error)
                    logger.exception("the connection to the electrode engine failed; it is tried again")
            await asyncio.sleep(RETRY_S)

    async def _follow_summary(self) -> None:
        loop = asyncio.get_running_loop()
        counted: tuple[float, float] | None = None
        try:
            async with aclosing(self._client.summaries(SUMMARY_EVERY_MS)) as summaries:
                async for reply in summaries:
                    self.card_fault = _fault_text(reply.card_faults)
                    self.recording_problem = reply.recording_problem
                    if reply.frame == self._summed_frame:
                        continue  # the array stands: its last figures grow old
                    self._summed_frame = self._frame = reply.frame
                    before, counted = counted, (_muted_s(reply), reply.watched_s)
                    self._summary = NervesSummary(
                        at_s=loop.time(),
                        firing_rate_hz=reply.mean_active_hz,
                        active_electrodes=reply.active_electrodes,
                        electrodes=reply.electrodes,
                        rates_hz=tuple(reply.rates_hz),
                        treatment=_treatment(reply.welfare),
                        observed_electrodes=reply.observed_electrodes if reply.states else None,
                        states=tuple(_STATE_NAMES.get(state, "unknown") for state in reply.states),
                        metrics=_metrics(reply.metrics) if reply.HasField("metrics") else None,
                        muted_pct=_muted_pct(before, counted, reply.electrodes) if before else None,
                    )
        finally:
            self._summary = None
            self.card_fault = self.recording_problem = ""

    async def _follow_spikes(self) -> None:
        info = await self._client.info()
        self._spikes.clear()
        self._frame_s = 1.0 / info.sample_rate_hz
        async with aclosing(self._client.spikes(SPIKES_EVERY_MS)) as batches:
            async for batch in batches:
                self._frame = batch.next_frame
                self.lost_spikes += batch.lost
                self._spikes.extend(zip(batch.frames.tolist(), batch.electrodes.tolist(), strict=True))


def _muted_s(reply: pb.SummaryReply) -> float:
    return sum(sum(each.seconds) for each in reply.muted)


def _muted_pct(before: tuple[float, float], now: tuple[float, float], electrodes: int) -> float | None:
    """Return the muted share of the time of all electrodes between two counts (muted and watched seconds)."""
    watched_s = (now[1] - before[1]) * electrodes
    return 100.0 * (now[0] - before[0]) / watched_s if watched_s > 0.0 else None


_STATE_NAMES = {
    pb.ELECTRODE_OK: "ok",
    pb.ELECTRODE_DEAD: "dead",
    pb.ELECTRODE_NOISY: "noisy",
    pb.ELECTRODE_SATURATED: "saturated",
    pb.ELECTRODE_BLANKED: "blanked",
}


def _fault_text(faults: Iterable[pb.CardFault]) -> str:
    """Return the present faults of the card as text."""
    return "; ".join(
        f"{fault.state.lower().replace('_', ' ')} ({len(fault.electrodes)} electrodes): {fault.text}"
        for fault in faults
    )


def _metrics(sent: pb.ArrayMetrics) -> ArrayMetrics:
    """Return the figures of the array; an absent one is NaN."""
    known = {field.name: value for field, value in sent.ListFields()} | dict(sent.more)
    figures = {each.name: known.get(each.name, math.nan) for each in METRICS}
    return ArrayMetrics(sent.seconds, sent.spikes, sent.active, sent.pulses, figures)


def _treatment(welfare: pb.Welfare) -> StimulationTreatment:
    return StimulationTreatment(
        load=welfare.load,
        rest_h=welfare.rest_h,
        evoked_ratio=welfare.evoked_ratio if welfare.HasField("evoked_ratio") else None,
        response_lost=welfare.response_lost,
        tier=welfare.tier,
        level=welfare.level,
        reason=welfare.reason,
        evoked_spikes=welfare.evoked_spikes if welfare.HasField("evoked_spikes") else None,
    )


def _geometry_text(geometry: pb.Geometry) -> str:
    """Return what is said of the array as a whole; empty where its geometry is not known."""
    reference = f"reference: {geometry.reference}" if geometry.reference else ""
    source = f"positions: {geometry.source}" if geometry.x_um else ""
    return "; ".join(filter(None, (geometry.module, reference, source)))
