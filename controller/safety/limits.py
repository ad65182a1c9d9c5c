"""The kernel's limits and the basal states, derived from the rig description."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from controller.rig.description import PressureLimit, Rig, TemperatureLimit
from controller.rig.dosing import dosing_paths, levels_of
from controller.rig.families import by_thermostat, max_flow_ul_min
from controller.rig.graph import heart_of_line, vessels_behind
from controller.rig.heating import heating_c_per_s, warmed_chambers
from controller.rig.organ_lines import organ_lines
from controller.rig.organs import HeartConfig, LungConfig, SkinConfig
from controller.rig.part import MAX_UL_MIN
from controller.rig.perfusion import fed_by, of_heart
from controller.rig.probes import shows_chamber
from controller.rig.selectors import paths
from controller.rig.temperature_limits import sees_tissue
from controller.safety.interlocks import NO_HEART_FLOW
from controller.safety.terms import (
    HeartLimits,
    Interlock,
    Limits,
    Mixture,
    PumpLimits,
    Response,
    SelectedWay,
    SelectorLimits,
    VesselLimits,
)
from drivers.commands import Command, Level, Run, Stop, Switch

FLAT_TEMPERATURE_S = 180.0
"""Maximum time (s) without a change: the last digit of a live probe moves (0.001 °C). With a probe stuck half a degree low
the heater overheats the tissue: by 1 K in three minutes, by 8 K in half an hour."""
TEMPERATURE_DEADBAND_C = 0.1
CEILING_C = 39.5
"""No heater pulse may bring the chamber above this temperature, whatever the probe shows meanwhile."""
MAX_RISE_C_PER_S = 0.2
"""Upper bound on the heating rate of any rig, however little medium its file names: glass and tubing take up heat too."""
PRESSURE_DEADBAND = 0.1
"""Share of its limit by which a pressure must fall below it before its interlock clears."""
TEMPERATURE_DEBOUNCE_S = 5.0
"""A heater at full power warms the medium of a small rig by at most 0.1 K a second (15 W in 42 mL): half a degree within this
time, and tissue bears 39 °C for minutes."""
PRESSURE_DEBOUNCE_S = 1.0
"""A blocked line gains some 5 kPa a second (tests/sim: an occluded heart passes its limit in about ten). The gauge is read
again at once, and tubing holds several times its limit."""
PRESSURE_HOLD_S = 60.0
"""Minimum time (s) that a pump stands after an over-pressure trip, however fast the pressure falls."""
PRESSURE_STRIKES = 3
"""Permitted trips in half an hour: a bubble or a kink may free itself, a clot does not, and repeated tries burst tubing."""
HEART_MAX_HOLD_S = 300.0
"""The heart is retried without limit, at growing intervals and at its basal flow: tissue without circulation dies for
certain, and a try ends within seconds where the line is still blocked."""
HEART_PROBATION_S = 120.0
TEMPERATURE, STORAGE_TEMPERATURE = "temperature", "storage_temperature"
"""The interlocks of temperature where tissue lives, and where none does. A further limit has a full stop and its name behind
it."""
OVER_PRESSURE_HEART = "over_pressure_heart"
"""The interlock of the only heart. A limit by line has a full stop and the name of the heart's line behind it."""
GAUGE_KPA = (-90.0, 1500.0)
BATH_MAX_BELOW_K = 5.0
"""Maximum distance of a thermostat's set-point below the skin's, for a room warmer than the tissue: no bath may chill it."""
PROBE_C = (0.0, 60.0)
"""Range of a working sensor (°C)."""
BASAL_CO2_FRACTION = 0.06
"""CO2 share in the basal gas: pH near 7.4 in a 26 mM bicarbonate medium."""
MAX_O2_FRACTION = 0.4
CO2_TRIP_OVER = 0.05
"""A measured CO2 share this much (0..1) above the rig's maximum means that air has failed."""
PH_SHUT_UNDER, PH_ALKALINE_OVER = 0.05, 0.30
"""Distances from the pH set-point that decide on CO2 while the air flow is unknown. In CO2 alone pH falls by 0.3 in ten
seconds."""
BRANCH_MARGIN = 1.5
"""Factor on the calculated share of a branch: bores that differ by a tenth give flows that differ by half."""
WHOLE = 1.0 - 1e-9
"""A share from which on nothing is divided: the way has no branch."""
POLLS_MISSED = 3
"""A status is stale after this many missed polls, plus `POLL_GRACE_S`."""
POLL_GRACE_S = 5.0


def limits_of(rig: Rig) -> Limits:
    """Return everything that bounds `rig`."""
    organs = rig.organs
    valves = sorted({line.valve for line in rig.lines.values() if line.valve})
    heaters = () if organs.skin is None else (organs.skin.heater,)
    watchdog = () if rig.safety.watchdog is None else (rig.safety.watchdog.relay,)
    motors = tuple(each.switch for each in rig.agitators.values() if each.switch is not None)
    switches = (*(() if by_thermostat(rig) else heaters), *valves, *watchdog, *motors)
    return Limits(
        basal=basal_states(rig),
        pumps=_pumps(rig),
        vessels={name: VesselLimits(vessel.floor_ul, vessel.limit_ul) for name, vessel in rig.vessels.items()},
        heaters=(*heaters, *watchdog),  # the watchdog's relay, too, is only closed for a finite time
        switches=switches,
        levels=_levels(rig),
        interlocks=_interlocks(rig),
        hearts=tuple(_heart(rig, name, heart) for name, heart in organs.hearts.items()),
        switch_stale_s={name: stale_s(rig, name) for name in switches},
        mixture=None if organs.lung is None else _mixture(rig, organs.lung),
        selectors=_selectors(rig),
    )


def pumps_of_selectors(rig: Rig) -> dict[str, tuple[str, ...]]:
    """Return the pumps whose medium passes each selector, by the selector's valve."""
    found: dict[str, dict[str, None]] = {selector.valve: {} for selector in rig.selectors.values()}
    for path in paths(rig):
        for name, _ in path.positions:
            found[rig.selectors[name].valve][path.pump] = None
    return {valve: tuple(pumps) for valve, pumps in found.items()}


def _selectors(rig: Rig) -> dict[str, SelectorLimits]:
    levels: dict[str, set[float]] = {}
    for path in dosing_paths(rig):
        for valve, level in levels_of(rig, path).items():
            levels.setdefault(valve, {0.0}).add(level)
    return {
        valve: SelectorLimits(frozenset(levels.get(valve, {0.0})), pumps, stale_s(rig, valve))
        for valve, pumps in pumps_of_selectors(rig).items()
    }


def _heart(rig: Rig, name: str, heart: HeartConfig) -> HeartLimits:
    line = rig.lines[heart.line]
    pump = line.pump or ""
    loop = line.from_ if rig.vessels[line.from_].kind == "loop" else None
    only = len(rig.organs.hearts) == 1
    return HeartLimits(
        title="the heart" if only else f"heart {name}",
        interlock=of_heart(rig, NO_HEART_FLOW, name),
        pump=pump,
        stale_s=stale_s(rig, pump),
        lease_s=heart.lease_s,
        draws=draws_from(rig, fed_by(rig, heart)),
        loop=loop or "",
        loop_draws=() if loop is None else draws_from(rig, {loop}),
    )


def draws_from(rig: Rig, vessels: Collection[str]) -> tuple[str, ...]:
    """Return the pumps that draw medium from any of `vessels`, without those of hearts, in the file's order."""
    hearts = heart_pumps(rig)
    pumps = (line.pump for line in rig.lines.values() if line.pump is not None and line.from_ in vessels)
    return tuple(pump for pump in pumps if pump not in hearts)


def heart_pumps(rig: Rig) -> dict[str, str]:
    """Return the pumps of the hearts with the heart's name. The pump may have cassettes on further lines."""
    pumps = {name: rig.lines[heart.line].pump for name, heart in rig.organs.hearts.items()}
    return {pump: name for name, pump in pumps.items() if pump is not None}


def _levels(rig: Rig) -> dict[str, tuple[float, float]]:
    """Return the range of each continuous set-point: gas flows (mL/min), the bath (°C), speeds of agitators (rpm)."""
    lung, skin = rig.organs.lung, rig.organs.skin
    levels: dict[str, tuple[float, float]] = {}
    if lung is not None:
        levels |= {
            lung.air: (0.0, lung.total_ml_min),
            lung.co2: (0.0, lung.total_ml_min * lung.co2_max_pct / 100.0),
            lung.o2: (0.0, lung.total_ml_min * MAX_O2_FRACTION),
        }
    if skin is not None and by_thermostat(rig):
        levels[skin.heater] = _bath_c(rig, skin)
    levels |= {each.setpoint: (0.0, each.speed_rpm) for each in rig.agitators.values() if each.setpoint is not None}
    return levels


def _mixture(rig: Rig, lung: LungConfig) -> Mixture:
    return Mixture(
        lung.air,
        lung.co2,
        lung.o2,
        max_co2=lung.co2_max_pct / 100.0,
        trip_co2=lung.co2_max_pct / 100.0 + CO2_TRIP_OVER,
        stale_s=max(stale_s(rig, gas) for gas in (lung.air, lung.co2, lung.o2)),
        ph=lung.ph,
        ph_shut=lung.ph_setpoint - PH_SHUT_UNDER,
        ph_alkaline=lung.ph_setpoint + PH_ALKALINE_OVER,
        ph_stale_s=stale_s(rig, lung.ph),
        airless_co2=BASAL_CO2_FRACTION,
    )


def basal_states(rig: Rig) -> dict[str, Command]:
    """Return the basal state of each actuator (docs/rig.md): hearts circulate, gas flows, agitators run, all else rests."""
    lung, skin = rig.organs.lung, rig.organs.skin
    basal: dict[str, Command] = {}
    if lung is not None:
        co2 = lung.total_ml_min * BASAL_CO2_FRACTION
        basal[lung.air] = Level(round(lung.total_ml_min - co2, 2))
        basal[lung.co2] = Level(round(co2, 2))
        basal[lung.o2] = Level(0.0)
    if skin is not None:
        basal[skin.heater] = Stop() if by_thermostat(rig) else Switch(False)
    basal |= {selector.valve: Stop() for selector in rig.selectors.values()}
    for line in rig.lines.values():
        if line.pump is not None:
            basal[line.pump] = Stop()
        if line.valve is not None:
            basal[line.valve] = Switch(False)
    if rig.safety.watchdog is not None:
        basal[rig.safety.watchdog.relay] = Switch(False)
    for agitator in rig.agitators.values():  # tissue that settles clumps: what keeps it in motion goes on
        if agitator.switch is not None:
            basal[agitator.switch] = Switch(True)
        if agitator.setpoint is not None:
            basal[agitator.setpoint] = Level(agitator.speed_rpm)
    basal |= {pump: Run(rig.organs.hearts[name].basal_ul_min) for pump, name in heart_pumps(rig).items()}
    return basal


def _bath_c(rig: Rig, skin: SkinConfig) -> tuple[float, float]:
    """Return the set-point range of a bath (°C): not above the chamber's limit, and not so cold that it chills the tissue."""
    limit = rig.safety.temperature
    return skin.setpoint_c - BATH_MAX_BELOW_K, skin.setpoint_c if limit is None else limit.high_c


def _pumps(rig: Rig) -> dict[str, PumpLimits]:
    kidney = rig.organs.kidney
    spent = None if kidney is None else kidney.vessel
    touching = [line.pump for line in rig.lines.values() if line.pump and spent in (line.from_, line.to)]
    hearts = heart_pumps(rig)
    flows = {each.line: each.max_ul_min for each in organ_lines(rig)}
    ways = _ways(rig)
    pumps = {}
    for name, line in rig.lines.items():
        if line.pump is None:
            continue
        if line.pump in hearts:
            heart = rig.organs.hearts[hearts[line.pump]]
            own = rig.lines[heart.line]
            pumps[line.pump] = PumpLimits("heart", own.from_, own.to, heart.min_ul_min, heart.max_ul_min)
            continue
        excludes = _others(line.pump, touching)
        # A line of no organ: its own maximum, else the kidney's flow bounds it (its dialysate), else what the pump can move.
        most = min(max_flow_ul_min(rig, line.pump), MAX_UL_MIN) if kidney is None else kidney.flow_ul_min
        max_ul_min = flows.get(name, line.max_flow_ul_min or most)
        pumps[line.pump] = PumpLimits(
            "transfer",
            line.from_,
            line.to,
            0.0,
            max_ul_min,
            line.valve,
            excludes,
            {} if name in ways else _fills(rig, name),
            line.draws_above_ul,
            ways.get(name, ()),
        )
    return pumps


def _ways(rig: Rig) -> dict[str, tuple[SelectedWay, ...]]:
    """Return the ways of each pumped line that selectors connect with vessels."""
    found: dict[str, tuple[SelectedWay, ...]] = {}
    for path in dosing_paths(rig):
        if path.positions:
            above_ul = rig.lines[path.lines[0]].draws_above_ul
            way = SelectedWay(levels_of(rig, path), path.source, path.target, above_ul)
            found[path.pumped] = (*found.get(path.pumped, ()), way)
    return found


def _fills(rig: Rig, line: str) -> dict[str, float]:
    """Return the vessels that the medium of a line can enter, with the largest share of it (0..1)."""
    shares = vessels_behind(rig, line)
    return {vessel: 1.0 if share >= WHOLE else min(BRANCH_MARGIN * share, 1.0) for vessel, share in shares.items()}


def _others(pump: str, touching: Sequence[str]) -> tuple[str, ...]:
    """Return the pumps that must stand while `pump` runs: the balance observes one transfer at a time."""
    return tuple(other for other in touching if other != pump) if pump in touching else ()


def _interlocks(rig: Rig) -> tuple[Interlock, ...]:
    warm, heart, sterile = rig.safety.temperature, rig.safety.over_pressure_heart, rig.safety.over_pressure_filter
    return (
        *(() if warm is None else (_temperature(rig, TEMPERATURE, warm, heated=True),)),
        *(_further_temperature(rig, name, limit) for name, limit in rig.safety.temperatures.items()),
        *(() if heart is None else (_heart_pressure(OVER_PRESSURE_HEART, heart),)),
        *(() if sterile is None else (_transfer_pressure("over_pressure_filter", sterile),)),
        *(_line_pressure(rig, line, limit) for line, limit in rig.safety.over_pressure.items()),
        *(
            Interlock(
                f"agitation_stopped.{name}", each.measured, (), each.stale_s, low=each.stands_below_rpm, unit="rpm"
            )
            for name, each in rig.agitators.items()
            if each.measured is not None
        ),
    )


def _line_pressure(rig: Rig, line: str, limit: PressureLimit) -> Interlock:
    interlock = _transfer_pressure if heart_of_line(rig, line) is None else _heart_pressure
    return interlock(pressure_interlock(rig, line), limit)


def pressure_interlock(rig: Rig, line: str) -> str:
    """Return the name of the interlock that `safety.over_pressure` describes for a line."""
    return f"over_pressure_{line}" if heart_of_line(rig, line) is None else f"{OVER_PRESSURE_HEART}.{line}"


def _further_temperature(rig: Rig, name: str, limit: TemperatureLimit) -> Interlock:
    heated = any(shows_chamber(rig, limit.point, chamber) for chamber in warmed_chambers(rig))
    kind = TEMPERATURE if sees_tissue(rig, limit.point) else STORAGE_TEMPERATURE
    return _temperature(rig, f"{kind}.{name}", limit, heated=heated)


def _temperature(rig: Rig, name: str, limit: TemperatureLimit, *, heated: bool) -> Interlock:
    # The heater always trips where it warms what the thermometer shows, even if the rig file omits it.
    heaters = () if rig.organs.skin is None or not heated else (rig.organs.skin.heater,)
    return Interlock(
        name,
        limit.point,
        tuple(dict.fromkeys((*limit.trips, *heaters))),
        limit.stale_s,
        high=limit.high_c,
        low=limit.low_c,
        unit="degC",
        valid_min=PROBE_C[0],
        valid_max=PROBE_C[1],
        flat_s=FLAT_TEMPERATURE_S
        if sees_tissue(rig, limit.point) or name == TEMPERATURE
        else 0.0,  # a full one is steady
        deadband=TEMPERATURE_DEADBAND_C,
        debounce_s=TEMPERATURE_DEBOUNCE_S,
        ceiling=CEILING_C,
        # A bath is bounded by its own set-point instead.
        rise_per_s=0.0 if by_thermostat(rig) or not heated else min(heating_c_per_s(rig), MAX_RISE_C_PER_S),
    )


def _heart_pressure(name: str, limit: PressureLimit) -> Interlock:
    """Return the interlock of a heart's line: the heart goes on at its basal flow while the gauge cannot be trusted."""
    return Interlock(
        name,
        limit.point,
        limit.trips,
        limit.stale_s,
        high=limit.high_kpa,
        unit="kPa",
        valid_min=GAUGE_KPA[0],
        valid_max=GAUGE_KPA[1],
        deadband=PRESSURE_DEADBAND * limit.high_kpa,
        # A dead pressure sensor must not cost the tissue its circulation: no line bursts at the basal flow.
        on_doubt=Response.BASAL,
        hold_s=PRESSURE_HOLD_S,
        debounce_s=PRESSURE_DEBOUNCE_S,
        strikes=PRESSURE_STRIKES,
        max_hold_s=HEART_MAX_HOLD_S,
        probation_s=HEART_PROBATION_S,
    )


def _transfer_pressure(name: str, limit: PressureLimit) -> Interlock:
    """Return the interlock of a line that is pumped dose by dose: its pump stands while the gauge cannot be trusted."""
    return Interlock(
        name,
        limit.point,
        limit.trips,
        limit.stale_s,
        high=limit.high_kpa,
        unit="kPa",
        valid_min=GAUGE_KPA[0],
        valid_max=GAUGE_KPA[1],
        deadband=PRESSURE_DEADBAND * limit.high_kpa,
        hold_s=PRESSURE_HOLD_S,
        debounce_s=PRESSURE_DEBOUNCE_S,
        strikes=PRESSURE_STRIKES,
    )


def stale_s(rig: Rig, actuator: str) -> float:
    """Return the maximum age (s) of an actuator's status."""
    return POLLS_MISSED * rig.devices[actuator.partition(".")[0]].every_s + POLL_GRACE_S
