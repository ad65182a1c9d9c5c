"""What outputs did, minute by minute: means over time, pulses that end by themselves, gaps that stay gaps."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from controller.core.state import ActuatorView, Reading, State
from controller.memory.output_series import OutputSeries
from drivers.commands import Guarantee, PumpStatus, Stop, Switch, SwitchStatus

Kept = list[dict[str, Reading]]


def series() -> tuple[OutputSeries, Kept]:
    kept: Kept = []

    def keep(at_s: float, utc: str, readings: Mapping[str, Reading]) -> None:
        kept.append(dict(readings))

    return OutputSeries(keep), kept


def state(at_s: float, **views: ActuatorView) -> State:
    return State(at_s, "", {}, {name.replace("__", "."): view for name, view in views.items()}, {}, (), {})


def pump(flow: float, total: float = 0.0, *, running: bool = True, fault: str = "") -> ActuatorView:
    return ActuatorView(PumpStatus(running, flow, total), 0.0, None, Stop(), Guarantee.GUARD, fault=fault)


def test_a_pump_that_ran_a_quarter_of_the_minute_has_a_quarter_of_its_flow() -> None:
    outputs, kept = series()
    running, standing = pump(2000.0, 100.0), pump(2000.0, 600.0, running=False)
    for second in range(61):
        outputs.observe(state(float(second), a__heart=running if second < 15 else standing))
    (minute,) = kept
    assert minute["a.heart.flow"].value == pytest.approx(500.0)
    assert minute["a.heart.flow"].unit == "uL/min"
    assert minute["a.heart.flow"].at_s == 30.0
    assert minute["a.heart.delivered"].value == 600.0


def test_a_running_total_that_does_not_change_is_kept_once() -> None:
    outputs, kept = series()
    view = pump(0.0, 7.0, running=False)
    for second in range(181):
        outputs.observe(state(float(second), a__b=view))
    assert ["a.b.delivered" in minute for minute in kept] == [True, False, False]


def test_a_pulse_ends_when_it_was_told_to_and_not_when_the_next_poll_sees_it() -> None:
    outputs, kept = series()
    for second in range(61):
        if second % 20 == 0:  # three pulses of 9.6 s; the poll at +10 s is the first that sees the heater off
            on = ActuatorView(SwitchStatus(True), float(second), Switch(True, 9.6), Stop(), Guarantee.DEVICE)
            off = ActuatorView(SwitchStatus(False), second + 10.0, on.commanded, Stop(), Guarantee.DEVICE)
        outputs.observe(state(float(second), r__heater=on if second % 20 < 10 else off))
    assert kept[0]["r.heater.duty"].value == pytest.approx(48.0)


def test_two_equal_pulses_in_a_row_are_two_pulses() -> None:
    outputs, kept = series()
    for second in range(61):
        if second in (0, 20):
            view = ActuatorView(SwitchStatus(True), float(second), Switch(True, 15.0), Stop(), Guarantee.DEVICE)
        outputs.observe(state(float(second), r__heater=view))
    assert kept[0]["r.heater.duty"].value == pytest.approx(50.0)


def test_a_valve_that_is_held_open_has_no_end_of_its_own() -> None:
    outputs, kept = series()
    view = ActuatorView(SwitchStatus(True), 0.0, Switch(True), Stop(), Guarantee.HOST)
    for second in range(61):
        outputs.observe(state(float(second), r__valve=view))
    assert kept[0]["r.valve.duty"].value == pytest.approx(100.0)


def test_an_output_that_does_not_answer_gives_no_points() -> None:
    outputs, kept = series()
    good, lost = pump(2000.0), pump(2000.0, fault="no reply")
    for second in range(121):
        outputs.observe(state(float(second), a__heart=good if second < 70 else lost))
    assert kept[0]["a.heart.flow"].value == pytest.approx(2000.0)
    assert "a.heart.flow" not in kept[1]


def test_an_output_that_answers_late_begins_then() -> None:
    outputs, kept = series()
    unknown = ActuatorView(None, float("-inf"), None, Stop(), Guarantee.HOST)
    known = pump(1000.0)
    for second in range(121):
        outputs.observe(state(float(second), a__heart=unknown if second < 60 else known))
    assert "a.heart.flow" not in kept[0]
    assert kept[1]["a.heart.flow"].value == pytest.approx(1000.0)
