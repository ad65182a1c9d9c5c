"""The kernel's limits, read off the rig description; and each actuator's basal state."""

from __future__ import annotations

from controller.rig.description import PressureLimit, Rig
from controller.rig.families import by_thermostat
from controller.rig.heating import heating_c_per_s
from controller.safety.terms import Interlock, Limits, Mixture, PumpLimits, Response, VesselLimits
from drivers.commands import Command, Level, Run, Stop, Switch

FLAT_TEMPERATURE_S = 180.0
"""A live probe's last digit moves (0.001 °C); three minutes without a change is a stuck one. A probe that is stuck half a
degree low has the heater cook the tissue: 1 K in three minutes, 8 K in the half hour that this once was."""
TEMPERATURE_DEADBAND_C = 0.1
CEILING_C = 39.5
"""No heat may bring the chamber above it, whatever the probe shows meanwhile: a heater pulse ends before it could."""
MAX_RISE_C_PER_S = 0.2
"""No heater of a rig warms faster, however little medium its file names: glass, holder and tubing take up heat as well."""
PRESSURE_DEADBAND = 0.1
"""Share of its limit that a pressure has to fall below it before its interlock lets go."""
TEMPERATURE_DEBOUNCE_S = 5.0
"""A heater at full power warms the medium of a small rig by 0.1 K a second at most (15 W in 42 mL): half a degree meanwhile,
and tissue bears 39 degC for minutes."""
PRESSURE_DEBOUNCE_S = 1.0
"""A blocked line gains some 5 kPa a second (tests/sim: an occluded heart passes its limit in about ten): it is asked again at
once, and tubing holds several times its limit."""
PRESSURE_HOLD_S = 60.0
"""A pump that was stopped by pressure stands for so long, however fast the pressure falls."""
PRESSURE_STRIKES = 3
"""Tries in half an hour: a bubble or a kink may free itself, a clot does not, and hammering at it bursts tubing."""
HEART_HOLD_MOST_S = 300.0
"""The heart is tried again for ever, ever more seldom and at its basal flow: tissue without circulation dies for certain,
and a try ends within seconds where the line is still shut."""
HEART_PROBATION_S = 120.0
GAUGE_KPA = (-90.0, 1500.0)
BATH_MOST_BELOW_K = 5.0
"""How far below the skin's set-point a thermostat may be set, in a room that is warmer than the tissue: none may chill it."""
PROBE_C = (0.0, 60.0)
"""What a working sensor can say at all."""
BASAL_CO2_FRACTION = 0.06
"""What the gas falls back to: pH near 7.4 in a 26 mM bicarbonate medium."""
MOST_O2_FRACTION = 0.4
CO2_TRIP_OVER = 0.05
"""So much CO2 beyond the rig's highest share (0..1), measured, means that air has failed."""
PH_SHUT_UNDER, PH_ALKALINE_OVER = 0.05, 0.30
"""About the set-point: by these pH decides on CO2 while air is not heard. In CO2 alone it falls by 0.3 in ten seconds."""
POLLS_MISSED = 3
"""A status that has not come for so many polls, and `POLL_GRACE_S`, is stale."""
POLL_GRACE_S = 5.0


def limits_of(rig: Rig) -> Limits:
    """Everything that bounds `rig`."""
    organs = rig.organs
    heart = rig.lines[organs.heart.line].pump or ""
    lung = organs.lung
    valves = sorted({line.valve for line in rig.lines.values() if line.valve})
    heater, thermostat = organs.skin.heater, by_thermostat(rig)
    watchdog = () if rig.safety.watchdog is None else (rig.safety.watchdog.relay,)
    switches = (*(() if thermostat else (heater,)), *valves, *watchdog)
    return Limits(
        basal=basal_states(rig),
        pumps=_pumps(rig, heart),
        vessels={name: VesselLimits(vessel.floor_ul, vessel.limit_ul) for name, vessel in rig.vessels.items()},
        heaters=(heater, *watchdog),  # like a heater it is only ever closed for a finite time
        switches=switches,
        levels={
            lung.air: (0.0, lung.total_ml_min),
            lung.co2: (0.0, lung.total_ml_min * lung.co2_max_pct / 100.0),
            lung.o2: (0.0, lung.total_ml_min * MOST_O2_FRACTION),
            **({heater: _bath_c(rig)} if thermostat else {}),
        },
        interlocks=_interlocks(rig),
        heart=heart,
        heart_stale_s=stale_s(rig, heart),
        switch_stale_s={name: stale_s(rig, name) for name in switches},
        draw=rig.lines[organs.kidney.draw].pump,
        mixture=Mixture(
            lung.air,
            lung.co2,
            lung.o2,
            most_co2=lung.co2_max_pct / 100.0,
            trip_co2=lung.co2_max_pct / 100.0 + CO2_TRIP_OVER,
            stale_s=max(stale_s(rig, gas) for gas in (lung.air, lung.co2, lung.o2)),
            ph=lung.ph,
            ph_shut=lung.ph_setpoint - PH_SHUT_UNDER,
            ph_alkaline=lung.ph_setpoint + PH_ALKALINE_OVER,
            ph_stale_s=stale_s(rig, lung.ph),
            airless_co2=BASAL_CO2_FRACTION,
        ),
    )


def basal_states(rig: Rig) -> dict[str, Command]:
    """The state each actuator falls back to (docs/rig.md): the heart circulates, gas flows, all else rests."""
    lung = rig.organs.lung
    co2 = lung.total_ml_min * BASAL_CO2_FRACTION
    basal: dict[str, Command] = {
        lung.air: Level(round(lung.total_ml_min - co2, 2)),
        lung.co2: Level(round(co2, 2)),
        lung.o2: Level(0.0),
        rig.organs.skin.heater: Stop() if by_thermostat(rig) else Switch(False),
    }
    for line in rig.lines.values():
        if line.pump is not None:
            basal[line.pump] = Stop()
        if line.valve is not None:
            basal[line.valve] = Switch(False)
    if rig.safety.watchdog is not None:
        basal[rig.safety.watchdog.relay] = Switch(False)
    heart = rig.lines[rig.organs.heart.line].pump
    if heart is not None:
        basal[heart] = Run(rig.organs.heart.basal_ul_min)
    return basal


def _bath_c(rig: Rig) -> tuple[float, float]:
    """A bath that is no warmer than the chamber may be cannot make it so; nor may it chill what it is there to warm."""
    return rig.organs.skin.setpoint_c - BATH_MOST_BELOW_K, rig.safety.temperature.high_c


def _pumps(rig: Rig, heart: str) -> dict[str, PumpLimits]:
    organs = rig.organs
    spent = organs.kidney.vessel
    touching = [line.pump for line in rig.lines.values() if line.pump and spent in (line.from_, line.to)]
    flows = {
        organs.gut.feed: organs.gut.flow_ul_min,
        organs.liver.glucose: organs.liver.flow_ul_min,
        organs.liver.base: organs.liver.flow_ul_min,
    }
    pumps = {}
    for name, line in rig.lines.items():
        if line.pump is None:
            continue
        if line.pump == heart:
            least, most = organs.heart.min_ul_min, organs.heart.max_ul_min
            pumps[line.pump] = PumpLimits("heart", line.from_, line.to, least, most)
            continue
        # The balance sees one transfer at a time; two at once would blur what each one moved.
        excludes = tuple(pump for pump in touching if pump != line.pump) if line.pump in touching else ()
        most = flows.get(name, organs.kidney.flow_ul_min)
        pumps[line.pump] = PumpLimits("transfer", line.from_, line.to, 0.0, most, line.valve, excludes)
    return pumps


def _interlocks(rig: Rig) -> tuple[Interlock, ...]:
    warm, heart, sterile = rig.safety.temperature, rig.safety.over_pressure_heart, rig.safety.over_pressure_filter
    return (
        Interlock(
            "temperature",
            warm.point,
            # The heater answers to it even where the rig file forgets to say so.
            tuple(dict.fromkeys((*warm.trips, rig.organs.skin.heater))),
            warm.stale_s,
            high=warm.high_c,
            low=warm.low_c,
            valid_low=PROBE_C[0],
            valid_high=PROBE_C[1],
            flat_s=FLAT_TEMPERATURE_S,
            deadband=TEMPERATURE_DEADBAND_C,
            debounce_s=TEMPERATURE_DEBOUNCE_S,
            ceiling=CEILING_C,
            # A bath is bounded by its own set-point instead.
            rise_per_s=0.0 if by_thermostat(rig) else min(heating_c_per_s(rig), MAX_RISE_C_PER_S),
        ),
        Interlock(
            "over_pressure_heart",
            heart.point,
            heart.trips,
            heart.stale_s,
            high=heart.high_kpa,
            valid_low=GAUGE_KPA[0],
            valid_high=GAUGE_KPA[1],
            deadband=PRESSURE_DEADBAND * heart.high_kpa,
            # A dead pressure sensor must not cost the tissue its circulation: at the basal flow no line bursts.
            on_doubt=Response.BASAL,
            hold_s=PRESSURE_HOLD_S,
            debounce_s=PRESSURE_DEBOUNCE_S,
            strikes=PRESSURE_STRIKES,
            hold_most_s=HEART_HOLD_MOST_S,
            probation_s=HEART_PROBATION_S,
        ),
        _transfer_pressure("over_pressure_filter", sterile),
        *(_transfer_pressure(f"over_pressure_{line}", limit) for line, limit in rig.safety.over_pressure.items()),
    )


def _transfer_pressure(name: str, limit: PressureLimit) -> Interlock:
    """The interlock of a line that is pumped dose by dose: its pump stands while the gauge cannot be trusted."""
    return Interlock(
        name,
        limit.point,
        limit.trips,
        limit.stale_s,
        high=limit.high_kpa,
        valid_low=GAUGE_KPA[0],
        valid_high=GAUGE_KPA[1],
        deadband=PRESSURE_DEADBAND * limit.high_kpa,
        hold_s=PRESSURE_HOLD_S,
        debounce_s=PRESSURE_DEBOUNCE_S,
        strikes=PRESSURE_STRIKES,
    )


def stale_s(rig: Rig, actuator: str) -> float:
    """How old the status of an actuator may be before it is no longer believed (s)."""
    return POLLS_MISSED * rig.devices[actuator.partition(".")[0]].every_s + POLL_GRACE_S
