"""The safety kernel on rigs with one heart and with several, in any condition: it only tightens, and bounds volumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.state import Reading, Volume
from controller.safety.interlocks import NO_HEART_FLOW, watch
from controller.safety.kernel import MAX_TRANSFER_S, SIGMAS, comes_to_rest, transfer_limit_s
from controller.safety.limits import OVER_PRESSURE_HEART
from controller.safety.terms import Limits, Response, Seen, Underway, Verdict, View, Watch
from drivers.commands import Command, Dispense, Level, Run, Switch
from tests.controller.safety.facts import AIR, DRAW, NOW_S, TEMPERATURE, VALVE
from tests.controller.safety.hearts import HEARTS, gauge, pump
from tests.controller.safety.worlds import (
    ANY_RIG,
    COMMANDS,
    FILTER_KPA,
    WORLDS,
    actuators,
    reading,
    transfers,
    views,
)

THREE = WORLDS["three hearts"]


def dose(volume_ul: float, flow_ul_min: float) -> Dispense:
    return Dispense(volume_ul, flow_ul_min, "d-1")


# --- I3: constraints only tighten ---------------------------------------------------------------------------


def no_more_than(told: Command, asked: Command, actuator: str, limits: Limits) -> bool:
    """Whether `told` is `asked` made gentler, and within what the rig allows."""
    if told == asked:
        return True
    match told, asked:
        case Run(flow_ul_min=new), Run(flow_ul_min=old):
            pump = limits.pumps[actuator]
            # The one thing ever raised: a flow beneath what the heart can keep up steadily.
            return new <= old or (new == pump.min_ul_min and old < pump.min_ul_min)
        case Level(value=new), Level(value=old):
            low, high = limits.levels[actuator]
            # Air that would leave CO2 behind is lowered no further than the mixture lets it; CO2 is never raised.
            return low <= new <= high and (new <= old or old < low or actuator == AIR)
        case Switch(on=True, for_s=new_s), Switch(on=True, for_s=old_s):
            return new_s is not None and old_s is not None and new_s <= old_s
        case _:
            return False


@ANY_RIG
@settings(max_examples=400, deadline=None)
@given(command=COMMANDS, data=st.data())
def test_I3_constraints_only_tighten(name: str, command: Command, data: st.DataObject) -> None:
    world = WORLDS[name]
    actuator, view = data.draw(actuators(world)), data.draw(views(world))
    verdict = world.ask(actuator, command, view)
    if comes_to_rest(command):
        assert verdict == Verdict(True, command)
    if not verdict.accepted:
        assert verdict.command is None
        assert verdict.limiting in verdict.reasons
        return
    assert verdict.command is not None
    assert no_more_than(verdict.command, command, actuator, world.limits)
    if isinstance(command, Dispense):
        assert verdict.command == command  # a dose whole or not at all
    if verdict.command != command:
        assert verdict.limiting == verdict.reasons[-1]
    # What came out goes through unchanged: a second look finds nothing more to tighten.
    assert world.ask(actuator, verdict.command, view).command == verdict.command


@ANY_RIG
@settings(max_examples=250, deadline=None)
@given(command=COMMANDS, data=st.data())
def test_I3_more_trouble_never_lets_more_through(name: str, command: Command, data: st.DataObject) -> None:
    """What is refused stays refused when a temperature, a volume or a heart is lost on top of it."""
    world = WORLDS[name]
    actuator, view = data.draw(actuators(world)), data.draw(views(world))
    if world.ask(actuator, command, view).accepted:
        return
    heart = data.draw(st.sampled_from(world.limits.hearts))
    without = {name: known for name, known in view.readings.items() if name not in (TEMPERATURE, FILTER_KPA)}
    for worse in (
        replace(view, readings=without),
        replace(view, volumes={}),
        replace(view, seen={name: seen for name, seen in view.seen.items() if name not in (heart.pump, VALVE)}),
        replace(view, emergency="anna: fire"),
        replace(view, underway=(*view.underway, Underway(DRAW, 100.0, "d-9"))),
    ):
        verdict = world.ask(actuator, command, worse)
        if isinstance(command, Level):
            continue  # an emergency lets basal levels through by name; see the test of it
        assert not verdict.accepted


# --- I4: volumes --------------------------------------------------------------------------------------------


@ANY_RIG
@settings(max_examples=300, deadline=None)
@given(
    data=st.data(),
    volume_ul=st.floats(0.1, 60_000.0),
    share=st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)),
    sd=st.tuples(st.floats(0.0, 3000.0), st.floats(0.0, 3000.0)),
)
def test_I4_volume_bounds_with_uncertainty(
    name: str, data: st.DataObject, volume_ul: float, share: tuple[float, float], sd: tuple[float, float]
) -> None:
    """An accepted dose breaks neither bound within three standard deviations, whatever else is still on its way."""
    world = WORLDS[name]
    actuator = data.draw(transfers(world))
    going = data.draw(st.lists(st.tuples(transfers(world), st.floats(0.0, 20_000.0)), max_size=3))
    pump = world.limits.pumps[actuator]
    vessels = (pump.source, pump.target)
    volumes = dict(world.calm.volumes)
    for vessel, part, sd_ul in zip(vessels, share, sd, strict=True):
        volumes[vessel] = Volume(part * world.rig.vessels[vessel].capacity_ul, sd_ul)
    underway = tuple(Underway(other, ul, f"d-{n}", running=False) for n, (other, ul) in enumerate(going, 10))
    wanted = dose(volume_ul, pump.max_ul_min)
    verdict = world.ask(actuator, wanted, replace(world.calm, volumes=volumes, underway=underway))
    out_ul = sum(ul for other, ul in going if world.limits.pumps[other].source == pump.source)
    in_ul = sum(ul for other, ul in going if world.limits.pumps[other].target == pump.target)
    lowest = volumes[pump.source].ul - SIGMAS * volumes[pump.source].sd_ul - out_ul - volume_ul
    highest = volumes[pump.target].ul + SIGMAS * volumes[pump.target].sd_ul + in_ul + volume_ul
    room = min(
        lowest - world.limits.vessels[pump.source].floor_ul, world.limits.vessels[pump.target].ceiling_ul - highest
    )
    if verdict.accepted:
        assert room >= -1e-6
    elif transfer_limit_s(wanted) < MAX_TRANSFER_S:
        assert room <= 1e-6  # and nothing else was in the way
        assert "volume" in (verdict.limiting or "")


@ANY_RIG
@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    room_ul=st.floats(100.0, 20_000.0),
    sd_ul=st.floats(0.0, 1500.0),
    tight=st.sampled_from(["source", "target"]),
)
def test_I4_room_is_counted_to_the_last_microlitre(
    name: str, data: st.DataObject, room_ul: float, sd_ul: float, tight: str
) -> None:
    """At three standard deviations: just less than the room is given, just more is refused."""
    world = WORLDS[name]
    actuator = data.draw(transfers(world))
    pump = world.limits.pumps[actuator]
    floor_ul, ceiling_ul = world.limits.vessels[pump.source].floor_ul, world.limits.vessels[pump.target].ceiling_ul
    volumes = {**world.calm.volumes, pump.source: Volume(1e9, 0.0), pump.target: Volume(-1e9, 0.0)}
    if tight == "source":
        volumes[pump.source] = Volume(floor_ul + 3.0 * sd_ul + room_ul, sd_ul)
    else:
        volumes[pump.target] = Volume(ceiling_ul - 3.0 * sd_ul - room_ul, sd_ul)
    view = replace(world.calm, volumes=volumes)
    assert world.ask(actuator, dose(room_ul - 0.01, pump.max_ul_min), view).accepted
    assert "volume" in (world.ask(actuator, dose(room_ul + 0.01, pump.max_ul_min), view).limiting or "")


# --- several hearts -----------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(still=st.sets(st.sampled_from(HEARTS), min_size=1), lost=st.sampled_from(["stands", "old", "never read"]))
def test_a_heart_that_stands_raises_its_own_interlock_and_stops_no_other(still: set[str], lost: str) -> None:
    state = {"stands": Seen(False, 0.0, NOW_S - 1.0), "old": Seen(True, 2000.0, NOW_S - 20.1), "never read": None}[lost]
    seen = {name: known for name, known in THREE.seen.items() if name not in map(pump, still)}
    seen |= {} if state is None else {pump(heart): state for heart in still}
    view = replace(THREE.calm, seen=seen)
    trips = {trip.interlock: trip for trip in watch(view, THREE.limits).trips}
    assert set(trips) == {f"{NO_HEART_FLOW}.{heart}" for heart in still}
    stopped = (DRAW,) if still == set(HEARTS) else ()  # the other hearts mix the loop
    for heart in still:
        trip = trips[f"{NO_HEART_FLOW}.{heart}"]
        assert (trip.point, trip.actuators, trip.response) == (pump(heart), stopped, Response.OFF)
        assert heart in trip.detail or lost != "stands"
    for heart in HEARTS:  # those that stand may start, and the others go on
        assert THREE.ask(pump(heart), Run(2000.0), view) == Verdict(True, Run(2000.0))
    assert THREE.ask(DRAW, dose(500.0, 4000.0), view).accepted == (not stopped)


STEP_S = 20.0
WORDS = ("well", "pressed", "blind", "still")
"""What may happen to a heart in a step: nothing, a blocked line, a gauge without readings, a pump that stands."""


@settings(max_examples=80, deadline=None)
@given(course=st.lists(st.tuples(*(st.sampled_from(WORDS) for _ in HEARTS)), min_size=1, max_size=25))
def test_what_happens_to_one_heart_changes_nothing_for_another(course: list[tuple[str, str, str]]) -> None:
    """Each heart lives through the same as if the other two had been well all the time; only draws depend on all."""
    together = _lived(course)
    for number, heart in enumerate(HEARTS):
        alone = [tuple(word if other == number else "well" for other, word in enumerate(words)) for words in course]
        assert [step[heart] for step in together] == [step[heart] for step in _lived(alone)]


def _lived(course: Sequence[tuple[str, ...]]) -> list[dict[str, tuple[object, Verdict]]]:
    """Return for each step what each heart's interlocks show, and the verdict on its working flow."""
    memory, steps = Watch(), []
    for number, words in enumerate(course, 1):
        now_s = NOW_S + number * STEP_S
        view = _view(dict(zip(HEARTS, words, strict=True)), now_s, memory)
        memory = watch(view, THREE.limits)
        step: dict[str, tuple[object, Verdict]] = {}
        for heart in HEARTS:
            names = (f"{NO_HEART_FLOW}.{heart}", f"{OVER_PRESSURE_HEART}.to_{heart}")
            own = [replace(trip, actuators=()) for trip in memory.trips if trip.interlock in names]
            step[heart] = (own, THREE.ask(pump(heart), Run(2000.0), replace(view, watch=memory)))
        steps.append(step)
    return steps


def _view(words: dict[str, str], now_s: float, memory: Watch) -> View:
    readings: dict[str, Reading] = {}
    for point, good in THREE.good.items():
        readings[point] = replace(good, at_s=now_s, same_since_s=now_s)
    seen = {name: replace(known, at_s=now_s) for name, known in THREE.seen.items()}
    for heart, word in words.items():
        if word == "pressed":
            readings[gauge(heart)] = reading(70.0, at_s=now_s)
        elif word == "blind":
            del readings[gauge(heart)]
        elif word == "still":
            seen[pump(heart)] = Seen(False, 0.0, now_s)
    return replace(THREE.calm, now_s=now_s, readings=readings, seen=seen, watch=memory)
