"""Every decision of the safety kernel at and around its bounds, as lines of text.

`python -m tests.controller.safety.decisions` writes them to the files of `record/`. A test compares (test_record.py), so a
change of any bound, order or reason shows in review as a changed line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from math import inf, nan, nextafter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from controller.rig.description import Rig
from controller.rig.loading import load_rig
from controller.safety.interlocks import watch
from controller.safety.kernel import MAX_PULSE_S, MAX_TRANSFER_S, SLACK, SLACK_S, decide, transfer_limit_s
from controller.safety.limits import basal_states, limits_of, stale_s
from controller.safety.terms import (
    Airless,
    Cause,
    Intent,
    Limits,
    PumpTrust,
    Response,
    Seen,
    Trip,
    Underway,
    View,
    Watch,
)
from drivers.commands import Command, Dispense, Level, Quality, Run, Stop, Switch
from tests.controller.safety.facts import (
    AIR,
    CO2,
    DISCARD,
    DRAW,
    FEED,
    FILTER_PRESSURE,
    HEART,
    HEART_PRESSURE,
    HEATER,
    LIMITS,
    NOW_S,
    O2,
    PH,
    RETURN,
    TEMPERATURE,
    VALVE,
    Amount,
    Told,
    peace,
    with_reading,
    with_volumes,
)

FOLDER = Path(__file__).parent / "record"
RIGS = Path(__file__).resolve().parents[3] / "examples" / "rigs"
HOUR_S = 3600.0


def around(value: float) -> tuple[float, float, float]:
    """The floats right below, at and right above `value`."""
    return nextafter(value, -inf), value, nextafter(value, inf)


# --- limits -----------------------------------------------------------------------------------------------


def flat(name: str, value: object) -> Iterator[str]:
    """Write nested data as one line for each leaf."""
    if is_dataclass(value) and not isinstance(value, type) and not isinstance(value, Run | Level | Switch | Stop):
        for field in fields(value):
            yield from flat(f"{name}.{field.name}", getattr(value, field.name))
    elif isinstance(value, Mapping):
        for key in value:
            yield from flat(f"{name}[{key}]", value[key])
    elif isinstance(value, tuple) and value and is_dataclass(value[0]):
        for number, each in enumerate(value):
            yield from flat(f"{name}[{getattr(each, 'name', number)}]", each)
    else:
        yield f"{name} = {value!r}"


def changed_rig(*changes: tuple[str, str]) -> Rig:
    """The bench rig with parts of its text replaced."""
    text = (RIGS / "bench.yaml").read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rig.yaml"
        path.write_text(text, encoding="utf-8")
        return load_rig(path)


def thermostat_rig() -> Rig:
    """The bench rig with a bath instead of a heater, and a gas flow whose shares are no round numbers."""
    return changed_rig(
        ("devices:\n", 'devices:\n  bath: {model: julabo, link: "sim:bath", every: 5 s}\n'),
        ("heater: relay.heater", "heater: bath.setpoint"),
        ("trips: [relay.heater]", "trips: [bath.setpoint]"),
        ("total_flow: 50 mL/min", "total_flow: 47.111 mL/min"),
    )


def limits_lines(rig: Rig) -> Iterator[str]:
    """The limits of a rig."""
    yield from flat("limits", limits_of(rig))
    yield from flat("basal", basal_states(rig))
    for actuator in basal_states(rig):
        yield f"stale_s({actuator}) = {stale_s(rig, actuator)!r}"


# --- decisions --------------------------------------------------------------------------------------------


def decision(note: str, actuator: str, command: Command, view: View, limits: Limits = LIMITS) -> str:
    """One line: the case, and the verdict."""
    verdict = decide(Intent(actuator, command, "test", "a test"), view, limits)
    said = " | ".join(verdict.reasons)
    return f"{note} :: {actuator} {command} -> {verdict.accepted} {verdict.command} [{said}] ({verdict.limiting})"


def dose(ul: float, flow: float = 4000.0, name: str = "d") -> Dispense:
    """A dose."""
    return Dispense(ul, flow, name)


def _commands() -> Iterator[Command]:
    yield from (Stop(), Switch(False), Switch(False, 5.0), Switch(True), Run(1000.0), Level(1.0), dose(1000.0))


def heart_lines() -> Iterator[str]:
    """Flows of the heart."""
    pump = LIMITS.pumps[HEART]
    flows = (*around(pump.min_ul_min), *around(pump.max_ul_min), *around(0.0), 2000.0, 9000.0, -1.0, nan, inf, -inf)
    for flow in flows:
        yield decision("peace", HEART, Run(flow), peace())
    for command in _commands():
        yield decision("peace", HEART, command, peace())
        yield decision("peace", "no.such", command, peace())


def transfer_lines() -> Iterator[str]:
    """Doses: volumes, flows, durations, company, valves, calibrations."""
    for pump in (name for name, each in LIMITS.pumps.items() if each.role == "transfer"):
        most = LIMITS.pumps[pump].max_ul_min
        for flow in around(most):
            yield decision("flow", pump, dose(500.0, flow), peace())
        for command in (*_commands(), dose(0.0), dose(-1.0), dose(nan), dose(inf), dose(1.0, 0.0), dose(1.0, nan)):
            yield decision("peace", pump, command, peace())
        for other in LIMITS.pumps:
            for running in (True, False):
                for name in ("d", "e"):
                    view = peace(underway=(Underway(other, 700.0, name, running),))
                    yield decision(f"{other} {name} running={running}", pump, dose(500.0), view)
        yield decision("calibration", pump, dose(500.0), peace(pumps={pump: PumpTrust("it expired")}))
    longest_ul = (MAX_TRANSFER_S - SLACK_S) / SLACK * 100.0 / 60.0
    for ul in (*around(longest_ul), longest_ul * 2):
        yield decision("duration", FEED, dose(ul, 100.0), with_volumes(reservoir=Amount(400_000.0, 0.0)))
        yield f"transfer_limit_s({ul!r} at 100) = {transfer_limit_s(dose(ul, 100.0))!r}"
    yield f"transfer_limit_s(1000 at 4000) = {transfer_limit_s(dose(1000.0))!r}"
    yield from _room_lines()
    for age in around(LIMITS.switch_stale_s[VALVE]):
        seen = {**peace().seen, VALVE: Seen(True, 1.0, NOW_S - age)}
        yield decision(f"valve seen {age!r} s ago", RETURN, dose(500.0), peace(seen=seen))
    unbounded = replace(LIMITS, switch_stale_s={})
    for age in (0.0, 0.5):
        seen = {**peace().seen, VALVE: Seen(True, 1.0, NOW_S - age)}
        yield decision(
            f"valve without a stale time, seen {age} s ago", RETURN, dose(500.0), peace(seen=seen), unbounded
        )
    for changed in ({VALVE: Seen(False, 0.0, NOW_S - 1.0)}, {}):
        seen = {name: each for name, each in peace().seen.items() if name != VALVE} | changed
        yield decision(f"valve {changed}", RETURN, dose(500.0), peace(seen=seen))


def _room_lines() -> Iterator[str]:
    floor = LIMITS.vessels["loop"].floor_ul
    ceiling = LIMITS.vessels["spent"].ceiling_ul
    for sd in (0.0, 64.0):
        for ul in around(floor + 1024.0 + 3 * sd):
            yield decision(f"loop {ul!r} ± {sd:g}", DRAW, dose(1024.0), with_volumes(loop=Amount(ul, sd)))
        for ul in around(ceiling - 1024.0 - 3 * sd):
            yield decision(f"spent {ul!r} ± {sd:g}", DRAW, dose(1024.0), with_volumes(spent=Amount(ul, sd)))
    yield decision("loop nan", DRAW, dose(1024.0), with_volumes(loop=Amount(nan)))
    yield decision("spent nan", DRAW, dose(1024.0), with_volumes(spent=Amount(nan)))
    for lost in ("loop", "spent"):
        volumes = {name: each for name, each in peace().volumes.items() if name != lost}
        yield decision(f"{lost} unknown", DRAW, dose(1024.0), peace(volumes=volumes))
    # What another pump still moves takes room in the same vessel; it never makes any.
    for other, vessel in ((FEED, "spent"), (DISCARD, "spent"), (RETURN, "loop"), ("no.such", "loop"), (DRAW, "loop")):
        for ul in around(ceiling - 1024.0 - 256.0):
            for running in (True, False):
                view = replace(
                    with_volumes(spent=Amount(ul, 0.0), loop=Amount(30_000.0, 0.0)),
                    underway=(Underway(other, 256.0, "e", running),),
                )
                yield decision(f"{other} still moves 256 ({running}), spent {ul!r}", DRAW, dose(1024.0), view)
        for ul in around(floor + 1024.0 + 256.0):
            view = replace(
                with_volumes(loop=Amount(ul, 0.0), spent=Amount(10_000.0, 0.0)),
                underway=(Underway(other, 256.0, "e", False),),
            )
            yield decision(f"{other} still moves 256, {vessel}; loop {ul!r}", DRAW, dose(1024.0), view)
    for gain in (0.5, 2.0):
        for ul in around(ceiling - 1024.0 * gain):
            view = replace(with_volumes(spent=Amount(ul, 0.0)), pumps={DRAW: PumpTrust(gain=gain)})
            yield decision(f"gain {gain:g}, spent {ul!r}", DRAW, dose(1024.0), view)
        for ul in around(ceiling - 1024.0 - 256.0 * gain):
            view = replace(
                with_volumes(spent=Amount(ul, 0.0)),
                pumps={FEED: PumpTrust(gain=gain)},
                underway=(Underway(FEED, 256.0, "e", False),),
            )
            yield decision(f"gain of the other {gain:g}, spent {ul!r}", DRAW, dose(1024.0), view)


def level_lines() -> Iterator[str]:
    """Yield decisions on gases, single and as a mixture, with and without a reading of air; on a bath."""
    for gas in (AIR, CO2, O2):
        low, high = LIMITS.levels[gas]
        for value in (*around(low), *around(high), high * 3, nan, inf, -inf):
            yield decision("peace", gas, Level(value), peace())
        for command in _commands():
            yield decision("peace", gas, command, peace())
    mixture = LIMITS.mixture
    assert mixture is not None
    max_share = mixture.max_co2
    told_flows = (0.0, 3.0, 10.0, 47.0)
    for air in told_flows:
        for co2 in (0.0, 1.0, 3.0, 4.5):
            for o2 in (0.0, 20.0):
                seen = {
                    **peace().seen,
                    AIR: Seen(True, air, NOW_S),
                    CO2: Seen(True, co2, NOW_S),
                    O2: Seen(True, o2, NOW_S),
                }
                view = peace(seen=seen)
                for gas, value in ((AIR, 2.0), (AIR, air), (CO2, 4.5), (CO2, 0.5), (O2, 0.0), (O2, 10.0)):
                    yield decision(f"air {air:g} co2 {co2:g} o2 {o2:g}", gas, Level(value), view)
                others = air + o2
                for value in around((max_share + 0.001) * others / (1.0 - max_share - 0.001)):
                    yield decision(f"air {air:g} co2 {co2:g} o2 {o2:g} edge", CO2, Level(value), view)
                airless = peace(seen=seen, watch=Watch(airless=Airless(600.0)))
                for oxygen in (None, Told(0.0), Told(6.0), Told(6.0, Quality.SUSPECT)):
                    readings = with_reading(O2, oxygen).readings
                    for gas, value in ((CO2, 3.0), (O2, 4.0), (AIR, 1.0)):
                        unread = replace(airless, readings=readings)
                        yield decision(f"no air; told {air:g} {co2:g} {o2:g} read {oxygen}", gas, Level(value), unread)
    for missing in (AIR, CO2, O2):
        seen = {name: each for name, each in peace().seen.items() if name != missing}
        for no_air in (None, Airless(600.0), Airless(600.0, trusted=True)):
            for o2 in (0.5, 6.0):
                view = replace(with_reading(O2, Told(o2)), seen=seen, watch=Watch(airless=no_air))
                for gas in (AIR, CO2, O2):
                    for value in (0.25, 0.5, 4.0, 47.0):
                        yield decision(f"{missing} never seen, O2 {o2:g}, {no_air}", gas, Level(value), view)
    # Exactly what the air controller can give carries the CO2 away.
    high = LIMITS.levels[AIR][1]
    co2 = high * max_share / (1.0 - max_share)
    for told_co2 in (*around(co2), co2 * 1.1):
        seen = {
            **peace().seen,
            CO2: Seen(True, told_co2, NOW_S),
            O2: Seen(True, 0.0, NOW_S),
            AIR: Seen(True, high, NOW_S),
        }
        yield decision(f"co2 {told_co2!r} with full air", AIR, Level(1.0), peace(seen=seen))
    bath = limits_of(thermostat_rig())
    for name in bath.heaters:
        if name in bath.levels:
            for bound in bath.levels[name]:
                for value in around(bound):
                    yield decision("a bath", name, Level(value), peace(), bath)
            for command in _commands():
                yield decision("a bath", name, command, peace(), bath)


def switch_lines() -> Iterator[str]:
    """The heater and the valve."""
    times = (None, *around(MAX_PULSE_S), 1.0, *around(0.0), nan, inf, 600.0)
    for name in (HEATER, VALVE):
        for for_s in times:
            yield decision("peace", name, Switch(True, for_s), peace())
            if name == HEATER:
                yield decision("cold", name, Switch(True, for_s), with_reading(TEMPERATURE, Told(30.0)))
        for command in _commands():
            yield decision("peace", name, command, peace())
    for value in (36.0, 37.0, 38.0, *around(38.5), *around(39.5)):
        for same_s in (0.0, 5.0, 11.0, 12.0, 20.0, 60.0, 180.0):
            told = Told(value, same_since_s=NOW_S - same_s)
            yield decision(f"{value!r} for {same_s:g} s", HEATER, Switch(True, 20.0), with_reading(TEMPERATURE, told))


def interlocked_lines() -> Iterator[str]:
    """Emergency and trips of each response, for every actuator."""
    asked: dict[str, tuple[Command, ...]] = {
        HEART: (Run(500.0), Run(1000.0), Run(2000.0), Run(9000.0)),
        HEATER: (Switch(True, 5.0), Switch(False)),
        VALVE: (Switch(True), Switch(False)),
        AIR: (Level(10.0), LIMITS.basal[AIR]),
        CO2: (Level(1.0), LIMITS.basal[CO2]),
        O2: (Level(1.0), LIMITS.basal[O2]),
    }
    asked |= {pump: (dose(500.0), Stop()) for pump in (DRAW, RETURN, DISCARD, FEED)}
    worlds = {"emergency": peace(emergency="ben: fire")}
    for response in Response:
        for latched, present in ((True, True), (False, True), (False, False), (True, False)):
            trip = Trip(
                "temperature", TEMPERATURE, "41 is above 38.5", NOW_S - 5.0, tuple(asked), latched, Cause.HIGH,
                response, NOW_S - 1.0, present,
            )  # fmt: skip
            worlds[f"{response} latched={latched} present={present}"] = peace(watch=Watch((trip,)))
    readings = (None, Told(41.0), Told(30.0), Told(37.0, Quality.MISSING), Told(41.0, Quality.SUSPECT))
    for told in readings:
        worlds[f"temperature {told}"] = with_reading(TEMPERATURE, told)
        worlds[f"bypassed, temperature {told}"] = replace(
            with_reading(TEMPERATURE, told), bypassed=frozenset({"temperature"})
        )
    for point in (HEART_PRESSURE, FILTER_PRESSURE):
        for told in (None, Told(200.0), Told(-80.0), Told(2000.0)):
            worlds[f"{point} {told}"] = with_reading(point, told)
    for what, view in worlds.items():
        for actuator, commands in asked.items():
            for command in commands:
                yield decision(what, actuator, command, view)


# --- what is remembered -----------------------------------------------------------------------------------


def remembered(view: View, limits: Limits = LIMITS) -> tuple[Watch, str]:
    """Look once; returns the memory and its text."""
    found = watch(view, limits)
    trips = "; ".join(
        f"{t.interlock} {t.point} {t.cause} {t.response} latched={t.latched} present={t.present} since"
        f" {t.since_s - NOW_S:g} seen {t.seen_s - NOW_S:g} {t.actuators}: {t.detail}"
        for t in found.trips
    )
    strikes = [(name, at_s - NOW_S) for name, at_s in found.strikes]
    rich = None if found.rich_since_s is None else found.rich_since_s - NOW_S
    crossings = [(c.interlock, c.cause, c.since_s - NOW_S, c.reading_s - NOW_S, c.detail) for c in found.crossings]
    return found, f"[{trips}] strikes {strikes} rich {rich} airless {found.airless} crossings {crossings}"


def course(
    note: str, steps: Iterator[tuple[float, dict[str, Any]]] | list[tuple[float, dict[str, Any]]]
) -> Iterator[str]:
    """Look at a rig whose readings change: `steps` are (seconds since the last look, readings by point or fields)."""
    now_s, memory = NOW_S, Watch()
    readings: dict[str, Told | None] = dict(peace().readings)  # type: ignore[arg-type]
    rest: dict[str, Any] = {}
    for after_s, changes in steps:
        now_s += after_s
        for name, value in changes.items():
            if name in ("seen", "underway", "bypassed"):
                rest[name] = value
            elif value is None or isinstance(value, Told):
                readings[name] = value
            else:
                readings[name] = Told(float(value), at_s=now_s, same_since_s=now_s)
        fresh = {
            name: told if name in changes else replace(told, at_s=now_s, same_since_s=now_s)
            for name, told in readings.items()
            if told is not None
        }
        default_seen = {name: replace(each, at_s=now_s) for name, each in peace().seen.items()}
        view = replace(peace(), now_s=now_s, readings=fresh, watch=memory, **({"seen": default_seen} | rest))
        memory, text = remembered(view)
        shown = {name: getattr(value, "value", value) for name, value in changes.items()}
        yield f"{note} {now_s - NOW_S:g} s {shown} -> {text}"


def watch_lines() -> Iterator[str]:
    """Levels, deadbands, debounce, holds, strikes, doubts, gas and valves over time."""
    for rule in LIMITS.interlocks:
        point = rule.point
        for bound, sign in ((rule.high, 1.0), (rule.low, -1.0)):
            if abs(bound) == inf:
                continue
            inside = bound - sign * (rule.deadband + 1.0)
            for value in around(bound):
                yield from course(f"{rule.name} {value!r}", [(1.0, {point: value}), (1.0, {point: value}), (1.0, {})])
            clears = bound - sign * rule.deadband
            for value in around(clears):
                steps = [(1.0, {point: bound + sign * 5}), (1.0, {point: bound + sign * 5})]
                yield from course(f"{rule.name} clears {value!r}", [*steps, *[(1.0, {point: value})] * 3])
            once = [(1.0, {point: bound + sign * 5}), (1.0, {point: inside}), (1.0, {point: inside}), (1.0, {})]
            yield from course(f"{rule.name} one reading", once)
            repeated = []
            for _ in range(5):
                repeated += [(1.0, {point: bound + sign * 5})] * 3
                repeated += [(20.0, {point: inside})] * 20
            yield from course(f"{rule.name} again and again", repeated)
            slow = [(700.0, {point: bound + sign * 5}), (1.0, {point: bound + sign * 5}), (1.0, {point: inside})] * 4
            yield from course(f"{rule.name} seldom", slow)
        for what in (*around(rule.valid_min), *around(rule.valid_max), nan, inf):
            yield from course(f"{rule.name} says {what!r}", [(1.0, {point: what}), (1.0, {})])
        for quality in Quality:
            told = [
                (1.0, {point: Told(value, quality, NOW_S + 1.0, NOW_S + 1.0, Told(37.0, at_s=NOW_S))})
                for value in (20.0, 37.0, 90.0)
            ]
            for step in told:
                yield from course(f"{rule.name} {quality}", [step, (1.0, {}), (rule.debounce_s, {}), (1.0, {})])
        yield from course(f"{rule.name} lost", [(1.0, {point: None}), (1.0, {}), (1.0, {point: 20.0}), (1.0, {})])
        for age in (*around(rule.stale_s), *around(-1.0)):
            old = Told(20.0, at_s=NOW_S + 1.0 - age, same_since_s=NOW_S + 1.0 - age)
            yield from course(f"{rule.name} {age!r} s old", [(1.0, {point: old})])
        for age in (*around(rule.stale_s), *around(-1.0)):
            suspect = Told(90.0, Quality.SUSPECT, NOW_S + 1.0 - age, NOW_S, Told(37.0, at_s=NOW_S))
            yield from course(f"{rule.name} suspect, {age!r} s old", [(1.0, {point: suspect}), (1.0, {})])
        high = rule.high + 5.0
        doubtful = Told(20.0, Quality.SUSPECT, NOW_S + 2.0, NOW_S, Told(high, at_s=NOW_S + 1.0))
        later = [(each, {point: replace(doubtful, at_s=NOW_S + 3.0)}) for each in (rule.debounce_s, 1.0)]
        unsure: list[tuple[float, dict[str, Any]]] = [(1.0, {point: high}), (1.0, {point: doubtful}), *later]
        yield from course(f"{rule.name} once beyond, then suspect", unsure)
        if rule.flat_s:
            for age in around(rule.flat_s):
                same = Told(37.0, at_s=NOW_S + 1.0, same_since_s=NOW_S + 1.0 - age)
                yield from course(f"{rule.name} the same for {age!r} s", [(1.0, {point: same})])
    yield from _gas_courses()
    yield from _flow_courses()


def _gas_courses() -> Iterator[str]:
    mixture = LIMITS.mixture
    assert mixture is not None
    share = mixture.trip_co2
    for co2 in (*around(47.0 * share / (1.0 - share)), 20.0):
        steps: list[tuple[float, dict[str, Any]]] = [(1.0, {CO2: co2})]
        steps += [(each, {}) for each in (mixture.delay_s - 1.0, 1.0, 1.0)]
        steps += [(1.0, {CO2: 0.0}), (mixture.hold_s - 2.0, {}), (1.0, {}), (1.0, {}), (1.0, {})]
        yield from course(f"CO2 {co2!r}", steps)
    for missing in ((CO2,), (AIR,), (O2,), (AIR, O2), (AIR, CO2)):
        yield from course(f"{missing} lost", [(1.0, dict.fromkeys(missing)), (1.0, {}), (30.0, {})])
    for value in (*around(mixture.ph_shut), *around(mixture.ph_alkaline), 6.0):
        steps = [(1.0, {AIR: None, PH: value}), (1.0, {}), (mixture.airless_hold_s, {}), (1.0, {})]
        steps += [(1.0, {PH: 7.9}), (mixture.trial_s - 1.0, {}), (1.0, {}), (1.0, {PH: 7.0}), (1.0, {})]
        steps += [(40.0, {PH: 7.9}), (2.0 * mixture.trial_s, {}), (1.0, {}), (1.0, {AIR: 47.0}), (1.0, {})]
        yield from course(f"no air, pH {value!r}", steps)
    for age in (*around(mixture.ph_stale_s), *around(180.0)):
        steps = [(1.0, {AIR: None, PH: Told(7.4, at_s=NOW_S + 1.0 - age, same_since_s=NOW_S + 1.0 - age)})]
        yield from course(f"no air, pH {age!r} s old", steps)
        steps = [(1.0, {AIR: None, PH: Told(7.4, at_s=NOW_S + 1.0, same_since_s=NOW_S + 1.0 - age)})]
        yield from course(f"no air, pH the same for {age!r} s", steps)
    for quality in Quality:
        told = Told(7.4, quality, NOW_S + 1.0, NOW_S + 1.0)
        yield from course(f"no air, pH {quality}", [(1.0, {AIR: None, PH: told}), (1.0, {})])
        gas = Told(20.0, quality, NOW_S + 1.0, NOW_S + 1.0)
        yield from course(f"CO2 {quality}", [(1.0, {CO2: gas}), (25.0, {CO2: replace(gas, at_s=NOW_S + 26.0)})])
    for age in (*around(mixture.stale_s), *around(-1.0)):
        told = Told(20.0, at_s=NOW_S + 1.0 - age, same_since_s=NOW_S)
        yield from course(f"CO2 {age!r} s old", [(1.0, {CO2: told}), (25.0, {})])
    yield from course("all gas shut", [(1.0, {AIR: 0.0, CO2: 0.0, O2: 0.0}), (30.0, {})])
    yield from course("gas flows backwards", [(1.0, {AIR: -1.0, CO2: 3.0, O2: -1.0}), (30.0, {})])


def _flow_courses() -> Iterator[str]:
    def seen(**changes: Seen | None) -> dict[str, Seen]:
        now = {name: replace(each, at_s=NOW_S + 1.0) for name, each in peace().seen.items()}
        return {name: each for name, each in (now | {HEART: changes.get("heart", now[HEART])}).items() if each}

    for age in around(LIMITS.hearts[0].stale_s):
        old = seen(heart=Seen(True, 2000.0, NOW_S + 1.0 - age))
        yield from course(f"heart seen {age!r} s ago", [(1.0, {"seen": old})])
    yield from course("heart stands", [(1.0, {"seen": seen(heart=Seen(False, 0.0, NOW_S + 1.0))})])
    yield from course("heart never seen", [(1.0, {"seen": seen(heart=None)})])
    for open_ in (True, False):
        valve = {**seen(), VALVE: Seen(open_, 1.0, NOW_S + 1.0)}
        for pump in (RETURN, DRAW, "no.such"):
            for running in (True, False):
                steps = [(1.0, {"seen": valve, "underway": (Underway(pump, 100.0, "d", running),)})]
                yield from course(f"valve open={open_}, {pump} running={running}", steps)
    for name in ("temperature", "over_pressure_heart"):
        hot = [(1.0, {TEMPERATURE: 41.0, HEART_PRESSURE: 90.0})] * 3
        yield from course(f"{name} bypassed", [*hot, (1.0, {"bypassed": frozenset({name})}), *hot])


RECORDS: dict[str, Callable[[], Iterator[str]]] = {
    "limits_bench": lambda: limits_lines(load_rig(RIGS / "bench.yaml")),
    "limits_bench_dialysis": lambda: limits_lines(load_rig(RIGS / "bench_dialysis.yaml")),
    "limits_thermostat": lambda: limits_lines(thermostat_rig()),
    "heart": heart_lines,
    "transfers": transfer_lines,
    "levels": level_lines,
    "switches": switch_lines,
    "interlocked": interlocked_lines,
    "watch": watch_lines,
}


def main() -> None:
    """Write all records."""
    for name, lines in RECORDS.items():
        (FOLDER / f"{name}.txt").write_text("\n".join(lines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
