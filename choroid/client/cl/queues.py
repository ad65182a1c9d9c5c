"""When each stimulation begins: the queue of each channel, and plans. Frames only, no clock and no connection."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from choroid.client.cl.designs import BurstDesign, ChannelSet, StimDesign
from choroid.client.cl.errors import ChannelQueueFull, TransactionRejected

OCCUPIED_S = 0.005
"""A single pulse occupies its channel for this long (200 Hz)."""

SOON_LATE_S, LATE_S = 0.005, 0.001
"""How late the engine may begin a pulse that is wanted as soon as possible, and a planned one; the next waits for both."""

MAX_TRIES = 4
MAX_MARGIN_S = 0.25
"""A slow connection, or a busy machine, makes the margin grow up to this."""

IN_TIME = 50
"""After so many requests in time in a row the margin is halved, down to what it was first."""

MAX_AHEAD_S = 55.0
"""The engine plans pulses at most a minute ahead."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Describes one call to the engine: pulses on channels that begin together."""

    channels: tuple[int, ...]
    design: StimDesign
    at_frame: int
    """0 means as soon as possible."""
    pulses: int
    period_frames: int
    tries: int = 0
    """How often it came too late for its frame, and was planned again."""
    fixed: bool = False
    """Whether it belongs to a plan: it begins at its frame exactly or not at all, and is not planned again."""


@dataclass(frozen=True, slots=True)
class StimOperation:
    """Describes one step of a plan: a stimulation, or (without a design) a synchronisation or an interruption."""

    channels: ChannelSet
    design: StimDesign | None = None
    burst: BurstDesign | None = None
    lead_us: float = 0.0
    interrupts: bool = False


@dataclass(slots=True)
class ChannelQueues:
    """Keeps the frame from which each channel is free again."""

    rate_hz: float
    margin_frames: int
    """How far ahead of the clock a planned beginning lies, so that the request arrives in time."""
    free: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    _min_frames: int = field(init=False)
    _in_time: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Keep the first margin."""
        self._min_frames = self.margin_frames

    def note_in_time(self) -> None:
        """Count a request that reached the engine before its frame; many in a row let the margin shrink again."""
        self._in_time += 1
        if self._in_time >= IN_TIME:
            self._in_time = 0
            self.margin_frames = max(self._min_frames, self.margin_frames // 2)

    def place(self, step: StimOperation, now: int, begin: int = 0) -> Placed | None:
        """Queue one step.

        Args:
            step: What to do.
            now: The array's clock.
            begin: The frame from which the plan counts, which the step keeps whatever the time is; 0 means now.

        Returns:
            The call to the engine, or none.

        Raises:
            ChannelQueueFull: A channel has too much to do.
        """
        start = max((self.free[channel] for channel in step.channels), default=0)
        if step.design is None:
            for channel in step.channels:
                self.free[channel] = start
            return None
        pulses = 1 if step.burst is None else step.burst.burst_count
        if not pulses or not len(step.channels):
            return None
        idle = start <= now and not begin
        lead = round(step.lead_us * 1e-6 * self.rate_hz)
        soonest = begin + lead if begin else now + (max(lead, self.margin_frames) if idle else self.margin_frames)
        at_frame = max(start, soonest)
        period = self.period_frames(step.burst)
        end = at_frame + period * pulses + round((SOON_LATE_S if idle else LATE_S) * self.rate_hz)
        if end - now > MAX_AHEAD_S * self.rate_hz:
            raise ChannelQueueFull(
                f"the queue of channel {next(iter(step.channels))} would reach {MAX_AHEAD_S:g} s ahead; next: wait"
            )
        for channel in step.channels:
            self.free[channel] = end
        return Placed(tuple(step.channels), step.design, 0 if idle else at_frame, pulses, period, fixed=bool(begin))

    def again(self, late: Placed, now: int) -> Placed | None:
        """Plan a call again that came too late for its frame.

        Args:
            late: The call that the engine refused.
            now: The array's clock.

        Returns:
            The call with a later frame; None when its frame is fixed, or was changed four times already.
        """
        self._in_time = 0
        if late.tries >= MAX_TRIES:
            return None
        self.margin_frames = min(2 * self.margin_frames, round(MAX_MARGIN_S * self.rate_hz))
        if late.fixed:
            return None
        at_frame = now + self.margin_frames
        for channel in late.channels:
            self.free[channel] = max(self.free[channel], at_frame + late.pulses * late.period_frames)
        return replace(late, at_frame=at_frame, tries=late.tries + 1)

    def interrupt(self, channels: ChannelSet, frame: int = 0) -> None:
        """Free channels from what waits on them.

        Args:
            channels: The channels.
            frame: From this frame on; 0 means at once.
        """
        for channel in channels:
            self.free[channel] = min(self.free[channel], frame)

    def period_frames(self, burst: BurstDesign | None) -> int:
        """Return the time from one pulse to the next.

        Args:
            burst: The burst; None for a single pulse.

        Returns:
            Frames; of a single pulse those that it occupies.
        """
        if burst is None:
            return round(OCCUPIED_S * self.rate_hz)
        return max(round(OCCUPIED_S * self.rate_hz), round(burst.interval_us() * 1e-6 * self.rate_hz))


def require_lead(lead_time_us: float) -> None:
    """Check a lead time.

    Args:
        lead_time_us: The lead time (µs).

    Raises:
        TransactionRejected: It is shorter than 80 µs or no multiple of 20 µs.
    """
    if lead_time_us < 80 or lead_time_us % 20:
        raise TransactionRejected(f"a lead time of {lead_time_us:g} µs; give at least 80 µs, in steps of 20 µs")
