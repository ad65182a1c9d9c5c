"""The live feed in the form of patches: applied in order they give the whole state, in a fraction of the bytes."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.auth import Role
from dashboards.feed import PERIOD_S, QUEUE_MESSAGES, SLOW_EVERY
from dashboards.feed_changes import patch
from tests.dashboards.world import World, world

pytestmark = pytest.mark.virtual_time
APART = {"n", "gone", "whole", "spikes"}


def applied(before: Any, change: Any) -> Any:
    """What the documentation says that a client does."""
    if not (isinstance(before, dict) and isinstance(change, dict)):
        return change
    return {**before, **{name: applied(before.get(name), value) for name, value in change.items()}}


def after(state: dict[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    """The state after a message."""
    parts = {name: value for name, value in message.items() if name not in APART}
    if message.get("whole"):
        return parts
    found: dict[str, Any] = json.loads(json.dumps(applied(state, parts)))
    for *path, name in message.get("gone", ()):
        inner = found
        for each in path:
            inner = inner[each]
        del inner[name]
    return found


def move(w: World, number: int) -> None:
    """Change what a rig changes: readings, a lost device, a command, an alarm that comes and goes."""
    rig = w.controller
    rig.failing = {"ph_loop.ph": f"no reply {number}"} if number % 3 == 1 else {}
    rig.lost = {"reglo.draw": "no reply"} if number % 4 == 2 else {}
    if number == 3:
        rig.alarms.event("device_lost", "ph_spent", "no reply")
    rig.tick()


def close(one: Any, other: Any) -> bool:
    """Equal but for the rounding of numbers."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(close(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-5, abs_tol=5.1e-3)
    return bool(one == other)


async def test_patches_in_order_give_the_whole_state() -> None:
    async with world() as w, w.socket(Role.VIEWER, form="patch") as page:
        state: dict[str, Any] = {}
        spikes: list[list[float]] = []
        for number in range(3 * SLOW_EVERY):
            message = await page.body()
            assert message["n"] == number + 1
            assert message.get("whole", False) == (number == 0)
            state = after(state, message)
            spikes += message.get("spikes", [])
            move(w, number)
        async with w.socket(Role.VIEWER, form="patch") as other:
            whole = await other.body()
            last: dict[str, Any] = {}
            while last.get("n", 0) < whole["n"]:
                last = await page.body()
                state = after(state, last)
        expected = {name: value for name, value in whole.items() if name not in APART}
        assert close(state, expected)
        assert len(spikes) == len({tuple(each) for each in spikes})


async def test_a_patch_is_small_and_the_form_without_it_is_as_it_was() -> None:
    async with world() as w, w.socket(Role.VIEWER) as old, w.socket(Role.VIEWER, form="patch") as new:
        sizes = {"old": 0, "new": 0}
        assert "n" not in await old.body()
        await new.body()
        for number in range(4 * SLOW_EVERY):
            w.controller.tick()
            whole_entries, members = await old.body(), await new.body()
            assert "n" not in whole_entries
            assert "gone" not in whole_entries
            if number:
                assert all("unit" in each for each in whole_entries.get("readings", {}).values())
                assert all("unit" not in each for each in members.get("readings", {}).values())
            sizes["old"] += len(json.dumps({**whole_entries, "spikes": []}))
            sizes["new"] += len(json.dumps({**members, "spikes": []}))
        assert sizes["new"] < 0.4 * sizes["old"]


async def test_a_slow_page_is_given_the_whole_state_again() -> None:
    async with world() as w, w.socket(Role.VIEWER, form="patch") as slow, w.socket(Role.VIEWER, form="patch") as quick:
        await slow.body()
        await quick.body()
        slow.may_take.clear()
        for number in range(3 * QUEUE_MESSAGES):
            move(w, number)
            state = await quick.body()
        slow.may_take.set()
        message = await slow.body()
        while not message.get("whole"):
            message = await slow.body()
        assert message["n"] >= state["n"]


async def test_a_defect_leaves_no_gap_that_a_page_does_not_see() -> None:
    async with world() as w, w.socket(Role.VIEWER, form="patch") as page:
        await page.body()
        state = w.controller.store.state
        w.controller.store.state = None  # type: ignore[assignment]
        await asyncio.sleep(2 * PERIOD_S)
        w.controller.store.state = replace(state, at_s=state.at_s + 7.0)
        while not (message := await page.body()).get("whole"):
            pass
        assert message["at_s"] == pytest.approx(state.at_s + 7.0, abs=0.01)


async def test_an_unknown_form_is_refused_with_the_reason() -> None:
    async with world() as w, w.socket(Role.VIEWER, form="xml") as page:
        assert "form=patch" in (await page.body())["error"]["action"]
        assert (await page.next())["code"] == 4422


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)
STATES = st.dictionaries(st.sampled_from(["readings", "run", "alarms"]), JSON, max_size=3)


@given(STATES, STATES)
def test_a_patch_of_any_two_states_leads_from_one_to_the_other(before: dict[str, Any], now: dict[str, Any]) -> None:
    found = after(before, patch(before, now))
    assert found == {**before, **now}


def test_numbers_are_rounded_and_what_changes_less_is_left_out() -> None:
    before = {"readings": {"a": {"value": 1.00000011, "at_s": 12345.671}}, "volumes": {"b": {"ul": 1e5}}}
    now = {"readings": {"a": {"value": 1.00000049, "at_s": 12345.6789}}, "volumes": {"b": {"ul": 123456.78}}}
    assert patch(before, now) == {"readings": {"a": {"at_s": 12345.68}}, "volumes": {"b": {"ul": 123457.0}}}
    assert patch(now, now) == {}
