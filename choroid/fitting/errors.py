"""Errors of measured values: independent noise, and errors that the values of one source share.

A shared error is linear (offset, gain or drift of a probe, calibrator of an analyser), so it is integrated out exactly: the
errors of all observations are one normal distribution with the covariance D + H·Hᵀ, a column of H for each shared error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from choroid.fitting.observations import Observation
from choroid.fitting.series import DAY_S, F8
from protocols.media_filter import SENSOR_LOSS_PER_D
from sim.plant.circulating import SeenColumn

SAME_SHARE = 0.5
"""Part of an assay's standard deviation that all assays of the analyte share (docs/estimation.md) [P]."""
MODEL_REL = 0.01
"""Difference between the light plant and the plant, relative: shared by the values of one source."""
PH_OFFSET, PH_DRIFT_D, PH_NOISE = 0.018, 0.002, 0.006
"""Probe ± 0.012 and gas ± 3 % (docs/estimation.md); drift by a day [P]."""
OXYGEN_OFFSET, OXYGEN_DRIFT_D, OXYGEN_NOISE = 1.2, 0.1, 0.4
"""Per cent of air saturation [P, data sheets of optical and galvanic probes]."""
SENSOR_OFFSET, SENSOR_GAIN, SENSOR_NOISE = 0.15, 0.03, 0.05
"""On-line sensors of metabolites: mM, relative, mM [P]."""
SENSOR_LOSS_SD_D = 0.01
"""Enzyme electrodes lose 1–3 % of their sensitivity a day (10.1021/ac950630x), 2 % on average as the estimator expects."""
ENZYMES = (SeenColumn.LACTATE, SeenColumn.GLUCOSE)


def sensitivity(observations: Sequence[Observation]) -> F8:
    """Return what each observation is expected to show of the true value (0..1): enzyme electrodes lose sensitivity.

    Without it their loss would read as a lower uptake of the tissue.
    """
    lost = [each.at_s / DAY_S if each.kind == "probe" and each.column in ENZYMES else 0.0 for each in observations]
    found: F8 = np.exp(-SENSOR_LOSS_PER_D * np.array(lost))
    return found


def covariance(observations: Sequence[Observation]) -> F8:
    """Return the covariance of the errors of all observations, shape (n, n)."""
    count = len(observations)
    total: F8 = np.zeros((count, count))
    days = np.array([each.at_s for each in observations]) / DAY_S
    values = np.array([each.value for each in observations])
    sources = np.array([each.source for each in observations])
    for source in dict.fromkeys(sources.tolist()):
        own = sources == source
        first = next(each for each in observations if each.source == source)
        sd = np.array([each.sd for each in observations])
        noise, shared = _errors(first, values, days, sd)
        for column in shared:
            masked = np.where(own, column, 0.0)
            total += np.outer(masked, masked)
        total[own, own] += noise[own] ** 2
    return total


def _errors(first: Observation, values: F8, days: F8, sd: F8) -> tuple[F8, list[F8]]:
    """Return the noise of each value, and the shared errors, as if all values were of this source."""
    one = np.ones_like(values)
    if first.kind == "assay":
        common = np.sqrt((SAME_SHARE * sd) ** 2 + (MODEL_REL * values) ** 2)
        return np.sqrt(1.0 - SAME_SHARE**2) * sd, [common]
    if first.kind == "level":
        return sd, []
    if first.column == SeenColumn.PH:
        return PH_NOISE * one, [PH_OFFSET * one, PH_DRIFT_D * days]
    if first.column == SeenColumn.OXYGEN:
        return OXYGEN_NOISE * one, [OXYGEN_OFFSET * one, OXYGEN_DRIFT_D * days]
    return (
        np.sqrt(SENSOR_NOISE**2 + (MODEL_REL * values) ** 2),
        [SENSOR_OFFSET * one, SENSOR_GAIN * values, SENSOR_LOSS_SD_D * days * values],
    )


def whitener(total: F8) -> F8:
    """Return the matrix that makes errors of this covariance independent with standard deviation 1."""
    inverse: F8 = np.linalg.inv(np.linalg.cholesky(total))
    return inverse
