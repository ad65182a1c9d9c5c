"""Histograms around pulses against a count frame by frame."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2

from nerves import responses
from nerves.detections import UNOBSERVED, Spikes, StimulatedFrame
from nerves.detector import NO_SPIKES
from nerves.mutes import NOTHING
from nerves.psth import histogram
from nerves.responses import LatestResponses
from nerves.ring import SpikeRing

RATE_HZ = 10_000.0


def test_N8_a_histogram_counts_each_frame_once_and_hidden_time_not_at_all() -> None:
    rng = np.random.default_rng(5)
    frames, electrodes, end = np.sort(rng.integers(0, 20_000, 3000)), rng.integers(0, 3, 3000), 20_000
    pulses = rng.integers(1_000, 19_000, 30)
    first = rng.integers(0, end, 60)
    rows = np.zeros(60, UNOBSERVED)
    rows["first_frame"], rows["end_frame"] = first, first + rng.integers(1, 300, 60)
    rows["electrode"] = rng.integers(-1, 3, 60)
    spikes = Spikes(frames, electrodes.astype(np.int32), np.zeros(3000, np.float32))
    found = histogram(np.append(pulses, pulses[0]), spikes, rows, 3, RATE_HZ, (-20.0, 30.0), 2.0)
    assert found.trials == 30
    assert found.edges_ms.tolist() == list(range(-20, 31, 2))
    for electrode in range(3):
        seen = np.ones(end, bool)
        for row in rows[np.isin(rows["electrode"], (-1, electrode))]:
            seen[row["first_frame"] : row["end_frame"]] = False
        count = np.bincount(frames[electrodes == electrode], minlength=end) * seen
        for k in range(25):
            bins = [slice(p - 200 + 20 * k, p - 180 + 20 * k) for p in pulses]
            assert found.counts[electrode, k] == sum(count[each].sum() for each in bins)
            assert found.observed_s[electrode, k] * RATE_HZ == pytest.approx(sum(seen[each].sum() for each in bins))


def test_a_baseline_has_the_interval_of_a_poisson_count_and_an_unobserved_one_none() -> None:
    train = np.array([900, 910, 950, 2_400])
    hidden = np.array([(0, 10_000, 1, 0)], UNOBSERVED)
    spikes = Spikes(train, np.zeros(4, np.int32), np.zeros(4, np.float32))
    found = histogram(np.array([1_000]), spikes, hidden, 2, RATE_HZ, (-50.0, 100.0))
    assert found.baseline_hz[0] == pytest.approx(3 / 0.05)
    exact = chi2.ppf(0.025, 6) / 2 / 0.05, chi2.ppf(0.975, 8) / 2 / 0.05
    assert found.baseline_interval_hz[0] == pytest.approx(exact, rel=0.03)
    assert np.isnan(found.baseline_hz[1])
    assert np.isnan(found.baseline_interval_hz[1]).all()
    with pytest.raises(ValueError, match="cannot be counted"):
        histogram(train, spikes, hidden, 2, RATE_HZ, (0.0, 10.0), 0.05)


@pytest.mark.parametrize(
    ("begin", "end", "bin_ms"),
    [
        *((-math.inf, 10.0, 1.0), (0.0, math.nan, 1.0), (-1e300, 1e300, 1.0), (-1e8, 1e8, 1.0)),
        *((0.0, 10.0, math.inf), (0.0, 10.0, math.nan), (0.0, 10.0, -1.0), (10.0, -10.0, 1.0)),
    ],
)
def test_a_window_that_no_machine_can_hold_is_refused_with_the_reason(begin: float, end: float, bin_ms: float) -> None:
    with pytest.raises(ValueError, match="cannot be counted"):
        histogram(np.array([5]), NO_SPIKES, NOTHING, 1, RATE_HZ, (begin, end), bin_ms)


def test_the_frame_from_which_pulses_are_counted_is_that_of_the_first_that_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(responses, "MAX_PULSES", 4)
    latest = LatestResponses(SpikeRing(16), RATE_HZ, 10, lambda: NOTHING)
    for number in range(6):
        frame = 1_000 * (1 + number)
        latest.add([StimulatedFrame(frame, ((0, 1e-3),), "one")], NOTHING, frame + 1_000)
        found, since = latest.of(0, (), 300.0, frame + 1_000, (-10.0, 50.0), 1.0)
        assert found.trials == min(number + 1, 4)
        assert since == (100 if number < 3 else frame - 3_000)
