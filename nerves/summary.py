"""What the other packages know of the nerves: a firing summary, and the interface of its sources."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from nerves.metrics.terms import ArrayMetrics


@dataclass(frozen=True, slots=True)
class StimulationTreatment:
    """Summarises how stimulation treats the organoid.

    `load` is the fullest of the welfare budgets (1 at its limit), `rest_h` the hours of the last 24 without any pulse,
    `evoked_ratio` recent evoked answers over its own earlier ones (None while unknown). `tier`, `level` and `reason`
    are the permit's: what age and review allow, and why it is not more.
    """

    load: float
    rest_h: float
    evoked_ratio: float | None
    response_lost: bool
    tier: int
    level: str
    reason: str
    evoked_spikes: float | None = None
    """Mean response (spikes a pulse) of the last pulses; None while unknown."""


def life_s(seconds: float) -> float:
    """Convert seconds of the organoid's life to seconds of the running loop, which runs faster in a demo (by its `speed`)."""
    return seconds * float(getattr(asyncio.get_running_loop(), "speed", 1.0))


MIN_OBSERVED_SHARE = 0.5
"""Share of the electrodes that must be observed; below it the array's firing is not known."""


@dataclass(frozen=True, slots=True)
class NervesSummary:
    """Firing of the whole array; rates in Hz, corrected for blanked time (N8).

    `at_s` is the loop time at which the array was last seen to go on. `firing_rate_hz` is the mean over active
    electrodes, those with at least five spikes a minute; `rates_hz` has one entry an electrode. A muted electrode is neither
    active nor silent: it is not among the `observed` ones.
    """

    at_s: float
    firing_rate_hz: float
    active_electrodes: int
    electrodes: int
    rates_hz: tuple[float, ...]
    treatment: StimulationTreatment | None = None
    """None where no client can stimulate, or where it is not known."""
    observed_electrodes: int | None = None
    """Electrodes on which spikes could be detected; None: all."""
    states: tuple[str, ...] = ()
    """State of each electrode: ok, dead, noisy, saturated or blanked; empty: all ok."""
    metrics: ArrayMetrics | None = None
    """Figures of bursts, intervals and synchrony over the last minute; None while unknown."""
    muted_pct: float | None = None
    """Share of the time of all electrodes, since the summary before, in which nothing could be detected; None: not known."""

    @property
    def observed(self) -> int:
        """Number of electrodes on which spikes could be detected."""
        return self.electrodes if self.observed_electrodes is None else self.observed_electrodes

    @property
    def sufficient(self) -> bool:
        """Whether enough electrodes are observed for figures of the whole array."""
        return self.observed >= MIN_OBSERVED_SHARE * self.electrodes


class NervesSource(Protocol):
    """Delivers summaries of the array: from the electrode engine over gRPC, or from a rate-level model in accelerated
    time.
    """

    async def summary(self) -> NervesSummary | None:
        """Return the latest summary, or None while nothing is known."""
        ...

    def recent_spikes(self) -> list[tuple[float, int]]:
        """Return the spikes of about the last 5 s: seconds of the array's own clock, electrode; oldest first."""
        ...

    async def close(self) -> None:
        """Let go of what feeds the source."""
        ...
