"""Alarms of a device that falls silent without an error: raised when its link hangs, not when it is only slow."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from math import log10
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.alarms.definitions import DEFINITIONS
from controller.alarms.states import Alarms
from controller.core.state import ActuatorView, Reading, State
from controller.readings.vigilance import TURN_S, Vigilance, oldest_answers
from controller.rig.description import DeviceSpec, Rig, Zone
from controller.rig.probes import culture_ph
from drivers.commands import Guarantee, PumpStatus, Quality, Stop, SwitchStatus
from tests.controller.safety.hearts import HEARTS, dish, pump, three_hearts
from tests.controller.test_life import RIG, alarms, living

PH, RELAY = "ph_loop.ph", "relay.heater"


def lost(state: State, rig: Rig = RIG) -> set[str]:
    causes, _ = Vigilance(rig).causes(state)
    return {source for kind, source in causes if kind == "device_lost"}


def seen_at(*, reading_s: float = 0.0, status_s: float = 0.0, now_s: float) -> State:
    readings = {PH: Reading(7.35, "pH", Quality.GOOD, reading_s)}
    view = ActuatorView(SwitchStatus(on=False), status_s, None, Stop(), Guarantee.HOST)
    return State(now_s, "", readings, {RELAY: view}, {}, (), {})


def with_device(name: str, **changes: object) -> Rig:
    device: DeviceSpec = RIG.devices[name].model_copy(update=changes)
    return RIG.model_copy(update={"devices": {**RIG.devices, name: device}})


@pytest.mark.virtual_time
@pytest.mark.parametrize("hanging", ["ph_loop", "relay", "reglo"])
async def test_I2_a_link_that_neither_answers_nor_fails_is_told(
    hanging: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifteen minutes of it once raised nothing, and the last reading stood there as good."""
    link = RIG.devices[hanging].link
    devices = [name for name, spec in RIG.devices.items() if spec.link == link]
    there = f"device_lost:{devices[0]}" if len(devices) == 1 else f"device_lost:line of {devices[0]}"
    async with living(tmp_path) as (controller, _):

        async def never(*_: object, **__: object) -> None:
            await asyncio.Event().wait()

        with monkeypatch.context() as patch:
            patch.setattr(controller.devices._links[link], "exchange", never)
            await asyncio.sleep(120.0)
            assert {each for each in alarms(controller) if each.startswith("device_lost")} == {there}
            details = {alarm.detail for alarm in controller.alarms.active() if alarm.kind == "device_lost"}
            assert all("has not answered for more than" in detail for detail in details)


def test_I2_a_reading_or_a_status_that_is_old_is_that_of_a_lost_device() -> None:
    assert lost(seen_at(reading_s=100.0, status_s=100.0, now_s=119.0)) == set()
    assert lost(seen_at(reading_s=100.0, status_s=119.0, now_s=121.0)) == {"ph_loop"}
    assert lost(seen_at(reading_s=119.0, status_s=90.0, now_s=121.0)) == {"relay"}


def test_a_device_that_is_asked_seldom_may_be_silent_for_longer() -> None:
    seldom = with_device("ph_loop", every_s=600.0)
    assert lost(seen_at(now_s=1800.0, status_s=1800.0), seldom) == set()
    assert lost(seen_at(now_s=1806.0, status_s=1806.0), seldom) == {"ph_loop"}


def test_on_a_full_bus_a_turn_may_take_long() -> None:
    alone, bus = RIG.devices["ph_loop"], 16
    devices = {f"ph{n}": alone.model_copy(update={"link": "sim:bus", "every_s": 2.0}) for n in range(bus)}
    full = RIG.model_copy(update={"devices": {**RIG.devices, **devices}})
    assert oldest_answers(full)["ph3"] > 3 * TURN_S * bus
    assert oldest_answers(full)["ph_loop"] == oldest_answers(RIG)["ph_loop"]


def test_what_is_no_device_of_the_rig_is_not_polled() -> None:
    state = seen_at(now_s=10.0)
    nerves = {"nerves.firing_rate": Reading(2.0, "Hz", Quality.GOOD, 0.0)}
    assert lost(replace(state, readings=nerves, actuators={}, at_s=1e6)) == set()


def test_a_loop_that_wakes_from_a_stall_has_old_readings_for_a_moment_and_no_alarm() -> None:
    told, vigilance = Alarms(lambda kind, body: None, lambda: "2026-01-01T00:00:00.000Z"), Vigilance(RIG)
    for state in (
        seen_at(reading_s=99.0, status_s=99.0, now_s=100.0),
        seen_at(reading_s=99.0, status_s=99.0, now_s=400.0),
        seen_at(reading_s=99.0, status_s=400.5, now_s=401.0),
        seen_at(reading_s=401.5, status_s=400.5, now_s=402.0),
    ):
        causes, unseen = vigilance.causes(state)
        told.levels(causes, state.at_s, unseen)
    assert [alarm.id for alarm in told.active() if alarm.kind == "device_lost"] == []
    assert DEFINITIONS["device_lost"].on_delay_s > 2.0


def running(*hearts: str, **readings: float) -> State:
    """Some hearts run, the others stand; readings in kPa or pH by point, with two underscores for the full stop."""
    views = {
        pump(heart): ActuatorView(PumpStatus(heart in hearts, 2000.0, 0.0), 0.0, None, Stop(), Guarantee.GUARD)
        for heart in HEARTS
    }
    known = {point.replace("__", "."): Reading(value, "", Quality.GOOD, 0.0) for point, value in readings.items()}
    return State(0.0, "", known, views, {}, (), {})


def test_every_heart_is_watched_for_suction() -> None:
    vigilance = Vigilance(three_hearts())
    said = running("left", "right", p_left__pressure=-1.0, p_middle__pressure=-1.0, p_right__pressure=3.0)
    causes, unseen = vigilance.causes(said)
    assert [source for kind, source in causes if kind == "heart_backwards"] == [pump("left")]
    assert "suction" in causes["heart_backwards", pump("left")]
    assert not [source for kind, source in unseen if kind == "heart_backwards"]
    _, unseen = vigilance.causes(running("left", p_left__pressure=-1.0, p_middle__pressure=1.0))
    assert ("heart_backwards", pump("right")) in unseen, "without its gauge it is not known"


def test_a_heart_without_a_gauge_is_no_unknown() -> None:
    rig = three_hearts()
    hearts = {name: heart.model_copy(update={"pressure": None}) for name, heart in rig.organs.hearts.items()}
    blind = rig.model_copy(update={"organs": rig.organs.model_copy(update={"hearts": hearts})})
    causes, unseen = Vigilance(blind).causes(running(*HEARTS))
    assert not [kind for kind, _ in (*causes, *unseen) if kind == "heart_backwards"]


def test_every_ph_probe_in_medium_of_the_tissue_is_watched() -> None:
    """Those in the chambers by the lung's set-point; that of the spent vessel is none of them."""
    rig = three_hearts()
    probes = {f"ph_{heart}": rig.devices["ph_loop"].model_copy(update={"at": heart}) for heart in HEARTS}
    rig = rig.model_copy(update={"devices": rig.devices | probes})
    assert culture_ph(rig) == {PH: 7.35, **{f"ph_{heart}.ph": 7.35 for heart in HEARTS}}
    said = running(*HEARTS, ph_loop__ph=7.3, ph_left__ph=7.0, ph_middle__ph=7.7, ph_spent__ph=6.0)
    causes, unseen = Vigilance(rig).causes(said)
    assert {source for kind, source in causes if kind == "acidity"} == {"ph_left.ph", "ph_middle.ph"}
    assert ("acidity", "ph_right.ph") in unseen


def test_a_dish_is_watched_by_the_gas_of_its_own_zone() -> None:
    zones = {
        "poor": Zone.model_construct(temperature_c=37.0, co2_pct=5.0),
        "rich": Zone.model_construct(temperature_c=37.0, co2_pct=10.0),
    }
    vessels = {zone: RIG.vessels["chamber"].model_copy(update={"zone": zone}) for zone in zones}
    devices = {f"ph_{zone}": RIG.devices["ph_loop"].model_copy(update={"at": zone}) for zone in zones}
    update = {
        "vessels": vessels,
        "zones": zones,
        "devices": devices,
        "tissue": dict.fromkeys(zones, RIG.tissue["chamber"]),
    }
    targets = culture_ph(dish().model_copy(update=update))
    assert targets["ph_poor.ph"] == pytest.approx(7.5, abs=0.01)
    assert targets["ph_poor.ph"] - targets["ph_rich.ph"] == pytest.approx(log10(2.0))


def test_a_rig_without_probes_has_no_causes_of_its_own() -> None:
    bare = dish().model_copy(update={"devices": {}})
    assert Vigilance(bare).causes(State(0.0, "", {}, {}, {}, (), {})) == ({}, [])


QUALITIES = st.sampled_from([Quality.GOOD, Quality.GOOD, Quality.SUSPECT, Quality.MISSING, Quality.STALE])
POINTS = [PH, "p_heart.pressure", "gas_air.flow", "nerves.firing_rate"]


@st.composite
def courses(draw: st.DrawFn) -> list[State]:
    """Draw the states of some ticks; between two of them some readings and the heart's view are new."""
    now_s, states = 0.0, []
    readings: dict[str, Reading] = {}
    actuators: dict[str, ActuatorView] = {}
    for _ in range(draw(st.integers(1, 12))):
        now_s += draw(st.sampled_from([1.0, 1.0, 4.0, 19.999999, 20.0, 200.0]))
        for point in draw(st.sets(st.sampled_from(POINTS))):
            age_s = draw(st.sampled_from([0.0, 0.3, 15.0, 400.0, float("inf")]))
            value = draw(st.sampled_from([7.35, 6.0, -5.0, float("nan")]))
            stuck = draw(st.booleans()) and draw(st.booleans())
            readings[point] = Reading(value, "x", draw(QUALITIES), now_s - age_s, "why", now_s - age_s, stuck)
        if draw(st.booleans()):
            status = PumpStatus(draw(st.booleans()), 1.0, 0.0)
            actuators["reglo.heart"] = ActuatorView(status, now_s, None, Stop(), Guarantee.DEVICE)
        states.append(State(now_s, "", dict(readings), dict(actuators), {}, (), {}))
    return states


@given(courses())
def test_what_is_found_tick_by_tick_is_what_is_found_from_each_state_alone(states: list[State]) -> None:
    """Also in the same order: alarms of one tick are raised in it."""
    vigilance = Vigilance(RIG)
    for state in states:
        causes, unseen = vigilance.causes(state)
        alone, unseen_alone = Vigilance(RIG).causes(state)
        assert (list(causes.items()), unseen) == (list(alone.items()), unseen_alone)
