"""The figures of spike trains equal those of elephant on the same trains, the degenerate ones included."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import elephant.spike_train_correlation as correlation
import elephant.statistics as statistics
import neo
import numpy as np
import pytest
import quantities as pq
from elephant.conversion import BinnedSpikeTrain
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nerves.metrics.intervals import Train, cv, cv2, fano, lv, lvr
from nerves.metrics.pairs import cross_correlogram, mean_sttc, sttc

END = 20_000
"""Frames of 1 ms. elephant's tolerance grows by 0.00001 of the time: on whole frames this changes nothing here."""
REFRACTORY = 5
EQUAL = pytest.approx


def train(values: list[int]) -> Train:
    return np.array(sorted(values), np.int64)


trains = st.lists(st.integers(0, END - 1), max_size=60, unique=True).map(train)
"""With empty trains and single spikes; one electrode has no two spikes in one frame."""
tied = st.lists(st.integers(0, 60), max_size=40).map(train)
"""Spikes in the same frame, and dense ones."""
any_train = trains | tied


def neo_train(frames: Train, end: int = END) -> neo.SpikeTrain:
    return neo.SpikeTrain(frames.astype(float), units="ms", t_stop=float(end))


def same(mine: float, theirs: float) -> None:
    assert (math.isnan(mine) and math.isnan(theirs)) or mine == EQUAL(theirs, rel=1e-9, abs=1e-9)


def quietly(compute: Callable[[], float]) -> float:
    """elephant divides 0 by 0 where intervals are zero, with a warning of NumPy."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return float(compute())


@settings(max_examples=200, deadline=None)
@example(train([]))
@example(train([7]))
@example(train([7, 7, 7]))
@given(any_train)
def test_N8_variation_of_intervals_is_that_of_elephant(frames: Train) -> None:
    intervals = np.diff(frames).astype(float)
    same(cv(frames), quietly(lambda: statistics.cv(intervals) if len(intervals) else math.nan))
    same(cv2(frames), quietly(lambda: statistics.cv2(intervals, with_nan=True)))
    same(lv(frames), quietly(lambda: statistics.lv(intervals, with_nan=True)))
    theirs = quietly(lambda: statistics.lvr(intervals * pq.ms, R=REFRACTORY * pq.ms, with_nan=True))
    same(lvr(frames, float(REFRACTORY)), theirs)


@settings(max_examples=100, deadline=None)
@example(train([]), 1000)
@example(train([5]), 3000)
@given(any_train, st.integers(1, 7000))
def test_N8_the_fano_factor_is_that_of_elephant_over_the_bins_as_trials(frames: Train, width: int) -> None:
    bins = min(END // width, 500)
    end = bins * width
    trials = [frames[(frames >= k * width) & (frames < (k + 1) * width)].astype(float) for k in range(bins)]
    same(fano(frames, 0, end, width), quietly(lambda: statistics.fanofactor(trials)))
    rest = width - 1
    assert not rest or fano(frames, 0, end + rest, width) == EQUAL(fano(frames, 0, end, width), nan_ok=True)


@settings(max_examples=200, deadline=None)
@example(train([0]), train([END - 1]), 1)
@example(train([100, 200]), train([100, 200]), 10_000)
@example(train([3]), train([13]), 10)
@given(any_train, any_train, st.integers(1, 300))
def test_N8_the_spike_time_tiling_coefficient_is_that_of_elephant(first: Train, second: Train, within: int) -> None:
    theirs = correlation.spike_time_tiling_coefficient(neo_train(first), neo_train(second), dt=within * pq.ms)
    same(sttc(first, second, 0, END, float(within)), float(theirs))


def test_N8_the_mean_over_pairs_is_that_of_the_pairs() -> None:
    rng = np.random.default_rng(3)
    several = [train(list(set(rng.integers(0, END, size).tolist()))) for size in (40, 80, 5, 120)]
    offsets = np.cumsum([0, *(len(each) for each in several)]).astype(np.int64)
    chosen = np.array([0, 1, 3])
    pairs = [
        float(correlation.spike_time_tiling_coefficient(neo_train(several[i]), neo_train(several[j]), dt=20 * pq.ms))
        for i, j in ((0, 1), (0, 3), (1, 3))
    ]
    found = mean_sttc(np.concatenate(several), offsets, chosen, 0, END, 20.0)
    assert found == EQUAL((np.mean(pairs), np.std(pairs)), rel=1e-9)
    assert all(math.isnan(each) for each in mean_sttc(np.concatenate(several), offsets, chosen[:1], 0, END, 20.0))


@settings(max_examples=60, deadline=None)
@example(train([]), train([4]), 5, 3)
@example(train([4, 4, 9]), train([4, 9, 9]), 5, 1)
@given(any_train, any_train, st.sampled_from([1, 2, 5, 10, 40]), st.integers(1, 100))
def test_N8_the_cross_correlation_histogram_is_that_of_elephant(
    reference: Train, target: Train, width: int, max_lag: int
) -> None:
    theirs, lags = histogram(reference, target, width, max_lag)
    mine = cross_correlogram(reference, target, 0, END, width, max_lag)
    assert lags.tolist() == list(range(-max_lag, max_lag + 1))
    assert mine.tolist() == theirs.ravel().tolist()


def histogram(reference: Train, target: Train, width: int, max_lag: int) -> tuple[np.ndarray, np.ndarray]:
    """elephant's, without its warnings of what other packages will change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        binned = [
            BinnedSpikeTrain(neo_train(each), bin_size=width * pq.ms, t_start=0 * pq.ms, t_stop=END * pq.ms)
            for each in (reference, target)
        ]
        theirs, lags = correlation.cross_correlation_histogram(*binned, window=[-max_lag, max_lag], method="memory")
    return np.asarray(theirs.magnitude), np.asarray(lags)


def test_N8_a_later_target_has_a_positive_lag_and_what_lies_outside_whole_bins_is_left_out() -> None:
    found = cross_correlogram(train([100, 995]), train([130, 995]), 0, 999, 10, 5)
    assert found.tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]
