"""Firing against the culture's own baseline: z-scores, hypersynchrony and loss of the evoked response.

Looked at once a minute. The baselines are those of :mod:`controller.vitals.rolling_baseline`: medians of hours, robust, kept
over restarts. Minutes with stimulation do not enter those of spontaneous firing. Both findings have hysteresis here and a
confirm time in the alarm definitions; while they cannot be judged, they stay as they are.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from statistics import mean, stdev

from controller.vitals.electrode_baseline import ElectrodeBaseline
from controller.vitals.rolling_baseline import RollingBaseline
from nerves.metrics.terms import METRICS, ArrayMetrics
from nerves.summary import NervesSummary, StimulationTreatment
from protocols.activity import SEIZURE_SHARE
from protocols.baseline import Norm
from protocols.interval import Interval

SYNCHRONOUS = "in_network_bursts"
ASYNCHRONOUS, EVOKED = "asynchronous_share", "evoked_spikes"
"""Baselines of the share of spikes outside network bursts, and of the spikes that follow a pulse."""

CALM_SHARE = 0.15
"""Hypersynchrony begins with less than a tenth of the spikes outside network bursts (by :data:`SEIZURE_SHARE`) and ends with
more than this."""
SYNCHRONOUS_RATIO, CALM_RATIO = 1 / 3, 1 / 2
"""It also begins below a third of the culture's own baseline of that share, and ends above half of it [P]."""
MIN_SPIKES = 200
"""Minimum number of spikes in a minute for a judgement."""

LOST_RATIO, ANSWERING_RATIO = 0.3, 0.5
"""The response is lost below 0.3 times its baseline, as for the engine, and is back above half of it."""
CLEAR_ANSWER = 1.0
"""Minimum baseline (spikes a pulse) for a loss to be detectable, as for the engine."""

OBSERVED = ("ok", "blanked")
"""States of an electrode on which spikes are detected, now or within milliseconds."""
MAX_WINDOWS, MIN_WINDOWS = 60, 10
"""Means for the scores are over the last hour's minutes, and need ten."""


class FiringSigns:
    """Judges the firing figures of one array, minute by minute."""

    def __init__(self, baseline: RollingBaseline, electrodes: ElectrodeBaseline) -> None:
        self._baseline = baseline
        self._electrodes = electrodes
        self._windows: deque[ArrayMetrics] = deque(maxlen=MAX_WINDOWS)
        self._seen_s = -math.inf
        self.scores: Mapping[str, float] = {}
        """Distance of each signal from its baseline, in spreads of its logarithm; of the last minute without stimulation."""
        self.electrode_scores: tuple[float, ...] = ()
        """Distance of each electrode's rate from its own baseline; NaN where it is not known."""
        self.hypersynchrony = ""
        """Why the culture counts as hypersynchronous; empty if it does not."""
        self.lost_response = ""
        """Why the evoked response counts as lost; empty if it does not."""

    def update(self, nerves: NervesSummary | None, treatment: StimulationTreatment | None) -> None:
        """Take in the figures of a minute; None where they are not known, or not of enough electrodes."""
        if treatment is not None:
            self._judge_response(treatment)
        if nerves is None or nerves.metrics is None or nerves.at_s == self._seen_s:
            return
        self._seen_s = nerves.at_s
        rates = nerves.rates_hz
        if nerves.states:
            seen = zip(nerves.rates_hz, nerves.states, strict=True)
            rates = tuple(rate if state in OBSERVED else math.nan for rate, state in seen)
        if nerves.metrics.pulses == 0:
            self._take(nerves.metrics)
            self._electrodes.note(rates)
        self.electrode_scores = tuple(self._electrodes.scores(rates).tolist())

    def turn(self, disturbance: str) -> None:
        """Close the hour of the electrodes if it is over; `disturbance` says why it is unusual."""
        if disturbance:
            self._electrodes.disturbed(disturbance)
        self._electrodes.turn()

    def mean_of(self, figure: str) -> Interval | None:
        """Return the mean of a figure over the last hour's windows, with two standard errors."""
        seen = [value for window in self._windows if math.isfinite(value := window.figures[figure])]
        if len(seen) < MIN_WINDOWS:
            return None
        found = Interval.around(mean(seen), stdev(seen) / math.sqrt(len(seen)))
        return found if found.finite else None

    @property
    def seizure_like(self) -> bool:
        """Whether nearly all spikes of the last hour's windows were in network bursts."""
        known = [window for window in self._windows if math.isfinite(window.figures[SYNCHRONOUS])]
        spikes = sum(window.spikes for window in known)
        if len(known) < MIN_WINDOWS or spikes < MIN_SPIKES:
            return False
        return sum(window.figures[SYNCHRONOUS] * window.spikes for window in known) / spikes > SEIZURE_SHARE

    def _take(self, metrics: ArrayMetrics) -> None:
        self._windows.append(metrics)
        scores: dict[str, float] = {}
        for each in METRICS:
            if each.baseline:
                self._note(each.name, metrics.figures[each.name], scores)
        share = 1.0 - metrics.figures[SYNCHRONOUS]
        if metrics.spikes >= MIN_SPIKES and math.isfinite(share):
            self._judge_synchrony(share, self._note(ASYNCHRONOUS, share, scores))
        self.scores = scores

    def _note(self, signal: str, value: float, scores: dict[str, float]) -> Norm | None:
        """Put a value into the baseline of its signal and its distance into `scores`."""
        if not math.isfinite(value):
            return None
        norm = self._baseline.note(signal, value)
        if norm is not None:
            scores[signal] = norm.z(value)
        return norm

    def _judge_synchrony(self, share: float, norm: Norm | None) -> None:
        usual = "" if norm is None else f"; usually {norm.value:.0%}"
        begins = share < 1.0 - SEIZURE_SHARE or (norm is not None and share < SYNCHRONOUS_RATIO * norm.value)
        ends = share > CALM_SHARE and (norm is None or share > CALM_RATIO * norm.value)
        if begins or (self.hypersynchrony and not ends):
            self.hypersynchrony = f"{share:.0%} of the spikes are outside network bursts{usual}"
        elif ends:
            self.hypersynchrony = ""

    def _judge_response(self, treatment: StimulationTreatment) -> None:
        evoked = treatment.evoked_spikes
        norm = None if evoked is None else self._baseline.note(EVOKED, evoked)
        if norm is not None and norm.value < CLEAR_ANSWER:
            norm = None
        if treatment.response_lost:
            self.lost_response = "the tissue hardly answers any more, compared with its first pulses of this session"
        elif evoked is not None and norm is not None and evoked < LOST_RATIO * norm.value:
            self.lost_response = f"{evoked:.1f} spikes follow a pulse; usually {norm.value:.1f}"
        elif evoked is not None and (norm is None or evoked > ANSWERING_RATIO * norm.value):
            self.lost_response = ""
