"""Figures of the skin: deviation from the set-point, time out of band, and heating."""

from __future__ import annotations

from controller.figures.course import Band, Course
from controller.figures.figure import Figure, FigureLimits, figure, missing
from controller.figures.sources import Sources
from controller.rig.description import Rig
from controller.rig.families import by_thermostat
from controller.rig.organs import SkinConfig
from controller.rig.probes import chamber_temperature, temperature_target_c

BAND_K = 0.2
"""Half width of the band about the set-point (biology.md §6, proposed)."""
OUT_PCT = FigureLimits(5.0, 20.0)
DUTY_PCT = FigureLimits(85.0, 97.0)
"""A heater that is on nearly all the time has no reserve for a cold night."""


def comfort(rig: Rig) -> Band:
    """Return the range of temperatures that counts as kept."""
    setpoint = temperature_target_c(rig)
    return Band(setpoint - BAND_K, setpoint + BAND_K)


def skin(sources: Sources) -> list[Figure]:
    """Return every figure of the skin; of a rig without one only those of its thermometer."""
    organ, point = sources.rig.organs.skin, chamber_temperature(sources.rig)
    if organ is None and point is None:
        return []
    return [
        *([] if point is None else _temperature(sources, point, sources.courses.get(point))),
        *([] if organ is None else _heater(sources, organ, sources.courses.get(f"{organ.heater}.duty"))),
        missing("humidity", "humidity", "% RH", "the rig file names no humidity sensor for the skin"),
    ]


def _temperature(sources: Sources, point: str, course: Course | None) -> list[Figure]:
    target_c = temperature_target_c(sources.rig)
    names = (
        ("deviation", "temperature less set-point", "K"),
        ("rms", "temperature, rms distance from set-point", "K"),
        ("out", f"time more than {BAND_K:g} K off", "%"),
    )
    if course is None:
        return [sources.no_series(*name, point) for name in names]
    basis = f"{point}: least {course.least:.2f}, most {course.most:.2f} degC; the probe's own error on top"
    return [
        figure(*names[0], course.mean - target_c, coverage=course.coverage, basis=basis),
        figure(*names[1], course.rms_from(target_c), coverage=course.coverage, basis="of the stretches' means"),
        figure(*names[2], 100.0 * course.out_share, coverage=course.coverage, limits=OUT_PCT, basis=point),
    ]


def _heater(sources: Sources, organ: SkinConfig, course: Course | None) -> list[Figure]:
    names = ("duty", "heater on", "%"), ("heat", "heat given", "W")
    if by_thermostat(sources.rig):
        why = f"{organ.heater} is a thermostat's set-point: it heats as much as it needs, and does not tell how much"
        return [missing(*name, why) for name in names]
    if course is None:
        return [sources.no_series(*name, f"{organ.heater}.duty") for name in names]
    basis = f"pulses as given and read back; {organ.power_w:g} W by the rig file"
    return [
        figure(
            *names[0], course.mean, coverage=course.coverage, limits=DUTY_PCT, basis=f"mean over time of {organ.heater}"
        ),
        figure(*names[1], course.mean / 100.0 * organ.power_w, coverage=course.coverage, basis=basis),
    ]
