"""The course of a series: every number against one reckoned by hand or by the plain definition."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from controller.figures.course import Band, course
from tests.figures.bench import BEGIN, DAY_S, WIDTH, Point, course_of, steady, stretches


def test_mean_spread_and_extremes_of_a_whole_day() -> None:
    rng = random.Random(5)
    points = [(at, rng.gauss(37.0, 0.3)) for at, _ in steady(0.0, 2.0)]
    made = course_of("t", points, 2.0)
    means = [fmean(value for _, value in points[i : i + 60]) for i in range(0, len(points), 60)]
    assert made.n == 43_200
    assert made.mean == pytest.approx(fmean(value for _, value in points))
    assert made.sd == pytest.approx(math.sqrt(fmean((mean - made.mean) ** 2 for mean in means)))
    assert (made.least, made.most) == (min(value for _, value in points), max(value for _, value in points))
    assert made.coverage == pytest.approx(1.0)
    assert made.gaps == ()
    assert made.rms_from(36.0) == pytest.approx(math.sqrt(fmean((mean - 36.0) ** 2 for mean in means)))


def test_a_gap_is_missing_time_and_not_a_value() -> None:
    points = [point for point in steady(10.0, 5.0) if not BEGIN + 3600 <= point[0] < BEGIN + 3600 + 6 * 3600]
    made = course_of("x", points, 5.0)
    assert made.coverage == pytest.approx(18 / 24)
    assert made.mean == pytest.approx(10.0)
    assert made.gaps == ((BEGIN + 3600, BEGIN + 7 * 3600),)
    assert not [slot for slot in made.slots if BEGIN + 3800 < slot.at < BEGIN + 7 * 3600 - 200]


def test_a_gap_at_either_end_is_a_gap() -> None:
    points = [point for point in steady(1.0, 60.0) if BEGIN + 7200 <= point[0] < BEGIN + 10_800]
    made = course_of("x", points, 60.0)
    assert made.gaps == ((BEGIN, BEGIN + 7200), (BEGIN + 10_800, BEGIN + DAY_S))
    assert made.coverage == pytest.approx(1 / 24)


def test_half_of_the_readings_missed_is_half_covered_and_weighs_half() -> None:
    every_other = [point for number, point in enumerate(steady(0.0, 2.0)) if number % 2 == 0]
    points: list[Point] = [
        (at, 5.0 if at < BEGIN + DAY_S / 2 else 8.0) for at, _ in every_other if at < BEGIN + DAY_S / 2
    ]
    points += [(at, 8.0) for at, _ in steady(0.0, 2.0) if at >= BEGIN + DAY_S / 2]
    made = course_of("x", points, 2.0)
    assert made.coverage == pytest.approx(0.75)
    assert made.mean == pytest.approx((5.0 * 0.5 + 8.0 * 1.0) / 1.5)


def test_time_out_of_band_is_a_share_of_the_time_that_is_known() -> None:
    points = [(at, 37.0 if at < BEGIN + 18 * 3600 else 38.0) for at, _ in steady(0.0) if at < BEGIN + 20 * 3600]
    made = course_of("t", points, 60.0, Band(36.8, 37.2))
    assert made.out_s == pytest.approx(2 * 3600)
    assert made.out_share == pytest.approx(0.1)


def test_no_reading_is_no_course() -> None:
    assert course("x", "", [], begin=BEGIN, end=BEGIN + DAY_S, width=WIDTH, every_s=5.0) is None


def test_a_plot_keeps_every_peak_and_no_more_points_than_asked() -> None:
    points = steady(1.0, 5.0)
    points[8640] = (points[8640][0], 99.0)
    made = course("x", "", stretches(points), begin=BEGIN, end=BEGIN + DAY_S, width=WIDTH, every_s=5.0, slots=50)
    assert made is not None
    assert len(made.slots) <= 51
    assert max(slot.most for slot in made.slots) == 99.0


def test_a_stretch_that_reaches_over_the_period_counts_only_within() -> None:
    begin, end = BEGIN + 30.0, BEGIN + 270.0
    points = [(BEGIN + second, 1.0) for second in range(0, 360, 5)]
    made = course("x", "", stretches(points), begin=begin, end=end, width=WIDTH, every_s=5.0)
    assert made is not None
    assert made.covered_s == pytest.approx(240.0)
