"""The temperature regulator on boxes of many kinds, and without a probe to trust."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.regulation.temperature import MIN_PULSE_S, WINDOW_S, TemperatureRegulator
from controller.rig.description import required
from drivers.commands import Quality, Switch
from tests.controller.regulation.states import RIG, reading, state

SKIN, LIMIT = required(RIG.organs.skin, "organs.skin"), required(RIG.safety.temperature, "safety.temperature")
POINT = SKIN.temperature
SETPOINT_C = SKIN.setpoint_c


class Box:
    """A heated box: power (W), loss (W/K), heat capacity (J/K), and a probe that lags `lag_s` behind."""

    def __init__(self, *, power_w: float, loss_w_k: float, heat_j_k: float, lag_s: float, start_c: float) -> None:
        self.power_w, self.loss_w_k, self.heat_j_k, self.lag_s = power_w, loss_w_k, heat_j_k, lag_s
        self.celsius = self.probe_c = start_c
        self.ambient_c = 24.0
        self.on_until_s = 0.0

    def second(self, now_s: float) -> None:
        heat_w = self.power_w * min(max(self.on_until_s - now_s, 0.0), 1.0)
        self.celsius += (heat_w - self.loss_w_k * (self.celsius - self.ambient_c)) / self.heat_j_k
        self.probe_c += (self.celsius - self.probe_c) / self.lag_s


def run(box: Box, hours: float, regulator: TemperatureRegulator | None = None, begin_s: float = 0.0) -> list[float]:
    """True temperatures, second by second."""
    noise = np.random.default_rng(1).normal(0.0, 0.01, int(hours * 3600))
    regulator = regulator or TemperatureRegulator(SKIN, LIMIT)
    course = []
    for second, error in enumerate(noise):
        now_s = begin_s + second
        for intent in regulator.intents(state(now_s, {POINT: reading(round(box.probe_c + error, 3), now_s)})):
            assert isinstance(intent.command, Switch)
            assert intent.command.for_s is not None
            assert MIN_PULSE_S <= intent.command.for_s <= WINDOW_S
            assert now_s >= box.on_until_s - 1e-6, "pulses do not overlap"
            box.on_until_s = now_s + intent.command.for_s
        box.second(now_s)
        course.append(box.celsius)
    return course


@pytest.mark.parametrize("start_c", [15.0, 24.0, 36.8, 38.0])
@pytest.mark.parametrize(
    ("power_w", "loss_w_k", "heat_j_k", "lag_s"),
    [(15.0, 0.5, 1000.0, 20.0), (15.0, 0.3, 2500.0, 40.0), (30.0, 0.5, 2000.0, 20.0), (12.0, 0.8, 800.0, 10.0)],
    ids=["bench", "heavy and slow", "strong heater", "small and leaky"],
)
def test_it_holds_the_setpoint_and_does_not_overheat(
    power_w: float, loss_w_k: float, heat_j_k: float, lag_s: float, start_c: float
) -> None:
    box = Box(power_w=power_w, loss_w_k=loss_w_k, heat_j_k=heat_j_k, lag_s=lag_s, start_c=start_c)
    course = run(box, 4.0)
    assert max(course) < max(38.2, start_c + 0.1)
    settled = course[3 * 3600 :]
    assert max(abs(celsius - SETPOINT_C) for celsius in settled) < 0.3
    assert abs(sum(settled) / len(settled) - SETPOINT_C) < 0.1


def test_an_opened_incubator_is_warmed_again_without_overshoot() -> None:
    box = Box(power_w=15.0, loss_w_k=0.5, heat_j_k=1000.0, lag_s=20.0, start_c=37.0)
    regulator = TemperatureRegulator(SKIN, LIMIT)
    run(box, 2.0, regulator)
    box.celsius = box.probe_c = 30.0
    assert max(run(box, 1.0, regulator, 2 * 3600.0)) < 38.0


def test_a_heater_too_weak_does_not_wind_up() -> None:
    box = Box(power_w=5.0, loss_w_k=0.5, heat_j_k=1000.0, lag_s=20.0, start_c=24.0)
    regulator = TemperatureRegulator(SKIN, LIMIT)
    for second in range(0, 6 * 3600, 20):
        regulator.intents(state(float(second), {POINT: reading(34.0, float(second))}))
    assert regulator.duty == 1.0
    later = 6 * 3600.0
    for window in range(3):
        regulator.intents(state(later + 20 * window, {POINT: reading(38.5, later + 20 * window)}))
    assert regulator.duty < 0.6, "six hours of cold are forgotten within a minute of heat"
    assert box.celsius == 24.0


@pytest.mark.parametrize(
    "told",
    [
        None,
        reading(36.0, 0.0),
        reading(36.0, 100.0, Quality.MISSING),
        reading(nan, 100.0),
        reading(inf, 100.0),
        reading(36.0, 200.0),
    ],
    ids=["missing", "stale", "bad", "nan", "infinite", "from the future"],
)
def test_I2_there_is_no_heat_without_a_reading_to_trust(told: object) -> None:
    regulator = TemperatureRegulator(SKIN, LIMIT)
    readings = {} if told is None else {POINT: told}
    assert regulator.intents(state(100.0, readings)) == ()  # type: ignore[arg-type]
    assert regulator.duty == 0.0


def test_it_acts_once_a_window() -> None:
    regulator = TemperatureRegulator(SKIN, LIMIT)
    pulses = [
        second
        for second in range(200)
        if regulator.intents(state(float(second), {POINT: reading(36.9, float(second))}))
    ]
    assert pulses == list(range(0, 200, int(WINDOW_S)))


@given(st.floats(0.0, 1.0))
def test_short_pulses_are_saved_up_not_lost(duty: float) -> None:
    regulator = TemperatureRegulator(SKIN, LIMIT)
    regulator._step = lambda error_k: duty  # type: ignore[method-assign]
    windows = 200
    on_s = 0.0
    for window in range(windows):
        now_s = window * WINDOW_S
        for intent in regulator.intents(state(now_s, {POINT: reading(37.0, now_s)})):
            assert isinstance(intent.command, Switch)
            on_s += intent.command.for_s or 0.0
    assert on_s == pytest.approx(duty * windows * WINDOW_S, abs=max(1.0, 0.01 * windows * WINDOW_S))
