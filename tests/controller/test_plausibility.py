"""What a reading is worth: bounds from rig and physics, jumps and how they are confirmed (I2, I9)."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.state import ActuatorView, StateStore
from controller.readings.plausibility import MAX_TROUBLE, Plausibility, bounds_of, reach_s
from controller.rig.loading import load_rig
from drivers.commands import Guarantee, Level, Quality

RIG = load_rig(Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml")
BOUNDS = bounds_of(RIG)
T, PH, AIR, MASS = "t_chamber.temperature", "ph_loop.ph", "gas_air.flow", "balance.mass"
PERIOD_S = RIG.devices["t_chamber"].every_s


class Point:
    """One point of a store, read again and again."""

    def __init__(self, point: str = T, unit: str = "degC") -> None:
        self.store = StateStore(plausible=Plausibility(RIG))
        self.point, self.unit, self.now_s = point, unit, 100.0

    def read(self, value: float, *, after_s: float = PERIOD_S, quality: Quality = Quality.GOOD) -> Quality:
        self.now_s += after_s
        self.again = self.store.read(self.point, value, self.unit, quality, self.now_s)
        return self.store.readings[self.point].quality

    def fail(self) -> None:
        self.store.failed(self.point, self.unit, "it cannot be read")

    def good(self) -> float | None:
        reading = self.store.readings[self.point].good
        return None if reading is None else reading.value


def settled(point: str = T, unit: str = "degC", value: float = 37.0) -> Point:
    found = Point(point, unit)
    found.read(value)
    assert found.read(value) is Quality.GOOD
    return found


def test_I9_bounds_come_from_the_rig() -> None:
    assert BOUNDS[AIR].high == pytest.approx(1.28 * 200.0), "full scale is on its label"
    assert BOUNDS[MASS].high == pytest.approx(1.25 * 45.0), "the vessel on it"
    assert BOUNDS[MASS].per_s == pytest.approx(1.2 * 10.0 / 60.0), "the fastest line that moves it"
    assert BOUNDS[T].per_s == pytest.approx(1.2 * 15.0 / (4.18 * 42.0)), "heater over the heat of the medium"
    assert (BOUNDS[T].low, BOUNDS[T].high) == (0.0, 60.0)


def test_I9_the_first_reading_is_confirmed_by_a_second() -> None:
    point = Point()
    assert point.read(37.0) is Quality.SUSPECT
    assert point.again
    assert point.good() is None
    assert point.read(37.01, after_s=0.3) is Quality.GOOD


@pytest.mark.parametrize("value", [336.0, -3.0, math.nan, math.inf])
def test_I9_what_cannot_be_is_never_good_however_often_it_comes(value: float) -> None:
    point = settled()
    for _ in range(20):
        assert point.read(value) is Quality.SUSPECT
        assert not point.again, "another reading would tell no more"
    assert point.good() == 37.0
    assert "nothing here can be so" in point.store.readings[T].detail


def test_I9_a_jump_is_suspect_and_goes_away() -> None:
    point = settled()
    assert point.read(3.0) is Quality.SUSPECT
    assert point.again
    assert point.good() == 37.0, "who acts on readings still has the last good one"
    assert point.read(37.02, after_s=0.3) is Quality.GOOD


def test_I9_a_true_step_is_believed_at_the_second_reading_of_a_quiet_line() -> None:
    point = settled()
    assert point.read(42.0) is Quality.SUSPECT
    assert point.read(42.1, after_s=0.3) is Quality.GOOD


def test_I9_over_pressure_is_believed_although_the_pump_pulsates() -> None:
    """Against a blockage a pump pulsates by a tenth of 200 kPa; two readings in a row then differ by more than the grain."""
    point = settled("p_heart.pressure", "kPa", 5.0)
    found = [point.read(200.0 + 10.0 * (-1) ** n, after_s=0.5) for n in range(2)]
    assert found == [Quality.SUSPECT, Quality.GOOD]
    assert (point.good() or 0.0) > 180.0


def test_I9_a_line_in_trouble_has_to_say_it_more_often() -> None:
    """A leading digit that is lost twice in a row confirms itself: the noisier the line, the more must agree."""
    point = settled()
    for _ in range(10):
        point.fail()
    values = []
    while point.read(3.0, after_s=0.3) is Quality.SUSPECT:
        values.append(point.store.readings[T].detail)
    assert len(values) == 1 + MAX_TROUBLE
    for _ in range(100):
        point.read(3.0)
    point.read(37.0)
    assert point.read(37.0) is Quality.GOOD, "good readings make it quiet again"


def test_I9_nothing_in_between_agrees() -> None:
    point = settled()
    for value in (6.5, 37.0, 6.5, 37.0, 6.5):
        assert (point.read(value) is Quality.GOOD) == (value == 37.0)


def test_I9_after_an_outage_the_first_reading_is_confirmed_too() -> None:
    point = settled()
    assert point.read(37.0, after_s=reach_s(PERIOD_S) + 0.1) is Quality.SUSPECT
    assert point.read(37.0, after_s=0.3) is Quality.GOOD


def test_I9_a_commanded_step_is_no_jump() -> None:
    point = settled(AIR, "mL/min", 47.0)
    view = ActuatorView(None, 0.0, Level(30.0), Level(47.0), Guarantee.GUARD)
    point.store.actuator(AIR, view)
    assert point.read(30.1) is Quality.GOOD
    assert point.read(40.0) is Quality.SUSPECT, "on its way there it is confirmed like any other"


def test_I9_what_the_device_doubts_stays_in_doubt_and_is_followed() -> None:
    """No value that the device doubts is good, and a good one that follows is no jump from the last good one."""
    point = settled(MASS, "g", 3.0)
    for step in range(1, 11):
        assert point.read(3.0 + 0.3 * step, quality=Quality.SUSPECT) is Quality.SUSPECT
    assert point.read(6.0) is Quality.GOOD


def test_I9_a_point_that_the_rig_description_does_not_know_has_the_bounds_of_its_unit() -> None:
    point = Point("ph_loop.other", "pH")
    point.read(7.0)
    assert point.read(7.0) is Quality.GOOD
    assert point.read(77.0) is Quality.SUSPECT
    free = Point("nerves.firing_rate", "Hz")
    assert free.read(1e9) is Quality.GOOD, "what has no bounds is taken at its word"


def test_I2_a_stuck_probe_with_a_corrupted_reading_now_and_then_is_still_stuck() -> None:
    point = settled()
    since_s = point.store.readings[T].same_since_s
    for _ in range(20):
        point.read(37.0)
        point.read(3.0)
        point.read(37.0, after_s=0.3)
    assert point.store.readings[T].same_since_s == since_s


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_I9_a_good_reading_is_near_the_truth_whatever_single_errors_come_between(data: st.DataObject) -> None:
    """Errors that do not repeat each other: whatever is good is off by the stated error at most, and truth comes back."""
    bounds = BOUNDS[T]
    point, truth = settled(), 37.0
    errors = st.one_of(st.floats(-400.0, 400.0), st.just(math.nan))
    for _ in range(data.draw(st.integers(1, 30))):
        truth = min(max(truth + data.draw(st.floats(-1.0, 1.0)) * bounds.per_s, 1.0), 59.0)
        if data.draw(st.booleans()):
            value = data.draw(errors)
            if point.read(value, after_s=PERIOD_S / 2.0) is Quality.GOOD:
                assert abs(value - truth) <= bounds.error(PERIOD_S)
        asked = 1
        while point.read(truth, after_s=0.3) is not Quality.GOOD:
            asked += 1
        assert asked <= 2 + math.ceil(MAX_TROUBLE)
        assert point.good() == truth
