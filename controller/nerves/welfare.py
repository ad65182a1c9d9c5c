"""Does the tissue still answer, and how much has it been asked? Evoked spikes after each pulse, against this
tissue's own earlier answers (N9), and how full the welfare budgets are.

A steep fall under stimulation means exhaustion or harm; either way the right act is to stop for a while.
Rest, duty and load are plain counting and live with the other budgets (:mod:`controller.nerves.bookings`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.nerves.bookings import STRETCH_S, Bookings
from controller.nerves.envelope import Envelope

AFTER_FROM_S = 0.006
AFTER_UNTIL_S = 0.056
BEFORE_S = 0.05
"""Answers are spikes from 6 to 56 ms after the pulse (past the blanking), less those of the 50 ms before
it.
"""

LEARN_PULSES = 50
"""Isolated pulses from which the first baseline is taken."""

RECENT_PULSES = 20
LOST_BELOW = 0.3
"""Lost: the recent mean is under this share of the baseline."""

CLEAR_ANSWER = 1.0
"""Spikes a pulse; below it there is no answer that could be lost."""

BASELINE_SHARE = 0.002
"""How fast the baseline follows (per pulse), so that slow ageing is not taken for loss."""


class ResponseMonitor:
    """Watches evoked responses. Feed it pulses and spikes in the order of their frames; counts only
    isolated pulses, those with no other in the same window, since only there it is clear which pulse was
    answered.
    """

    def __init__(self, sample_rate_hz: float, rest_s: float) -> None:
        self._from = round(AFTER_FROM_S * sample_rate_hz)
        self._until = round(AFTER_UNTIL_S * sample_rate_hz)
        self._before = round(BEFORE_S * sample_rate_hz)
        self._rest = round(rest_s * sample_rate_hz)
        self._spikes: deque[int] = deque()
        self._waiting: deque[int] = deque()
        self._last_pulse: int | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the recent answers, keep nothing of the loss: the tissue has rested."""
        self._answers: deque[float] = deque(maxlen=RECENT_PULSES)
        self._learned = 0
        self.baseline = 0.0
        """Spikes a pulse that this tissue used to answer with."""
        self.lost = False

    @property
    def known(self) -> bool:
        """Whether there is a baseline, and as many recent answers as it takes to hold against it."""
        return self._learned >= LEARN_PULSES and len(self._answers) == RECENT_PULSES

    @property
    def recent(self) -> float:
        """Spikes a pulse of the last pulses; 0 before the first."""
        return sum(self._answers) / len(self._answers) if self._answers else 0.0

    def note(self, pulses: list[int], spikes: NDArray[np.int64], now_frame: int) -> None:
        """Take in the pulses and spikes of a block that ends at `now_frame`."""
        if self._last_pulse is not None and now_frame - self._last_pulse > self._rest:
            self._last_pulse = None
            self.reset()
        for pulse in pulses:
            if self._last_pulse is not None and pulse - self._last_pulse < self._until:
                if self._waiting and self._waiting[-1] == self._last_pulse and pulse != self._last_pulse:
                    self._waiting.pop()
            else:
                self._waiting.append(pulse)
            self._last_pulse = pulse
        self._spikes.extend(spikes.tolist())
        while self._waiting and self._waiting[0] + self._until <= now_frame:
            self._judge(self._waiting.popleft())
        keep = (self._waiting[0] if self._waiting else now_frame) - self._before
        while self._spikes and self._spikes[0] < keep:
            self._spikes.popleft()

    def _judge(self, pulse: int) -> None:
        after = sum(pulse + self._from <= spike < pulse + self._until for spike in self._spikes)
        before = sum(pulse - self._before <= spike < pulse for spike in self._spikes)
        answer = float(after - before)
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
    """What stimulation weighs on the tissue.

    `share` is the fullest of the welfare budgets (seconds and charge of the hour, hours of the day), 1 at its limit;
    `rest_h` hours of the last 24 without any pulse; `evoked_ratio` recent answers over this tissue's own, None while
    unknown; `response_lost` whether it hardly answers any more.
    """

    share: float
    rest_h: float
    evoked_ratio: float | None
    response_lost: bool


def load(bookings: Bookings, monitor: ResponseMonitor, envelope: Envelope) -> StimulationLoad:
    """The load of this moment; call after :meth:`Bookings.forget_before`."""
    stimulated_h = min(bookings.day.total * STRETCH_S / 3600.0, 24.0)
    share = max(
        bookings.seconds.total / (envelope.duty * 3600.0),
        bookings.hour.total / envelope.organoid_nc_h,
        stimulated_h / envelope.day_h,
    )
    evoked = monitor.recent / monitor.baseline if monitor.known and monitor.baseline >= CLEAR_ANSWER else None
    return StimulationLoad(share, 24.0 - stimulated_h, evoked, monitor.lost)
