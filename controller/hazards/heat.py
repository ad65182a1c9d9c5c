"""Hazards of temperature: chamber too warm, too cold, heater stuck on."""

from __future__ import annotations

from collections.abc import Iterator

from controller.hazards import bounds
from controller.hazards.interlocks import missing, place_gap, rest_gaps, stale_gap, time_gap, trips_gaps
from controller.hazards.terms import NEVER_S, Hazard, Subject
from controller.hazards.timing import blind_s, seen_s, status_s
from controller.rig.description import Rig, TemperatureLimit
from controller.rig.families import by_thermostat
from controller.rig.heating import heating_c_per_s, warmed_chambers
from controller.rig.organs import SkinConfig
from controller.rig.probes import thermometer
from controller.rig.problems import Finding, Place, named
from controller.rig.surroundings import zone_of
from controller.rig.temperature_limits import FIRST as PLACE
from controller.rig.temperature_limits import sees_tissue, temperature_limits
from controller.safety.terms import Interlock

BATH_HARM_S = 300.0
"""A bath follows its set-point within minutes, and the gate keeps that below the chamber's high limit [P]."""
COLD_HARM_S = NEVER_S
"""Cold slows tissue and kills none within hours; a person acts on the alarm."""
ROOM = "room"
"""Where a chamber without a zone stands."""


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield the rows of temperature: of the chambers that the skin warms, and of the others for each zone."""
    rig, skin, limit = subject.rig, subject.rig.organs.skin, subject.rig.safety.temperature
    limits = list(temperature_limits(rig))
    warmed, rule = list(warmed_chambers(rig)), subject.interlock("temperature")
    groups = _by_surroundings(rig, [chamber for chamber in rig.tissue if chamber not in warmed])
    for zone, chambers in groups.items():
        alone = skin is None and len(groups) == 1
        yield from _by_zone(subject, chambers, limits, "" if alone else f"_{zone or ROOM}")
    for place, each in limits:
        if place != PLACE and not sees_tissue(rig, each.point):
            yield _storage(subject, place, each)
    if skin is None:
        return
    if limit is None or rule is None:
        fix = f"Restore it: point at “{named(warmed)}”, trips: [{skin.heater}]"
        yield missing("over_temperature", named(warmed), PLACE, fix)
    else:
        yield from _by_skin(subject, warmed, skin, limit, rule)


def _storage(subject: Subject, place: Place, limit: TemperatureLimit) -> Hazard:
    """Return the row of a place without tissue, such as a refrigerator with medium."""
    name = str(place[-1])
    return Hazard(
        f"storage_temperature_{name}", subject.at(limit.point) or name, limit.point,
        "storage_temperature: alarm; a person acts", (), f"{limit.low_c:g} to {limit.high_c:g} degC",
        blind_s(limit.stale_s), NEVER_S, "medium is spoilt within days", tuple(stale_gap(subject, limit, place)),
        residual=True,
    )  # fmt: skip


def _by_surroundings(rig: Rig, chambers: list[str]) -> dict[str | None, list[str]]:
    """Return chambers by the zone in which they stand."""
    groups: dict[str | None, list[str]] = {}
    for chamber in chambers:
        groups.setdefault(rig.vessels[chamber].zone, []).append(chamber)
    return groups


def _by_zone(
    subject: Subject, chambers: list[str], of_rig: list[tuple[Place, TemperatureLimit]], suffix: str
) -> Iterator[Hazard]:
    """Yield the rows of chambers without a heater: an incubator or the room keeps the temperature.

    One thermometer sees all chambers of its zone. Limits count where their thermometer stands.
    """
    rig, chamber = subject.rig, chambers[0]
    zone_c, probe = zone_of(rig, chamber).temperature_c, thermometer(rig, chamber)
    place, limit = _limit_of(subject, chambers, of_rig, alone=not suffix)
    gaps = [] if limit is None else list(stale_gap(subject, limit, place))
    if not bounds.MIN_LIMIT_C <= zone_c <= bounds.MAX_LIMIT_C:
        what = f"nothing keeps the chamber warm: its zone has {zone_c:g} degC"
        gaps.append(
            Finding(("vessels", chamber, "zone"), what, "Name its incubator (“zone: incubator”), or add organs.skin")
        )
    if limit is not None:
        gaps += place_gap(subject, limit.point, _sharing(rig, chambers), (*place, "point"), "temperature probe")
        gaps += rest_gaps(subject, limit.trips, (*place, "trips"))
        gaps += [*_high(zone_c, limit, place), *_low(zone_c, limit, place)]
        acts = "temperature: alarm; a person acts"
        limits, detection_s = f"{limit.low_c:g} to {limit.high_c:g} degC", blind_s(limit.stale_s)
    else:
        acts, limits, detection_s = "the zone's own control", f"{zone_c:g} degC", 0.0
    note = f"fit a cut-out of its own to the zone's heater{_seen_elsewhere(subject, chambers, probe)}"
    if limit is None:
        note = "a failure of the zone's heater is not seen: no limit of safety.temperature"
    for hazard in ("over_temperature", "under_temperature"):
        yield Hazard(
            f"{hazard}{suffix}", named(chambers), probe or "none", acts, (), limits, detection_s, NEVER_S, note,
            tuple(gaps) if hazard == "under_temperature" else (), residual=True,
        )  # fmt: skip


def _limit_of(
    subject: Subject, chambers: list[str], limits: list[tuple[Place, TemperatureLimit]], *, alone: bool
) -> tuple[Place, TemperatureLimit | None]:
    """Return the limit whose thermometer stands where it sees chambers; of the only group, else the first one at all."""
    sharing = _sharing(subject.rig, chambers)
    for place, limit in limits:
        if subject.at(limit.point) in sharing:
            return place, limit
    return limits[0] if alone and limits and limits[0][0] == PLACE else (PLACE, None)


def _seen_elsewhere(subject: Subject, chambers: list[str], probe: str | None) -> str:
    """Return what to say of a thermometer that stands in none of the chambers."""
    at = None if probe is None else subject.at(probe)
    if at is None or at in chambers:
        return ""
    return f"; “{probe}” stands at “{at}” in the same zone: what warms or cools a chamber alone is not seen"


def _sharing(rig: Rig, chambers: list[str]) -> set[str]:
    """Return the places where a thermometer sees the temperature of chambers: those, and others in the same zone."""
    zone = rig.vessels[chambers[0]].zone
    if zone is None:
        return set(chambers)
    return {name for name, vessel in rig.vessels.items() if vessel.zone == zone}


def _by_skin(
    subject: Subject, chambers: list[str], skin: SkinConfig, spec: TemperatureLimit, rule: Interlock
) -> Iterator[Hazard]:
    """Yield the rows of chambers with a heater."""
    rig, chamber, heater = subject.rig, named(chambers), skin.heater
    where = list(place_gap(subject, rule.point, set(chambers), (*PLACE, "point"), "temperature probe"))
    where += list(place_gap(subject, skin.temperature, set(chambers), ("organs", "skin", "temperature"), "probe"))
    harm_s = heats_within_s(subject, spec.high_c)
    gaps = [*where, *trips_gaps(subject, spec.trips, heater, (*PLACE, "trips")), *_high(skin.setpoint_c, spec, PLACE)]
    gaps += _warm_zones(rig, chambers, spec)
    gaps += time_gap(subject, rule.point, seen_s(subject, rule), harm_s, f"the chamber reaches {bounds.HARM_C:g} degC")
    source = "the bath is bounded by the gate" if by_thermostat(rig) else f"{skin.power_w:g} W into the medium"
    yield Hazard(
        "over_temperature", chamber, rule.point, f"temperature: {rule.on_high}", rule.trips, f"{spec.high_c:g} degC",
        seen_s(subject, rule), harm_s, source, tuple(gaps),
    )  # fmt: skip
    yield Hazard(
        "under_temperature", chamber, rule.point, f"temperature: {rule.on_low}, a person acts", (heater,),
        f"{spec.low_c:g} degC", seen_s(subject, rule), COLD_HARM_S, "cold slows tissue; it does not kill within hours",
        tuple(_low(skin.setpoint_c, spec, PLACE)),
    )  # fmt: skip
    harm_s = heats_within_s(subject, skin.setpoint_c)
    gaps = list(stale_gap(subject, spec, PLACE))
    gaps += time_gap(subject, rule.point, blind_s(rule.stale_s), harm_s, "the heater cooks the tissue", "stale", PLACE)
    yield Hazard(
        "sensor_loss_temperature", chamber, rule.point, f"temperature: {rule.on_doubt} when in doubt", rule.trips,
        f"stale after {rule.stale_s:g} s", blind_s(rule.stale_s), harm_s, source, tuple(gaps),
    )  # fmt: skip
    lease_s = skin.lease_s
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


def _warm_zones(rig: Rig, chambers: list[str], spec: TemperatureLimit) -> Iterator[Finding]:
    """Yield a finding for the first chamber whose surroundings are above the limit: a heater cannot cool."""
    for chamber in chambers:
        zone_c = zone_of(rig, chamber).temperature_c
        if zone_c > spec.high_c:
            what = f"its zone has {zone_c:g} degC, above the limit of {spec.high_c:g} degC, and a heater cannot cool"
            yield Finding(
                ("vessels", chamber, "zone"), what, "Correct the temperature of the zone, or name another one"
            )
            return


def heats_within_s(subject: Subject, from_c: float) -> float:
    """Return how soon the heater brings the chamber from a temperature to the harmful one (s)."""
    if by_thermostat(subject.rig):
        return BATH_HARM_S
    return max(0.0, bounds.HARM_C - from_c) / heating_c_per_s(subject.rig)


def _high(setpoint_c: float, limit: TemperatureLimit, place: Place) -> Iterator[Finding]:
    high_c = limit.high_c
    if high_c > bounds.MAX_LIMIT_C:
        what = f"{high_c:g} degC is above {bounds.MAX_LIMIT_C:g} degC, where tissue is lost"
        yield Finding((*place, "high"), what, f"Write at most {bounds.MAX_LIMIT_C:g} degC")
    elif high_c < setpoint_c + bounds.MARGIN_C:
        what = f"{high_c:g} degC is within {bounds.MARGIN_C:g} degC of the set-point: it trips all the time"
        yield Finding((*place, "high"), what, f"Write at least {setpoint_c + bounds.MARGIN_C:g} degC")


def _low(setpoint_c: float, limit: TemperatureLimit, place: Place) -> Iterator[Finding]:
    low_c = limit.low_c
    lowest_c = max(setpoint_c - bounds.COLDER_BY_C, min(bounds.MIN_LIMIT_C, setpoint_c - bounds.MARGIN_C))
    if low_c < lowest_c:
        what = f"{low_c:g} degC is too cold for tissue that is kept at {setpoint_c:g} degC"
        yield Finding((*place, "low"), what, f"Write at least {lowest_c:g} degC")
    elif low_c > setpoint_c - bounds.MARGIN_C:
        what = f"{low_c:g} degC is within {bounds.MARGIN_C:g} degC of the set-point: it alarms all the time"
        yield Finding((*place, "low"), what, f"Write at most {setpoint_c - bounds.MARGIN_C:g} degC")
