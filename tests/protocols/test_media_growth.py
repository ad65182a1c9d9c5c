"""What the estimator expects before any measurement: growing tissue, errors of instruments, buffers; states of version 4."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from controller.rig.families import PH
from protocols.media_assays import assayed
from protocols.media_filter import moved
from protocols.media_state import (
    GROWTH,
    GROWTH_SD_PER_D,
    PCO2_REL_SD,
    PH_CALIBRATION_SD,
    MediaState,
    begin,
    growth_of,
)
from protocols.soft_sensor import BUFFER_MM_PER_PH, BUFFER_SD_MM_PER_PH
from sim.plant.sensors import USUAL
from tests.protocols.test_media_filter import FRESH, Bath, lived, start


def test_growing_tissue_is_expected_to_make_more_and_more() -> None:
    """Organoids of 2.5 mm: 4 % a day more at first, less as they near their final size; grown ones make no more."""
    young, grown = growth_of(math.pi / 6.0 * 2.5**3), growth_of(40.0)
    assert young == pytest.approx(0.042, abs=0.001)
    assert grown == 0.0
    states = [
        lived(
            begin(
                FRESH,
                FRESH,
                loop_ul=42_000.0,
                spent_ul=3_000.0,
                tissue_mm3=131.0,
                water_ul_d=(0.0, 10.0),
                buffer=(BUFFER_MM_PER_PH, BUFFER_SD_MM_PER_PH),
                growth_per_d=growth,
            ),
            10.0,
        )
        for growth in (young, grown)
    ]
    assert states[0].rate_umol_d / states[1].rate_umol_d == pytest.approx(1.41, abs=0.03)
    assert 0.02 < float(states[0].mean[GROWTH]) < 0.03


def test_growth_is_learnt_from_readings() -> None:
    """Sixteen days of a culture whose rate rises by 5 % a day, looked at by an exact assay each day."""
    bath, state = Bath(rate_umol_d=50.0), start()
    for _ in range(16):
        bath.live(1.0)
        bath.rate_umol_d *= math.exp(0.05)
        state = assayed(lived(state, 1.0), "loop", "lactate_mm", bath.lactate / bath.volume_ml, 0.05)
        bath.renew(17.0)
        state = moved(moved(state, "loop", None, 17_000.0), FRESH, "loop", 17_000.0, complete=True)
    assert float(state.mean[GROWTH]) > 0.5 * GROWTH_SD_PER_D
    assert state.rate_umol_d == pytest.approx(bath.rate_umol_d, rel=0.1)


def test_a_state_of_version_4_is_read() -> None:
    """It lacks the growth of the rates, which is then unknown and zero; everything else is as it was."""
    state = lived(start(), 3.0)
    told = state.to_json()
    lower = np.zeros(state.covariance.shape)
    lower[np.tril_indices(len(told["mean"]))] = told["covariance"]
    told |= {"version": "soft-sensor-4", "mean": told["mean"][:GROWTH]}
    told["covariance"] = lower[:GROWTH, :GROWTH][np.tril_indices(GROWTH)].tolist()
    again = MediaState.from_json(json.loads(json.dumps(told)))
    assert np.array_equal(again.mean[:GROWTH], state.mean[:GROWTH])
    assert np.array_equal(again.covariance[:GROWTH, :GROWTH], state.covariance[:GROWTH, :GROWTH])
    assert (again.mean[GROWTH], again.sd(GROWTH)) == (0.0, GROWTH_SD_PER_D)
    assert lived(again, 1.0).rate_umol_d == pytest.approx(state.rate_umol_d, rel=0.02)


def test_the_filter_expects_the_errors_that_the_simulated_instruments_have() -> None:
    probe = USUAL[PH]
    assert (probe.offset, PH_CALIBRATION_SD, PCO2_REL_SD) == (0.01, 0.01, 0.02)
    media = np.array([0.7, 3.6, 3.9, 7.0, 9.3])
    assert pytest.approx(media.mean(), abs=0.05) == BUFFER_MM_PER_PH
    assert pytest.approx(media.std(ddof=1), abs=0.1) == BUFFER_SD_MM_PER_PH
