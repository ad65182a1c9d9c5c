"""Debounce: one reading trips and clears nothing, and no sustained hazard waits longer than its interlock says (I1, I9)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.safety.interlocks import watch
from controller.safety.kernel import decide
from controller.safety.terms import Cause, Intent, Interlock, Trip, View, Watch
from drivers.commands import Quality, Run, Switch
from tests.controller.safety.facts import HEART, HEART_PRESSURE, HEATER, LIMITS, NOW_S, TEMPERATURE, Told, peace

RULES = {rule.name: rule for rule in LIMITS.interlocks}
LEVELS = {"temperature": (37.0, 45.0), "over_pressure_heart": (5.0, 90.0), "over_pressure_filter": (1.0, 120.0)}
"""By interlock: a value inside its level, and one beyond."""
PERIOD_S = 2.0


@dataclass
class Life:
    """One point, tick by tick: what is read becomes the newest reading, as the state store keeps it."""

    rule: Interlock
    now_s: float = NOW_S
    memory: Watch = field(default_factory=Watch)
    newest: Told | None = None

    def tick(self, value: float | None, quality: Quality = Quality.GOOD, *, for_s: float = 1.0) -> Trip | None:
        """Read `value` (None: nothing came at this tick), look once, and let `for_s` pass."""
        if value is not None:
            good = self.newest.good if self.newest is not None else None
            at_s = self.now_s
            self.newest = Told(value, quality, at_s, at_s, None if quality is Quality.GOOD else good)
        self.memory = watch(self.view(), LIMITS)
        self.now_s += for_s
        return next((trip for trip in self.memory.trips if trip.interlock == self.rule.name), None)

    def view(self) -> View:
        """What the kernel sees now: this point as it is, everything else at peace and fresh."""
        readings = {
            point: replace(told, at_s=self.now_s, same_since_s=self.now_s)
            for point, told in peace().readings.items()
            if isinstance(told, Told)
        }
        if self.newest is not None:
            readings[self.rule.point] = self.newest
        seen = {name: replace(seen, at_s=self.now_s) for name, seen in peace().seen.items()}
        return replace(peace(), now_s=self.now_s, readings=readings, seen=seen, watch=self.memory)


every_interlock = pytest.mark.parametrize("name", sorted(LEVELS))


@every_interlock
def test_I9_every_interlock_on_a_level_has_a_debounce_that_ends_within_seconds(name: str) -> None:
    assert 0.0 < RULES[name].debounce_s <= 5.0


@every_interlock
def test_I9_one_corrupted_reading_trips_nothing(name: str) -> None:
    life, (inside, beyond) = Life(RULES[name]), LEVELS[name]
    assert life.tick(inside) is None
    assert life.tick(beyond, for_s=0.5) is None
    assert life.tick(inside) is None
    assert life.memory == Watch()


@every_interlock
def test_I1_a_second_reading_confirms_the_first(name: str) -> None:
    life, (inside, beyond) = Life(RULES[name]), LEVELS[name]
    life.tick(inside)
    assert life.tick(beyond, for_s=0.5) is None
    trip = life.tick(beyond)
    assert trip is not None
    assert trip.cause is Cause.HIGH


@every_interlock
def test_I9_suspect_readings_count_against_the_rig_and_never_for_it(name: str) -> None:
    life, (inside, beyond) = Life(RULES[name]), LEVELS[name]
    life.tick(inside)
    assert life.tick(beyond, Quality.SUSPECT, for_s=0.5) is None
    assert life.tick(beyond, Quality.SUSPECT) is not None
    for _ in range(3):
        assert life.tick(inside, Quality.SUSPECT, for_s=0.5) is not None


@every_interlock
def test_I9_one_corrupted_reading_clears_nothing(name: str) -> None:
    life, (inside, beyond) = Life(RULES[name]), LEVELS[name]
    life.tick(inside)
    for _ in range(4):
        life.tick(beyond)
    trip = life.tick(inside)
    assert trip is not None
    assert trip.present
    trip = life.tick(beyond)
    assert trip is not None
    assert trip.present
    life.tick(inside)
    trip = life.tick(inside)
    assert trip is None or not trip.present


@every_interlock
def test_I1_a_reading_that_nothing_follows_trips_when_its_time_is_over(name: str) -> None:
    """The link dies at the very moment: what was seen last counts."""
    life, (inside, beyond) = Life(RULES[name]), LEVELS[name]
    life.tick(inside)
    life.tick(beyond, Quality.SUSPECT, for_s=RULES[name].debounce_s)
    assert life.tick(None) is not None


@every_interlock
def test_I9_a_lost_sensor_is_no_matter_of_one_reading_in_either_direction(name: str) -> None:
    life, (inside, _) = Life(RULES[name]), LEVELS[name]
    life.tick(inside, for_s=RULES[name].stale_s + 1.0)
    trip = life.tick(None)
    assert trip is not None
    assert trip.cause is Cause.DOUBT
    trip = life.tick(inside)
    assert trip is not None
    assert trip.cause is Cause.DOUBT
    assert life.tick(inside) is None


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_I1_no_sustained_hazard_waits_longer_than_its_interlock_says(data: st.DataObject) -> None:
    """Whatever came before, whatever fails meanwhile: beyond for `debounce_s` and one tick, and it has tripped."""
    name = data.draw(st.sampled_from(sorted(LEVELS)))
    inside, beyond = LEVELS[name]
    life = Life(RULES[name])
    ticks = st.tuples(st.sampled_from([inside, beyond, nan, None]), st.sampled_from([Quality.GOOD, Quality.SUSPECT]))
    for value, quality in data.draw(st.lists(ticks, max_size=8)):
        life.tick(value, quality)
    began_s = life.now_s
    life.tick(beyond, data.draw(st.sampled_from([Quality.GOOD, Quality.SUSPECT])))
    worse = st.sampled_from(
        [(beyond, Quality.GOOD), (beyond, Quality.SUSPECT), (None, Quality.GOOD), (inside, Quality.SUSPECT)]
    )
    while life.now_s - began_s <= RULES[name].debounce_s + 1.0:
        trip = life.tick(*data.draw(worse))
    assert trip is not None


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_I9_single_corrupted_readings_trip_nothing_however_many(data: st.DataObject) -> None:
    """Between two of them lies a good reading, and none of them stays the newest for as long as the debounce."""
    name = data.draw(st.sampled_from(sorted(LEVELS)))
    inside, beyond = LEVELS[name]
    life = Life(RULES[name])
    soon_s = RULES[name].debounce_s / 2.0
    for quality in data.draw(st.lists(st.sampled_from([Quality.GOOD, Quality.SUSPECT]), min_size=1, max_size=10)):
        assert life.tick(inside, for_s=soon_s) is None
        assert life.tick(beyond, quality, for_s=soon_s) is None


def test_I9_what_is_not_confirmed_yet_lets_nothing_begin() -> None:
    """No trip so far: what runs goes on. But no new pulse, and no more flow, is let through meanwhile."""
    life = Life(RULES["temperature"])
    life.tick(45.0, Quality.GOOD, for_s=0.1)
    verdict = decide(Intent(HEATER, Switch(True, 10.0), "test", "a test"), life.view(), LIMITS)
    assert not verdict.accepted
    assert "not confirmed yet" in (verdict.limiting or "")
    pressed = Life(RULES["over_pressure_heart"])
    pressed.tick(90.0, Quality.GOOD, for_s=0.1)
    assert not decide(Intent(HEART, Run(2000.0), "test", "a test"), pressed.view(), LIMITS).accepted
    assert (life.rule.point, pressed.rule.point) == (TEMPERATURE, HEART_PRESSURE)
