"""Response of the tissue and load by stimulation: evoked spikes after each pulse against the tissue's own earlier responses
(N9), and the use of the welfare budgets.

A steep fall of the response under stimulation means exhaustion or harm; in both cases stimulation must pause. Rest, duty and
load are counted with the other budgets (:mod:`nerves.bookings`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nerves.bookings import STRETCH_S, Bookings
from nerves.envelope import Envelope

AFTER_FROM_S = 0.006
AFTER_UNTIL_S = 0.056
BEFORE_S = 0.05
"""A response is the number of spikes from 6 to 56 ms after the pulse (past the blanking), less those of the 50 ms before."""

LEARN_PULSES = 50
"""Number of isolated pulses that define the first baseline."""

RECENT_PULSES = 20
LOST_BELOW = 0.3
"""Share of the baseline below which the recent mean counts as lost."""

CLEAR_ANSWER = 1.0
"""Minimum baseline (spikes a pulse) for a loss to be detectable."""

BASELINE_SHARE = 0.002
"""Weight of a new response in the baseline, so that slow ageing is not taken for a loss."""


MIN_OBSERVED = 0.5
"""Minimum share of the electrodes that must be observed for stimulation: below it a lost response could go unnoticed."""


class ResponseMonitor:
    """Monitors evoked responses.

    Pulses and spikes must be given in the order of their frames. Only isolated pulses count, those without another pulse in
    the same window, because only their responses are unambiguous.
    """

    def __init__(self, sample_rate_hz: float, rest_s: float) -> None:
        self._from = round(AFTER_FROM_S * sample_rate_hz)
        self._until = round(AFTER_UNTIL_S * sample_rate_hz)
        self._before = round(BEFORE_S * sample_rate_hz)
        self._rest = round(rest_s * sample_rate_hz)
        self._observed = 1.0
        self._spikes: deque[int] = deque()
        self._waiting: deque[int] = deque()
        self._last_pulse: int | None = None
        self.reset()

    def reset(self) -> None:
        """Forget recent responses and any loss: the tissue has rested."""
        self._answers: deque[float] = deque(maxlen=RECENT_PULSES)
        self._learned = 0
        self.baseline = 0.0
        """Usual number of spikes a pulse of this tissue."""
        self.lost = False

    @property
    def known(self) -> bool:
        """Whether there is a baseline, and enough recent responses for a comparison."""
        return self._learned >= LEARN_PULSES and len(self._answers) == RECENT_PULSES

    @property
    def recent(self) -> float:
        """Mean number of spikes a pulse of the last pulses; 0 before the first."""
        return sum(self._answers) / len(self._answers) if self._answers else 0.0

    def note(self, pulses: list[int], spikes: NDArray[np.int64], now_frame: int, observed: float = 1.0) -> None:
        """Process the pulses and spikes of a block.

        Args:
            pulses: Frames at which pulses began, in order.
            spikes: Frames of the spikes, in order.
            now_frame: Frame up to which all spikes are known.
            observed: Share of the electrodes on which spikes can be detected now; responses are scaled to the whole array.
        """
        self._observed = max(observed, MIN_OBSERVED)
        if self._last_pulse is not None and now_frame - self._last_pulse > self._rest:
            self._last_pulse = None
            self.reset()
        for pulse in pulses:
            self._queue(pulse)
        self._spikes.extend(spikes.tolist())
        while self._waiting and self._waiting[0] + self._until <= now_frame:
            self._judge(self._waiting.popleft())
        keep = (self._waiting[0] if self._waiting else now_frame) - self._before
        while self._spikes and self._spikes[0] < keep:
            self._spikes.popleft()

    def _queue(self, pulse: int) -> None:
        """Queue an isolated pulse; of two in the same window neither counts."""
        last, self._last_pulse = self._last_pulse, pulse
        if last is None or pulse - last >= self._until:
            self._waiting.append(pulse)
        elif self._waiting and self._waiting[-1] == last and pulse != last:
            self._waiting.pop()

    def _judge(self, pulse: int) -> None:
        after = sum(pulse + self._from <= spike < pulse + self._until for spike in self._spikes)
        before = sum(pulse - self._before <= spike < pulse for spike in self._spikes)
        answer = float(after - before) / self._observed
        self._answers.append(answer)
        if self._learned < LEARN_PULSES:
            self._learned += 1
            self.baseline += (answer - self.baseline) / self._learned
            return
        if self.baseline >= CLEAR_ANSWER and len(self._answers) == RECENT_PULSES:
            self.lost = self.lost or self.recent < LOST_BELOW * self.baseline
        self.baseline += BASELINE_SHARE * (answer - self.baseline)


@dataclass(frozen=True, slots=True)
class StimulationLoad:
    """Load of the tissue by stimulation.

    `share` is the use of the fullest welfare budget (seconds and charge of the hour, hours of the day), 1 at its limit;
    `rest_h` the hours of the last 24 without any pulse; `evoked_ratio` the recent response over this tissue's own, None while
    unknown; `response_lost` whether the response is lost.
    """

    share: float
    rest_h: float
    evoked_ratio: float | None
    response_lost: bool
    evoked_spikes: float | None = None
    """Mean response (spikes a pulse) of the last pulses; None while unknown. It is compared with earlier sessions."""


def load(bookings: Bookings, monitor: ResponseMonitor, envelope: Envelope) -> StimulationLoad:
    """Return the present load; call it after :meth:`Bookings.forget_before`."""
    stimulated_h = min(bookings.day.total * STRETCH_S / 3600.0, 24.0)
    share = max(
        bookings.seconds.total / (envelope.duty * 3600.0),
        bookings.hour.total / envelope.organoid_nc_h,
        stimulated_h / envelope.day_h,
    )
    evoked = monitor.recent / monitor.baseline if monitor.known and monitor.baseline >= CLEAR_ANSWER else None
    spikes = monitor.recent if monitor.known else None
    return StimulationLoad(share, 24.0 - stimulated_h, evoked, monitor.lost, spikes)
