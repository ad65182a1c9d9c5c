"""Recordings of simulated laboratories, as files that `organoid-lm` learns from: spikes and pulses of organoids of their own.

A recording alternates between 90 s of spontaneous activity and a minute of trials like those of `decode-stimulus`, on all
electrodes that can be stimulated. It begins two minutes into the life of the organoid, so that it holds nothing of the
episodes of `held-out-spikes`, which are its first 65 s.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from grid.tasks.spikes import biphasic
from sim.neurons.spike_array import SpikeArray

BEGIN_S = 120.0
QUIET_S, TRIALS_S = 90.0, 60.0
REST_S = (0.25, 0.5)
"""Range of the time from one pulse to the next."""
CURRENT_UA = 1.0
PITCH_UM = 200.0


def recorded(
    organoid: str, seed: int, seconds: float, *, electrodes: int = 16, begin_s: float = BEGIN_S
) -> dict[str, NDArray[Any]]:
    """Record an organoid; return the arrays of its file (docs/organoid-lm.md).

    Args:
        organoid: Its name, for the file.
        seed: Of the specimen, and of the order of trials.
        seconds: How long.
        electrodes: Of its array.
        begin_s: When its recording begins (s of its life).
    """
    tissue = SpikeArray(electrodes, seed)
    tissue.advance(begin_s)
    rng = np.random.default_rng([seed, 0x4EC0])
    sites = np.array(tissue.usable())
    pulse = biphasic(CURRENT_UA)
    which: list[NDArray[np.int32]] = []
    when: list[NDArray[np.float64]] = []
    pulse_electrode: list[int] = []
    pulse_at_s: list[float] = []
    start_s = tissue.now_s

    def passing(span_s: float, site: int | None = None) -> None:
        electrode, at_s = tissue.advance(span_s, [] if site is None else [(0.0, site, pulse)])
        which.append(electrode)
        when.append(at_s - start_s)

    while (left_s := seconds - (tissue.now_s - start_s)) > 1e-6:
        passing(min(QUIET_S, left_s))
        until_s = min(tissue.now_s - start_s + TRIALS_S, seconds)
        while tissue.now_s - start_s + REST_S[1] <= until_s:
            site = int(rng.choice(sites))
            pulse_electrode.append(site)
            pulse_at_s.append(tissue.now_s - start_s)
            passing(float(rng.uniform(*REST_S)), site)
        if (rest_s := until_s - (tissue.now_s - start_s)) > 1e-6:
            passing(rest_s)
    columns = int(np.ceil(np.sqrt(electrodes)))
    grid = np.arange(electrodes)
    return {
        "organoid": np.array(organoid),
        "seconds": np.array(tissue.now_s - start_s),
        "place_um": np.stack([grid % columns, grid // columns], axis=1) * PITCH_UM,
        "electrode": np.concatenate(which),
        "at_s": np.concatenate(when),
        "pulse_electrode": np.array(pulse_electrode, np.int32),
        "pulse_at_s": np.array(pulse_at_s, np.float64),
    }
