"""The time without a new evaluation of the interlocks: whatever the view, a skipped evaluation would have changed nothing."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.safety.interlocks import watch
from controller.safety.quiet import QUIET, quiet_until_s
from controller.safety.terms import Seen, View
from drivers.commands import Quality
from tests.controller.safety.facts import CO2, HEART, HEART_PRESSURE, NOW_S, TEMPERATURE
from tests.controller.safety.worlds import ANY_RIG, WORLDS, reading, views

FACTORY = WORLDS["one heart"]


def until_s(view: View) -> float:
    return quiet_until_s(view, watch(view, FACTORY.limits), FACTORY.limits)


@settings(deadline=None, max_examples=300)
@ANY_RIG
@given(data=st.data())
def test_a_skipped_evaluation_would_have_repeated_the_last_one(name: str, data: st.DataObject) -> None:
    world = WORLDS[name]
    view = replace(data.draw(views(world)), underway=())
    memory = watch(view, world.limits)
    quiet_s = quiet_until_s(view, memory, world.limits)
    for now_s in data.draw(st.lists(st.floats(NOW_S, NOW_S + 2000.0), max_size=5)) + [min(quiet_s, NOW_S + 2e4) - 1e-6]:
        if NOW_S <= now_s < quiet_s:
            assert watch(replace(view, now_s=now_s, watch=memory), world.limits) == memory == QUIET


def test_a_rig_at_peace_is_quiet_until_its_first_reading_becomes_stale() -> None:
    calm = FACTORY.calm
    quiet_s = until_s(calm)
    assert NOW_S < quiet_s < inf
    later = replace(calm, now_s=quiet_s + 0.1, watch=watch(calm, FACTORY.limits))
    assert watch(later, FACTORY.limits) != QUIET  # it is not evaluated more often than necessary


@pytest.mark.parametrize(
    "view",
    [
        FACTORY.reads(HEART_PRESSURE, reading(70.0)),
        FACTORY.reads(TEMPERATURE, replace(reading(37.0, "degC"), quality=Quality.MISSING)),
        FACTORY.reads(TEMPERATURE, reading(37.0, "degC", at_s=NOW_S + 0.5)),
        FACTORY.reads(CO2, reading(40.0, "mL/min")),
        replace(FACTORY.calm, seen={**FACTORY.seen, HEART: Seen(False, 0.0, NOW_S)}),
        replace(FACTORY.calm, bypassed=frozenset({"temperature"})),
    ],
    ids=["pressure", "no good reading", "from the future", "too much CO2", "heart stands", "bypass"],
)
def test_anything_but_peace_is_evaluated_at_each_tick(view: View) -> None:
    assert until_s(view) == -inf
