"""Follow the spikes of a running engine and renew the figures of their last minute; never on the real-time thread."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import numpy as np

from nerves.core import Core
from nerves.metrics.figures import SpikeWindow, measure
from nerves.metrics.pairs import cross_correlogram
from nerves.metrics.rolling import RollingSpikes
from nerves.metrics.terms import ArrayMetrics, ElectrodeMetrics

logger = logging.getLogger(__name__)

TAKE_S = 1.0
"""Real time between two readings of the ring of spikes."""
RENEW_EVERY = 5
"""Number of readings between two computations."""
MAX_READ = 65_536


@dataclass(frozen=True, slots=True)
class FollowedMetrics:
    """Figures of the window that ends at a frame."""

    end_frame: int
    array: ArrayMetrics
    electrodes: ElectrodeMetrics


class MetricsFollower:
    """Reads the rings of a core. `latest` has the last figures; None while there are none."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._window = RollingSpikes(core.info.electrodes, core.info.sample_rate_hz)
        self._number = 0
        self._gaps: int | None = None
        self._delivered = 0
        self.latest: FollowedMetrics | None = None

    def window(self) -> SpikeWindow | None:
        """Return the spikes of the window; None while it is too short for figures."""
        return self._window.window() if self._window.sufficient else None

    async def follow(self) -> None:
        """Follow without end; a defect here is logged and ends nothing."""
        while True:
            for _ in range(RENEW_EVERY):
                await asyncio.sleep(TAKE_S)
                self.take()
            try:
                await asyncio.to_thread(self.renew)
            except Exception:
                self.latest = None
                logger.exception("the figures of the spikes could not be computed; trying again")

    def take(self) -> None:
        """Take what came since the last call into the window. Lost spikes or frames begin a new one."""
        core = self._core
        end, gaps, delivered = core.next_frame, core.gaps, core.delivered
        lost, spikes, self._number = core.spikes.read(self._number, MAX_READ)
        if lost or gaps != self._gaps:
            self._window.begin(end)
        else:
            self._window.add(spikes, end, delivered - self._delivered)
        self._gaps, self._delivered = gaps, delivered

    def renew(self) -> None:
        """Compute the figures of the window; in any thread while no other takes."""
        found = self._window.measure(self._core.observed_electrodes())
        self.latest = None if found is None else FollowedMetrics(self._window.end, *found)


def warm_up(sample_rate_hz: float) -> None:
    """Compile (or load from the disk) before the first real frame arrives."""
    frames, who, uv = np.arange(24) * 100, (np.arange(24) % 2).astype(np.int32), np.ones(24, np.float32)
    window = SpikeWindow.of(0, round(30 * sample_rate_hz), frames, who, uv, 2)
    measure(window, sample_rate_hz, np.ones(2, np.bool_))
    cross_correlogram(window.train(0), window.train(1), window.begin, window.end, 100, 10)
