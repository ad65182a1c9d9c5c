"""Steps of a pump's speed: which flows there are next to one that it cannot give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.commands import FLOW_TOLERANCE
from drivers.flow_steps import FlowSteps

STEPS = FlowSteps(1000.0, 10_400.0)


@pytest.mark.parametrize(
    ("flow", "near"),
    [
        (1437.0, (1000.0, 2000.0)),
        (1700.0, (2000.0, 1000.0)),
        (-1437.0, (-1000.0, -2000.0)),
        (2000.0, (2000.0,)),
        (2030.0, (2030.0,)),  # 1.5 % from 2000: as good as it
        (2050.0, (2000.0, 3000.0)),
        (3.0, (1000.0,)),  # there is nothing below the first step
        (10_390.0, (10_000.0,)),  # nor above the last
        (10_150.0, (10_150.0,)),
        (10_500.0, (10_500.0,)),  # not a matter of steps: the pump's bounds refuse it
        (0.0, (0.0,)),
        (float("inf"), (float("inf"),)),
    ],
)
def test_the_flows_next_to_one_between_two_steps(flow: float, near: tuple[float, ...]) -> None:
    assert STEPS.near(flow) == near


@pytest.mark.parametrize(
    ("flow", "most", "given_ul_min"),
    [(1700.0, 10_000.0, 2000.0), (1700.0, 1900.0, 1000.0), (1700.0, 900.0, 1700.0), (-1700.0, 1900.0, -1000.0)],
)
def test_the_nearest_is_never_above_what_is_allowed(flow: float, most: float, given_ul_min: float) -> None:
    assert STEPS.nearest(flow, most) == given_ul_min


def test_what_is_said_of_a_flow_between_two_steps() -> None:
    assert STEPS.too_coarse(2000.0) is None
    what, action = STEPS.too_coarse(-1700.0) or ("", "")
    assert what == "-1700 µL/min lies between its steps; next to it there is -1000 or -2000"
    assert action.startswith("ask for -1000 or -2000 µL/min")


@given(st.floats(0.01, 1e4), st.integers(1, 5000), st.floats(0.0, 1.0))
def test_the_nearest_can_be_had_and_stays_what_it_is(step: float, count: int, share: float) -> None:
    steps = FlowSteps(step, count * step)
    flow = max(1e-6, share * steps.max_ul_min)
    nearest = steps.nearest(flow)
    told = steps.count(nearest) * step
    assert told == pytest.approx(nearest, rel=FLOW_TOLERANCE * 1.001)
    assert steps.nearest(nearest) == nearest
    assert abs(told - flow) <= step * 1.001
    assert told <= steps.max_ul_min + 0.5 * step
