"""The kernel's limits, read off the rig description; and each actuator's basal state."""

from __future__ import annotations

from controller.rig.description import Rig
from controller.safety.kernel import Interlock, Limits, PumpLimits, VesselLimits
from drivers.device import Command, Level, Run, Stop, Switch

FLAT_TEMPERATURE_S = 1800.0
"""A live probe's last digit moves; half an hour without a change is a stuck one."""
BASAL_CO2_FRACTION = 0.06
"""What the gas falls back to: pH near 7.4 in a 26 mM bicarbonate medium."""


def limits_of(rig: Rig) -> Limits:
    """Everything that bounds `rig`."""
    organs = rig.organs
    heart_pump = rig.lines[organs.heart.line].pump or ""
    spent = organs.kidney.vessel
    touching = [line.pump for line in rig.lines.values() if line.pump and spent in (line.from_, line.to)]
    flows = {
        organs.kidney.draw: organs.kidney.flow_ul_min,
        organs.kidney.return_: organs.kidney.flow_ul_min,
        organs.kidney.discard: organs.kidney.flow_ul_min,
        organs.gut.feed: organs.gut.flow_ul_min,
        organs.liver.glucose: organs.liver.flow_ul_min,
        organs.liver.base: organs.liver.flow_ul_min,
    }
    pumps = {}
    for name, line in rig.lines.items():
        if line.pump is None:
            continue
        if line.pump == heart_pump:
            pumps[line.pump] = PumpLimits(
                "heart", line.from_, line.to, organs.heart.min_ul_min, organs.heart.max_ul_min
            )
        else:
            # The balance sees one transfer at a time; two at once would blur what each one moved.
            excludes = tuple(pump for pump in touching if pump != line.pump) if line.pump in touching else ()
            most = flows.get(name, organs.kidney.flow_ul_min)
            pumps[line.pump] = PumpLimits("transfer", line.from_, line.to, 0.0, most, line.valve, excludes)
    vessels = {name: VesselLimits(vessel.floor_ul, vessel.limit_ul) for name, vessel in rig.vessels.items()}
    lung = organs.lung
    levels = {
        lung.air: (0.0, lung.total_ml_min),
        lung.co2: (0.0, lung.total_ml_min * lung.co2_max_pct / 100),
        lung.o2: (0.0, lung.total_ml_min * 0.4),
    }
    valves = {line.valve for line in rig.lines.values() if line.valve}
    temperature, heart, sterile = (
        rig.safety.temperature,
        rig.safety.over_pressure_heart,
        rig.safety.over_pressure_filter,
    )
    interlocks = (
        Interlock(
            "temperature", temperature.point, temperature.high_c, temperature.low_c, 0.0, 60.0, temperature.stale_s,
            FLAT_TEMPERATURE_S, temperature.trips,
        ),
        Interlock(
            "over_pressure_heart", heart.point, heart.high_kpa, -30.0, -100.0, 1000.0, heart.stale_s, 0.0, heart.trips
        ),
        Interlock(
            "over_pressure_filter", sterile.point, sterile.high_kpa, -30.0, -100.0, 1000.0, sterile.stale_s, 0.0,
            sterile.trips,
        ),
    )  # fmt: skip
    return Limits(
        pumps=pumps,
        vessels=vessels,
        heaters=(organs.skin.heater,),
        switches=(organs.skin.heater, *sorted(valves)),
        levels=levels,
        interlocks=interlocks,
        heart=heart_pump,
        draw=rig.lines[organs.kidney.draw].pump,
    )


def basal_states(rig: Rig) -> dict[str, Command]:
    """The state each actuator falls back to (docs/rig.md)."""
    lung = rig.organs.lung
    co2 = lung.total_ml_min * BASAL_CO2_FRACTION
    basal: dict[str, Command] = {
        lung.air: Level(round(lung.total_ml_min - co2, 2)),
        lung.co2: Level(round(co2, 2)),
        lung.o2: Level(0.0),
        rig.organs.skin.heater: Switch(False),
    }
    for line in rig.lines.values():
        if line.pump is not None:
            basal[line.pump] = Stop()
        if line.valve is not None:
            basal[line.valve] = Switch(False)
    heart = rig.lines[rig.organs.heart.line].pump
    if heart is not None:
        basal[heart] = Run(rig.organs.heart.basal_ul_min)
    return basal
