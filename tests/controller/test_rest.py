"""Sampling at rest and at full rate, on the whole stack: seldom while nothing happens, in time when something does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from controller.core.state import ActuatorView, Reading
from controller.hazards.rest import at_rest, rest_periods
from controller.hazards.table import hazards_of
from controller.process.controller import Controller
from controller.process.parts.sampling import Pace
from controller.readings.needs import REST_AFTER_S, inner_ranges
from controller.readings.plausibility import bounds_of
from controller.safety.limits import limits_of
from drivers.commands import Quality
from sim.lab import SimulatedLab
from tests.controller.test_life import RIG, living

pytestmark = pytest.mark.virtual_time
DAY_S = 86_400.0
REST_S = rest_periods(RIG)
LIMITS = limits_of(RIG)
SETTLED_S = REST_AFTER_S + 60.0
TEMPERATURE, PRESSURE, FILTER = "t_chamber.temperature", "p_heart.pressure", "p_filter.pressure"


def device(point: str) -> str:
    return point.partition(".")[0]


async def taken(controller: Controller, for_s: float) -> dict[str, list[float]]:
    """When the readings and the statuses were taken that came within `for_s`."""
    times: dict[str, list[float]] = {}
    loop = asyncio.get_running_loop()
    end_s = loop.time() + for_s
    while loop.time() < end_s:
        await asyncio.sleep(0.2)
        seen: dict[str, Reading | ActuatorView] = dict(controller.store.readings)
        seen |= {f"{name} status": view for name, view in controller.store.actuators.items()}
        for point, each in seen.items():
            if device(point) in RIG.devices and each.at_s not in times.setdefault(point, [])[-1:]:
                times[point].append(each.at_s)
    return times


def longest_s(times: list[float]) -> float:
    return max(later - earlier for earlier, later in pairwise(times))


async def test_at_rest_a_device_is_read_at_its_period_at_rest_and_never_later(tmp_path: Path) -> None:
    async with living(tmp_path, warm_up_s=SETTLED_S) as (controller, _):
        assert controller.get(Pace).needs.reason == ""
        before = controller.devices.transactions
        times = await taken(controller, 300.0)
        assert controller.get(Pace).needs.reason == ""
        assert controller.devices.transactions - before < 0.65 * 5.23 * 300.0, "5.23 requests a second at full rate"
        for point, at_s in times.items():
            rest_s = REST_S[device(point)]
            assert longest_s(at_s) < rest_s + 1.5, point
            if device(point) != "relay":  # its pulses are read back
                assert len(at_s) <= 300.0 / rest_s + 6, point


Disturbance = Callable[[Controller, SimulatedLab], object]
DISTURBANCES: dict[str, Disturbance] = {
    "a lost sensor": lambda controller, lab: lab.devices["ph_spent"].power_off(),
    "a reading near its limit": lambda controller, lab: lab.plant.faults.sensor_offset.update({PRESSURE: 45.0}),
    "an emergency stop": lambda controller, lab: asyncio.ensure_future(controller.emergency_stop("a", "b")),
    "a caller that waits for readings": lambda controller, lab: setattr(controller.store, "waiting", 1),
    "a dose": lambda controller, lab: controller.runs._bench.transfers.open_lines.begin("draw"),
    "a defect of the judgement": lambda controller, lab: setattr(controller.get(Pace), "needs", None),
}


@pytest.mark.parametrize("name", DISTURBANCES)
async def test_whatever_happens_the_whole_rig_is_read_at_full_rate_at_once(name: str, tmp_path: Path) -> None:
    async with living(tmp_path, warm_up_s=SETTLED_S) as (controller, lab):
        assert controller.get(Pace).needs.reason == ""
        DISTURBANCES[name](controller, lab)
        # One reading at rest may be needed to see it; a defect is noticed when the permission is not renewed.
        await asyncio.sleep(max(REST_S.values()) + 3.0)
        times = await taken(controller, 60.0)
        for point, at_s in times.items():
            if device(point) != "ph_spent":
                assert longest_s(at_s) < RIG.devices[device(point)].every_s + 1.5, point


MAX_WORST_PER_S = 5.0
"""Faster rises pass the limit within the first period."""
RATES = {
    "as fast as full power heats": (TEMPERATURE, "over_temperature", bounds_of(RIG)[TEMPERATURE].per_s),
    "a blocked line": (PRESSURE, "over_pressure_heart", 5.0),
    "as fast as is plausible": (PRESSURE, "over_pressure_heart", bounds_of(RIG)[PRESSURE].per_s),
    "a stiff tube": (PRESSURE, "over_pressure_heart", 140.0),
}


@pytest.mark.parametrize("name", RATES)
async def test_I1_from_rest_an_interlock_acts_within_the_time_that_its_hazard_leaves(name: str, tmp_path: Path) -> None:
    """The probe shows a value that rises at this rate; at rest a reading would come just before it passes the limit."""
    point, hazard, per_s = RATES[name]
    row = next(row for row in hazards_of(at_rest(RIG, REST_S), LIMITS) if row.id == hazard)
    full = next(row for row in hazards_of(RIG, LIMITS) if row.id == hazard)
    rule = next(rule for rule in LIMITS.interlocks if rule.point == point)
    async with living(tmp_path, warm_up_s=SETTLED_S) as (controller, lab):
        loop = asyncio.get_running_loop()
        if per_s <= MAX_WORST_PER_S:
            start = rule.high - per_s * (2.0 * REST_S[device(point)] + 0.1)
            lab.plant.faults.sensor_offset[point] = start - controller.store.readings[point].value
            await asyncio.sleep(SETTLED_S)
            assert controller.get(Pace).needs.reason == ""
        lab.plant.faults.sensor_drift_per_day[point] = per_s * DAY_S
        last_s = controller.store.readings[point].at_s
        while controller.store.readings[point].at_s == last_s:
            await asyncio.sleep(0.05)  # the drift begins with the next reading: the one after it is a whole period away
        start, begun_s = controller.store.readings[point].value, controller.store.readings[point].at_s
        while not controller.gate.trips:
            await asyncio.sleep(0.05)
            assert loop.time() < begun_s + 120.0
        took_s = loop.time() - (begun_s + (rule.high - start) / per_s)
        allowed = full if per_s <= bounds_of(RIG)[point].per_s else row
        assert took_s <= allowed.detection_s <= 0.5 * allowed.harm_s


def test_from_inside_its_range_no_reading_can_pass_a_limit_before_the_next_one() -> None:
    bounds = bounds_of(RIG)
    ranges = inner_ranges(RIG, LIMITS, REST_S)
    for rule in LIMITS.interlocks:
        low, high = ranges[rule.point]
        moved = bounds[rule.point].grain + bounds[rule.point].per_s * (REST_S[device(rule.point)] + 1.0)
        assert high + moved <= rule.high
        assert low - moved >= rule.low
        assert low < high, f"{rule.point} would never rest"


async def test_a_gauge_is_read_at_full_rate_within_a_second_after_its_pump_has_begun(tmp_path: Path) -> None:
    async with living(tmp_path, warm_up_s=SETTLED_S) as (controller, _):
        controller.runs._bench.transfers.open_lines.begin("return")
        begun_s = asyncio.get_running_loop().time()
        times = await taken(controller, 20.0)
        after = [at_s for at_s in times[FILTER] if at_s >= begun_s]
        assert after[0] - begun_s < 1.0 + RIG.devices["p_filter"].every_s
        assert longest_s(after) < RIG.devices["p_filter"].every_s + 0.5


async def test_a_jump_after_a_pause_at_rest_is_confirmed_as_at_full_rate(tmp_path: Path) -> None:
    """What is permitted without confirmation does not grow with the period: a garbled digit stays as visible as before."""
    async with living(tmp_path, warm_up_s=SETTLED_S) as (controller, lab):
        near = bounds_of(RIG)[TEMPERATURE]
        warmed = 0.12  # the heater warms the medium by up to 0.1 degC between two readings
        step = near.error(RIG.devices["t_chamber"].every_s) + warmed
        assert step < near.grain + near.per_s * (REST_S["t_chamber"] + 1.5), "or it proves nothing"
        qualities = []
        lab.plant.faults.sensor_offset[TEMPERATURE] = -step
        for _ in range(80):
            await asyncio.sleep(0.1)
            qualities.append(controller.store.readings[TEMPERATURE].quality)
        assert Quality.SUSPECT in qualities
