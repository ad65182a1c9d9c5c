"""Figures of a heart: circulation, its steadiness, standing time, and age of the tubing."""

from __future__ import annotations

from collections.abc import Iterable

from controller.figures.course import Course
from controller.figures.figure import Figure, FigureLimits, figure, missing
from controller.figures.gut import stock
from controller.figures.sources import DAY_S, Sources
from controller.rig.description import Rig
from controller.rig.organs import HeartConfig
from controller.upkeep.tubing import revolution_of

FLOW_ERROR_PCT = FigureLimits(5.0, 15.0)
"""Tubing relaxes by 5 to 15 % in its first days (biology.md §2)."""
STANDING_MIN = FigureLimits(1.0, 5.0)
"""The alarm "no heart flow" demands a response within five minutes: tissue runs out of oxygen (min)."""
STANDS_BELOW = 0.05
"""Share of the working flow below which a minute counts as standing."""
LAW_REL_SD = 0.25
"""Scatter of pumps about the volume of a turn by their bore (OMEGA FPU5 manual, biology.md §2)."""
TUBING_USED_PCT = FigureLimits(80.0, 100.0)


def heart(sources: Sources, config: HeartConfig) -> list[Figure]:
    """Return every figure of a heart."""
    line = sources.rig.lines[config.line]
    pump = line.pump or ""
    flow = sources.courses.get(f"{pump}.flow")
    source = sources.rig.vessels.get(line.from_)
    single_pass = source is not None and source.kind == "source"
    return [
        _flow(sources, pump, flow),
        _error(sources, config, pump, flow),
        _measured(sources, config, flow),
        _pulsatility(sources, config),
        _standing(sources, config, pump, flow),
        _volume(sources, pump, flow),
        *_turns(sources, pump),
        *(stock(sources, line.from_, "medium", config.line) if single_pass else ()),
    ]


def _flow(sources: Sources, pump: str, flow: Course | None) -> Figure:
    key, label, unit = "flow", "mean flow", "uL/min"
    if flow is None:
        return sources.no_series(key, label, unit, f"{pump}.flow")
    return figure(
        key,
        label,
        unit,
        flow.mean,
        coverage=flow.coverage,
        basis=f"the pump's own word, least {flow.least:.4g}, most {flow.most:.4g}",
    )


def _error(sources: Sources, config: HeartConfig, pump: str, flow: Course | None) -> Figure:
    key, label, unit = "flow_error", "flow against set-point", "%"
    if flow is None:
        return sources.no_series(key, label, unit, f"{pump}.flow")
    wanted = config.flow_ul_min
    error = 100.0 * (flow.mean / wanted - 1.0)
    return figure(
        key,
        label,
        unit,
        error,
        coverage=flow.coverage,
        limits=FLOW_ERROR_PCT,
        judged=abs(error),
        basis=f"mean flow over the rig file's {wanted:g} uL/min",
    )


def _measured(sources: Sources, config: HeartConfig, flow: Course | None) -> Figure:
    """Compare the pump's reported flow with a flow sensor in the heart's line, if there is one."""
    key, label, unit = "flow_sensor_error", "pump's word against flow sensor", "%"
    points = [f"{name}.flow" for name, device in sources.rig.devices.items() if device.at == config.line]
    sensor = next((sources.courses[point] for point in points if point in sources.courses), None)
    if sensor is None:
        return missing(key, label, unit, "no flow sensor in the heart's line has readings in this period")
    if flow is None or sensor.mean <= 0:
        return missing(key, label, unit, "pump and flow sensor have no readings to compare")
    error = 100.0 * (flow.mean / sensor.mean - 1.0)
    return figure(
        key,
        label,
        unit,
        error,
        coverage=min(flow.coverage, sensor.coverage),
        limits=FLOW_ERROR_PCT,
        judged=abs(error),
        basis=f"{sensor.point} measured {sensor.mean:.4g} {sensor.unit}",
    )


def _pulsatility(sources: Sources, config: HeartConfig) -> Figure:
    """Return (maximum - minimum) / mean of the pressure behind the pump: the flow is rarely sampled fast enough."""
    key, label, unit = "pulsatility", "pulsatility of pressure", ""
    point = config.pressure
    if point is None:
        return missing(key, label, unit, "the rig file names no pressure sensor for the heart")
    pressure = sources.courses.get(point)
    if pressure is None:
        return sources.no_series(key, label, unit, point)
    if pressure.mean <= 0:
        return missing(key, label, unit, f"the mean of {point} is not above zero")
    every_s = _every_s(sources.rig, point)
    return figure(
        key,
        label,
        unit,
        pressure.ripple / pressure.mean,
        coverage=pressure.coverage,
        basis=f"(most - least)/mean within stretches of {point}, read every {every_s:g} s or less often: roller strokes"
        " are faster, so this holds the sensor's noise as well",
    )


def _standing(sources: Sources, config: HeartConfig, pump: str, flow: Course | None) -> Figure:
    key, label, unit = "standing", "time standing", "min"
    if flow is None:
        return sources.no_series(key, label, unit, f"{pump}.flow")
    limit = STANDS_BELOW * config.flow_ul_min
    standing = sum(1 for _, value in sources.raw(flow.point, sources.begin, sources.end) if value < limit)
    return figure(
        key,
        label,
        unit,
        float(standing),
        coverage=flow.coverage,
        limits=STANDING_MIN,
        basis=f"minutes with a mean flow below {limit:g} uL/min; gaps are not counted",
    )


def _volume(sources: Sources, pump: str, flow: Course | None) -> Figure:
    key, label, unit = "circulated", "volume circulated", "mL"
    if flow is None:
        return sources.no_series(key, label, unit, f"{pump}.flow")
    ml = flow.mean * flow.covered_s / 60.0 / 1000.0
    return figure(key, label, unit, ml, coverage=flow.coverage, basis="flow over the time that it is known for")


def _turns(sources: Sources, pump: str) -> list[Figure]:
    """Return revolutions in the period and of the tubing: by the journal's count, or by the pump's running total."""
    key, label, unit = "revolutions", "revolutions in the period", "rev"
    age, used = ("tubing_age", "age of the tubing", "d"), ("tubing_used", "life of the tubing used up", "%")
    worn = sources.tubing.get(pump)
    if worn is not None and worn.counted:
        share = 100.0 * worn.revolutions / worn.life_revolutions
        since = f"{worn.revolutions:,.0f} of {worn.life_revolutions:,.0f} revolutions, {worn.material}"
        return [
            figure(key, label, unit, worn.within, basis="counted by the controller, every hour"),
            missing(*age, "no fitting of tubing is in the record; it is at least as old as the record")
            if worn.installed is None
            else figure(*age, (sources.end - worn.installed) / DAY_S, basis="since it was fitted, by the journal"),
            figure(*used, share, limits=TUBING_USED_PCT, basis=since),
        ]
    unknown = [missing(*name, "the record holds no count of this tubing") for name in (age, used)]
    delivered_ul = counted_up(value for _, value in sources.raw(f"{pump}.delivered", sources.begin, sources.end))
    if delivered_ul is None:
        return [sources.no_series(key, label, unit, f"{pump}.delivered"), *unknown]
    turn_ul, rel_sd, source = volume_of_a_turn(sources.rig, pump)
    turns = delivered_ul / turn_ul
    basis = f"{delivered_ul / 1000:.4g} mL by the pump's own total, {turn_ul:.4g} uL a turn ({source})"
    return [figure(key, label, unit, turns, sd=rel_sd * turns or None, basis=basis), *unknown]


def counted_up(totals: Iterable[float]) -> float | None:
    """Return the growth of a running total, through returns to zero (a power cycle); None for fewer than two values."""
    before: float | None = None
    grown = 0.0
    values = 0
    for total in totals:
        values += 1
        if before is not None:
            grown += total - before if total >= before else total
        before = total
    return grown if values > 1 else None


def volume_of_a_turn(rig: Rig, pump: str) -> tuple[float, float, str]:
    """Return the volume of one turn (µL), its relative standard deviation, and its source."""
    device, _, point = pump.partition(".")
    spec = rig.devices[device]
    ul_per_rev = spec.settings.get("ul_per_rev")
    if isinstance(ul_per_rev, int | float) and not isinstance(ul_per_rev, bool):
        return float(ul_per_rev), 0.0, "the rig file's ul_per_rev"
    channel = next((each for each in spec.channels.values() if each.point == point), None)
    bores = [line.bore_mm for line in rig.lines.values() if line.pump == pump]
    bore_mm = channel.tubing_mm if channel is not None and channel.tubing_mm is not None else bores[0]
    return revolution_of(bore_mm), LAW_REL_SD, f"law for a bore of {bore_mm:g} mm"


def _every_s(rig: Rig, point: str) -> float:
    device = rig.devices.get(point.partition(".")[0])
    return device.every_s if device is not None else float("nan")
