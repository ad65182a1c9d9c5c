"""The organoid's own baseline: robust, slow to fall, and deaf while something is wrong."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.baseline import FALL_PER_D, MIN_SPREAD, WARM_UP_H, WINDOW_H, Baseline, Norm


def fed(values: list[float], begin: int = 0, baseline: Baseline | None = None) -> tuple[Baseline, int]:
    made, hour = baseline or Baseline(), begin
    for value in values:
        made, _ = made.taken(hour, value)
        hour += 1
    return made, hour


def norm(baseline: Baseline, hour: int) -> Norm:
    found = baseline.norm(hour)
    assert found is not None
    return found


def test_no_norm_while_warming_up() -> None:
    young, hour = fed([3.0] * (WARM_UP_H - 1))
    assert young.norm(hour) is None
    grown, hour = fed([3.0], hour, young)
    assert norm(grown, hour) == Norm(3.0, MIN_SPREAD, WARM_UP_H)


def test_one_bad_hour_in_three_moves_nothing() -> None:
    made, hour = fed([3.0, 3.1, 90.0] * 20)
    assert norm(made, hour).value == pytest.approx(3.1)


def test_an_hour_with_an_alarm_or_a_fall_by_half_is_left_out() -> None:
    made, hour = fed([4.0] * 10)
    same, why = made.taken(hour, 4.0, "no_heart_flow:reglo.heart")
    assert (same, why) == (made, "no_heart_flow:reglo.heart")
    same, why = made.taken(hour, 1.9)
    assert same is made
    assert "under 50" in why


def test_a_slow_death_does_not_become_the_norm() -> None:
    """5 % a day for three weeks: a mere median of a week would still call it 84 % of usual at the end."""
    made, hour = fed([4.0] * 48)
    value = 4.0
    ratios = []
    for _ in range(21 * 24):
        value *= 0.95 ** (1 / 24)
        made, _ = made.taken(hour, value)
        hour += 1
        ratios.append(norm(made, hour).ratio(value))
    assert ratios[-1] < 0.55
    daily = ratios[24::24]
    assert daily == sorted(daily, reverse=True)


def test_ageing_is_followed() -> None:
    """1.5 % a day, as activity declines over weeks: stays within a tenth of usual."""
    made, hour = fed([4.0] * 48)
    value = 4.0
    for _ in range(30 * 24):
        value *= 0.985 ** (1 / 24)
        made, _ = made.taken(hour, value)
        hour += 1
    assert norm(made, hour).ratio(value) > 0.9


def test_growth_is_followed_within_the_window() -> None:
    made, hour = fed([4.0] * 48)
    made, hour = fed([6.0] * WINDOW_H, hour, made)
    assert norm(made, hour).value == 6.0


def test_silence_has_no_norm_and_a_z_of_minus_infinity() -> None:
    made, hour = fed([0.0] * 24)
    assert made.norm(hour) is None
    lively, hour = fed([4.0] * 24)
    assert norm(lively, hour).z(0.0) == -math.inf
    assert norm(lively, hour).z(4.0) == 0.0
    assert norm(lively, hour).z(4.0 * math.exp(MIN_SPREAD)) == pytest.approx(1.0)


@given(st.lists(st.floats(0.01, 100.0), min_size=WARM_UP_H, max_size=80))
def test_the_norm_never_falls_faster_than_allowed(values: list[float]) -> None:
    made = Baseline()
    before: tuple[int, float] | None = None
    for hour, value in enumerate(values):
        made, left_out = made.taken(hour, value)
        found = made.norm(hour)
        if found is not None and not left_out:
            if before is not None:
                allowed = before[1] * (1 - FALL_PER_D) ** ((hour - before[0]) / 24)
                assert found.value >= allowed * (1 - 1e-9)
            before = (hour, found.value)
    assert len(made.hours) <= WINDOW_H
