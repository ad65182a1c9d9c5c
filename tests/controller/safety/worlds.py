"""Rigs as the kernel sees them while all is well, with strategies for any condition that they may be in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import strategies as st

from controller.core.state import Reading, Volume
from controller.rig.description import Rig
from controller.safety.interlocks import watch
from controller.safety.kernel import decide
from controller.safety.limits import limits_of
from controller.safety.terms import Intent, Limits, Seen, Underway, Verdict, View, Watch
from drivers.commands import Command, Dispense, Level, Quality, Run, Stop, Switch
from tests.controller.safety.facts import (
    AIR,
    CO2,
    FILTER_PRESSURE,
    HEART,
    HEART_PRESSURE,
    NOW_S,
    O2,
    RIG,
    TEMPERATURE,
    VALVE,
)
from tests.controller.safety.hearts import three_hearts

HEART_KPA, FILTER_KPA = HEART_PRESSURE, FILTER_PRESSURE


def reading(value: float, unit: str = "kPa", *, at_s: float = NOW_S - 1.0, since_s: float = NOW_S - 5.0) -> Reading:
    return Reading(value, unit, Quality.GOOD, at_s, "", since_s)


GOOD: dict[str, Reading] = {
    TEMPERATURE: reading(37.0, "degC"),
    HEART_KPA: reading(5.0),
    FILTER_KPA: reading(1.0),
    AIR: reading(47.0, "mL/min"),
    CO2: reading(3.0, "mL/min"),
    O2: reading(0.0, "mL/min"),
}
VOLUMES = {name: Volume(vessel.volume_ul, 20.0) for name, vessel in RIG.vessels.items()} | {"spent": Volume(2e4, 20.0)}
SEEN = {
    HEART: Seen(True, 2000.0, NOW_S - 1.0),
    VALVE: Seen(True, 1.0, NOW_S - 1.0),
    AIR: Seen(True, 47.0, NOW_S - 1.0),
    CO2: Seen(True, 3.0, NOW_S - 1.0),
    O2: Seen(False, 0.0, NOW_S - 1.0),
}


FLOATS = st.one_of(st.floats(), st.floats(-10.0, 10_000.0))
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    st.builds(Run, FLOATS),
    st.builds(Dispense, FLOATS, FLOATS, st.just("d-1")),
    st.builds(Switch, st.booleans(), st.none() | FLOATS),
    st.builds(Level, FLOATS),
    st.just(Stop()),
)


@dataclass(frozen=True)
class World:
    """A rig with its limits, and what the kernel reads of it while all is well."""

    rig: Rig
    limits: Limits
    good: Mapping[str, Reading]
    seen: Mapping[str, Seen]

    def ask(self, actuator: str, command: Command, view: View) -> Verdict:
        return decide(Intent(actuator, command, "test", "a test"), view, self.limits)

    @property
    def calm(self) -> View:
        volumes = {name: Volume(vessel.volume_ul, 20.0) for name, vessel in self.rig.vessels.items()}
        return View(NOW_S, self.good, volumes | {"spent": Volume(2e4, 20.0)}, self.seen)

    def reads(self, point: str, value: Reading) -> View:
        return replace(self.calm, readings={**self.good, point: value})


def world(rig: Rig) -> World:
    """The world of a rig that is like the bench, with other hearts."""
    limits = limits_of(rig)
    pumps = [heart.pump for heart in limits.hearts]
    gauges = [heart.pressure for heart in rig.organs.hearts.values() if heart.pressure is not None]
    return World(
        rig,
        replace(limits, interlocks=tuple(replace(rule, debounce_s=0.0) for rule in limits.interlocks)),
        {point: known for point, known in GOOD.items() if point != HEART_KPA} | dict.fromkeys(gauges, GOOD[HEART_KPA]),
        {name: seen for name, seen in SEEN.items() if name != HEART} | dict.fromkeys(pumps, SEEN[HEART]),
    )


WORLDS = {"one heart": world(RIG), "three hearts": world(three_hearts())}
ANY_RIG = pytest.mark.parametrize("name", WORLDS)


def actuators(world: World) -> st.SearchStrategy[str]:
    return st.sampled_from(sorted(world.limits.basal))


def transfers(world: World) -> st.SearchStrategy[str]:
    return st.sampled_from(sorted(name for name, pump in world.limits.pumps.items() if pump.role == "transfer"))


@st.composite
def views(draw: st.DrawFn, world: World) -> View:
    """A rig in any condition."""
    readings = {}
    for point, good in world.good.items():
        if draw(st.integers(0, 9)) == 0:
            continue
        value = draw(st.sampled_from([good.value, good.value, good.value, 0.0, 39.0, 70.0, 90.0, math.nan]))
        age_s = draw(st.sampled_from([1.0, 1.0, 1.0, 60.0, -10.0]))
        quality = draw(st.sampled_from([Quality.GOOD, Quality.GOOD, Quality.SUSPECT, Quality.MISSING]))
        readings[point] = replace(good, value=value, at_s=NOW_S - age_s, quality=quality)
    volumes = {
        name: Volume(draw(st.floats(0.0, vessel.capacity_ul)), draw(st.floats(0.0, 2000.0)))
        for name, vessel in world.rig.vessels.items()
        if draw(st.integers(0, 9)) > 0
    }
    seen = {
        name: Seen(draw(st.booleans()), draw(st.floats(0.0, 60.0)), NOW_S - draw(st.sampled_from([1.0, 300.0])))
        for name in world.seen
        if draw(st.integers(0, 9)) > 0
    }
    going = st.builds(
        Underway, transfers(world), st.floats(0.0, 10_000.0), st.sampled_from(["d-1", "d-2"]), st.booleans()
    )
    underway = tuple(draw(st.lists(going, max_size=2)))
    emergency = draw(st.sampled_from([None, None, "anna: fire"]))
    memory = Watch()
    if draw(st.booleans()):
        gauge = draw(st.sampled_from(sorted(point for point in world.good if world.good[point] is GOOD[HEART_KPA])))
        memory = watch(world.reads(gauge, reading(70.0)), world.limits)
    return View(NOW_S, readings, volumes, seen, underway, emergency, memory)
