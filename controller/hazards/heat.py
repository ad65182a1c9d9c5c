"""Hazards of temperature: chamber too warm, too cold, heater stuck on."""

from __future__ import annotations

from collections.abc import Iterator

from controller.hazards import bounds
from controller.hazards.interlocks import missing, place_gap, stale_gap, time_gap, trips_gaps
from controller.hazards.terms import NEVER_S, Hazard, Subject
from controller.hazards.timing import blind_s, seen_s, status_s
from controller.rig.families import by_thermostat
from controller.rig.heating import heating_c_per_s
from controller.rig.problems import Finding

BATH_HARM_S = 300.0
"""A bath follows its set-point within minutes, and the gate keeps that below the chamber's high limit [P]."""
COLD_HARM_S = NEVER_S
"""Cold slows tissue and kills none within hours; a person acts on the alarm."""
PLACE = ("safety", "temperature")


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield the rows of temperature."""
    rig = subject.rig
    rule, chamber = subject.interlock("temperature"), rig.organoid.chamber
    heater, spec = rig.organs.skin.heater, rig.safety.temperature
    if rule is None:
        yield missing("over_temperature", chamber, PLACE, f"Restore it: point at “{chamber}”, trips: [{heater}]")
        return
    where = list(place_gap(subject, rule.point, {chamber}, (*PLACE, "point"), "temperature probe"))
    where += list(
        place_gap(subject, rig.organs.skin.temperature, {chamber}, ("organs", "skin", "temperature"), "probe")
    )
    harm_s = heats_within_s(subject, spec.high_c)
    gaps = [*where, *trips_gaps(subject, spec.trips, heater, (*PLACE, "trips")), *_high(subject)]
    gaps += time_gap(subject, rule.point, seen_s(subject, rule), harm_s, f"the chamber reaches {bounds.HARM_C:g} degC")
    source = (
        "the bath is bounded by the gate" if by_thermostat(rig) else f"{rig.organs.skin.power_w:g} W into the medium"
    )
    yield Hazard(
        "over_temperature", chamber, rule.point, f"temperature: {rule.on_high}", rule.trips, f"{spec.high_c:g} degC",
        seen_s(subject, rule), harm_s, source, tuple(gaps),
    )  # fmt: skip
    yield Hazard(
        "under_temperature", chamber, rule.point, f"temperature: {rule.on_low}, a person acts", (heater,),
        f"{spec.low_c:g} degC", seen_s(subject, rule), COLD_HARM_S, "cold slows tissue; it does not kill within hours",
        tuple(_low(subject)),
    )  # fmt: skip
    harm_s = heats_within_s(subject, rig.organs.skin.setpoint_c)
    gaps = list(stale_gap(subject, spec, PLACE))
    gaps += time_gap(subject, rule.point, blind_s(rule.stale_s), harm_s, "the heater cooks the tissue", "stale", PLACE)
    yield Hazard(
        "sensor_loss_temperature", chamber, rule.point, f"temperature: {rule.on_doubt} when in doubt", rule.trips,
        f"stale after {rule.stale_s:g} s", blind_s(rule.stale_s), harm_s, source, tuple(gaps),
    )  # fmt: skip
    lease_s = rig.organs.skin.lease_s
    gaps = []
    if not by_thermostat(rig) and lease_s > harm_s:
        what = f"a pulse of {lease_s:g} s heats the medium to {bounds.HARM_C:g} degC within {harm_s:.0f} s"
        gaps = [Finding(("organs", "skin", "lease"), what, f"Write at most {harm_s:.0f} s")]
    late = status_s(subject, heater)
    gaps += time_gap(subject, heater, late, harm_s, "a heater that does not obey overheats the tissue")
    yield Hazard(
        "link_loss_heater", chamber, heater, "heater pulses end by themselves; the guard", (heater,), f"{lease_s:g} s",
        max(lease_s, late), harm_s, source, tuple(gaps),
    )  # fmt: skip
    yield Hazard(
        "heater_stuck_on", chamber, rule.point, "alarm temperature; software cannot open a welded contact", (), "",
        seen_s(subject, rule), harm_s, "fit a thermal fuse or an independent cut-out in the heater's supply", residual=True,
    )  # fmt: skip


def heats_within_s(subject: Subject, from_c: float) -> float:
    """Return how soon the heater brings the chamber from a temperature to the harmful one (s)."""
    if by_thermostat(subject.rig):
        return BATH_HARM_S
    return max(0.0, bounds.HARM_C - from_c) / heating_c_per_s(subject.rig)


def _high(subject: Subject) -> Iterator[Finding]:
    setpoint_c, high_c = subject.rig.organs.skin.setpoint_c, subject.rig.safety.temperature.high_c
    if high_c > bounds.MAX_LIMIT_C:
        what = f"{high_c:g} degC is above {bounds.MAX_LIMIT_C:g} degC, where tissue is lost"
        yield Finding((*PLACE, "high"), what, f"Write at most {bounds.MAX_LIMIT_C:g} degC")
    elif high_c < setpoint_c + bounds.MARGIN_C:
        what = f"{high_c:g} degC is within {bounds.MARGIN_C:g} degC of the set-point: it trips all the time"
        yield Finding((*PLACE, "high"), what, f"Write at least {setpoint_c + bounds.MARGIN_C:g} degC")


def _low(subject: Subject) -> Iterator[Finding]:
    setpoint_c, low_c = subject.rig.organs.skin.setpoint_c, subject.rig.safety.temperature.low_c
    lowest_c = max(setpoint_c - bounds.COLDER_BY_C, min(bounds.MIN_LIMIT_C, setpoint_c - bounds.MARGIN_C))
    if low_c < lowest_c:
        what = f"{low_c:g} degC is too cold for tissue that is kept at {setpoint_c:g} degC"
        yield Finding((*PLACE, "low"), what, f"Write at least {lowest_c:g} degC")
    elif low_c > setpoint_c - bounds.MARGIN_C:
        what = f"{low_c:g} degC is within {bounds.MARGIN_C:g} degC of the set-point: it alarms all the time"
        yield Finding((*PLACE, "low"), what, f"Write at most {setpoint_c - bounds.MARGIN_C:g} degC")
