"""X6, G17: a control is beaten when the paired interval over the seeds lies above the margin, not when a mean does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from grid.grading.grading import void_by
from grid.grading.interval import paired_interval
from tests.grid.grading.toy import TOY


def test_X6_the_interval_is_that_of_a_paired_t_test() -> None:
    rng = np.random.default_rng(4)
    ones, others = rng.normal(0.7, 0.1, 12), rng.normal(0.5, 0.1, 12)
    theirs = stats.ttest_rel(ones, others).confidence_interval(0.9)
    found = paired_interval(ones.tolist(), others.tolist(), 0.9)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))
    assert found.difference == pytest.approx(float((ones - others).mean()))


def test_X6_one_seed_tells_nothing_and_equal_scores_beat_nothing() -> None:
    assert paired_interval([1.0], [0.0], 0.9).low == -math.inf
    assert paired_interval([0.4, 0.6], [0.4, 0.6], 0.9).low == 0.0
    assert "zero" in void_by(TOY, [1.0], {"zero": [0.0]})


def test_G17_a_mean_above_the_margin_that_one_seed_made_is_void() -> None:
    """The former rule compared means: 0.3 is above the margin of 0.1."""
    assert TOY.controls.margin == 0.1
    scores = [0.5, 0.5, 1.7, 0.5]
    assert np.mean(scores) - 0.5 == pytest.approx(0.3)
    assert "90 % interval of the difference over 4 seeds" in void_by(TOY, scores, {"zero": [0.5] * 4})
    assert void_by(TOY, [0.8, 0.81, 0.79, 0.8], {"zero": [0.5] * 4}) == ""


def test_G17_the_interval_must_lie_above_the_margin_not_above_zero() -> None:
    close = [0.58, 0.6, 0.62, 0.59, 0.61, 0.6]
    assert paired_interval(close, [0.5] * 6, 0.9).low > 0.0
    assert void_by(TOY, close, {"zero": [0.5] * 6}) != ""
