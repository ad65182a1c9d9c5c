"""Hazards of gas: CO2 without air, exchanged gases, oxygen and pH out of range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.hazards import bounds, physics
from controller.hazards.interlocks import missing, place_gap, time_gap
from controller.hazards.terms import NEVER_S, Hazard, Subject
from controller.hazards.timing import READINGS, blind_s
from controller.regulation import oxygen, ph
from controller.rig.description import ROOM_OXYGEN_PCT, Rig
from controller.rig.graph import fed_by_hearts
from controller.rig.organs import LiverConfig, LungConfig
from controller.rig.probes import culture_places, loop_oxygen, loop_ph
from controller.rig.problems import Finding
from controller.rig.surroundings import bicarbonate_mm, culture_vessel, ph_at, zone_of
from controller.safety.interlocks import GAS_MIXTURE
from controller.safety.limits import BASAL_CO2_FRACTION

PLACE = ("organs", "lung")
DOSING_STALE_S = 120.0
"""Maximum age of the pH in the spent vessel for the grading of a batch (s)."""
MIN_SHARE = 0.05
"""Mass flow controllers are specified from 1 to 5 % of their full scale."""
CO2_SLACK = 0.1
"""Uncertainty of the medium's bicarbonate: lactic acid consumes some of it."""


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield the rows of gas, and that of the base that is dosed."""
    rig, lung, kidney = subject.rig, subject.rig.organs.lung, subject.rig.organs.kidney
    if lung is None:
        tissue = dict.fromkeys((culture_vessel(rig), *rig.tissue))
        yield from _by_zone(subject, list(tissue), [] if kidney is None else [kidney.vessel])
    else:
        yield from _by_lung(subject, lung)
        if away := [chamber for chamber in rig.tissue if chamber not in fed_by_hearts(rig)]:
            yield from _by_zone(subject, away, [], suffix="_at_rest")
    if rig.organs.liver is not None and kidney is not None:
        yield _base(subject, rig.organs.liver, kidney.vessel)


def _by_lung(subject: Subject, lung: LungConfig) -> Iterator[Hazard]:
    """Yield the rows of a rig that mixes its gas."""
    rig, mixture = subject.rig, subject.limits.mixture
    if mixture is None:
        yield missing("co2_excess", lung.vessel, PLACE, "Restore the gas mixture's limits")
        return
    gases = (lung.air, lung.co2, lung.o2)
    slowest = max(gases, key=subject.every_s)
    takes_s = max(blind_s(mixture.stale_s), blind_s(READINGS * subject.every_s(slowest) + mixture.delay_s))
    buffer_mm = bicarbonate_mm(rig)
    harm_s = physics.acid_within_s(buffer_mm, mixture.ph_shut) + bounds.ACID_BORNE_S
    around = {lung.vessel, *culture_places(rig)}
    gaps = [
        *_identity(subject, lung),
        *_capacity(subject, lung),
        *_bubbled_elsewhere(rig, lung),
        *place_gap(subject, lung.ph, around, (*PLACE, "ph"), "pH probe"),
    ]
    gaps += time_gap(subject, slowest, takes_s, harm_s, f"CO2 alone brings the medium to pH {bounds.HARM_PH:g}")
    yield Hazard(
        "co2_excess", lung.vessel, f"{lung.air}, {lung.ph}", f"{GAS_MIXTURE}: off", (lung.co2,),
        f"{100 * mixture.trip_co2:g} % CO2, pH {mixture.ph_shut:.2f}", takes_s, harm_s,
        f"kLa {physics.KLA_PER_S:g} 1/s, {buffer_mm:g} mM bicarbonate", tuple(gaps),
    )  # fmt: skip
    if any(subject.device(point).gas is None for point in gases):
        yield Hazard(
            "undeclared_gas", lung.vessel, lung.ph, "alarm acidity; a person acts", gases, "", 0.0, harm_s,
            "CO2 and oxygen could be swapped unseen: write “gas: air”, “gas: co2”, “gas: o2” under their devices",
            residual=True,
        )  # fmt: skip
    gaps = list(_fresh(subject, lung.ph, ph.STALE_S))
    gaps += list(_ph_range(lung, buffer_mm))
    yield Hazard(
        "ph_out_of_range", lung.vessel, lung.ph, f"{GAS_MIXTURE}, regulator, alarm acidity", (lung.co2, lung.air),
        f"{lung.co2_min_pct:g} to {lung.co2_max_pct:g} % CO2", blind_s(ph.STALE_S), NEVER_S,
        "within its CO2 range the gas does no harm within hours", tuple(gaps),
    )  # fmt: skip
    gaps = list(place_gap(subject, lung.oxygen, around, (*PLACE, "oxygen"), "oxygen probe"))
    gaps += list(_fresh(subject, lung.oxygen, oxygen.STALE_S))
    if lung.oxygen_setpoint_pct < bounds.MIN_OXYGEN_PCT:
        what = f"{lung.oxygen_setpoint_pct:g} % of air saturation is too little for tissue"
        gaps.append(Finding((*PLACE, "oxygen_setpoint"), what, f"Write at least {bounds.MIN_OXYGEN_PCT:g} %"))
    yield Hazard(
        "oxygen_out_of_range", lung.vessel, lung.oxygen, "regulator; basal air when in doubt", (lung.o2, lung.air),
        f"{lung.oxygen_setpoint_pct:g} %", blind_s(oxygen.STALE_S), NEVER_S,
        "air alone feeds the tissue; oxygen is bounded by the gate", tuple(gaps),
    )  # fmt: skip


def _by_zone(subject: Subject, tissue: list[str], measured: list[str], suffix: str = "") -> Iterator[Hazard]:
    """Yield the rows of medium whose gas is that of an incubator or of the room.

    Args:
        subject: The rig.
        tissue: Vessels whose medium is that of tissue; the first one stands for them.
        measured: Further vessels whose pH is judged.
        suffix: Appended to the ids of the rows.
    """
    rig, vessel = subject.rig, tissue[0]
    zone, seen = zone_of(rig, vessel), not suffix
    probe = loop_ph(rig) if seen else None
    gaps = [gap for each in dict.fromkeys((*tissue, *measured)) for gap in _ph_in_zone(rig, each)]
    acts = "the zone's own control" + ("" if probe is None else "; alarm acidity")
    row = _ZoneRow(f"ph_out_of_range{suffix}", vessel, probe, acts, f"{zone.co2_pct:g} % CO2", "CO2", "pH", ph.STALE_S)
    yield _zone_row(subject, row, gaps)
    gaps = [gap for each in tissue for gap in _oxygen_in_zone(rig, each)]
    row = _ZoneRow(
        f"oxygen_out_of_range{suffix}", vessel, loop_oxygen(rig) if seen else None, "the zone's own control",
        f"{zone.oxygen_pct:g} % oxygen", "oxygen", "oxygen", oxygen.STALE_S,
    )  # fmt: skip
    yield _zone_row(subject, row, gaps)


@dataclass(frozen=True, slots=True)
class _ZoneRow:
    """A row of a value that the gas of a vessel's zone sets; `probe` reads it where the medium passes."""

    hazard: str
    vessel: str
    probe: str | None
    acts: str
    limits: str
    gas: str
    reading: str
    stale_s: float


def _zone_row(subject: Subject, row: _ZoneRow, gaps: list[Finding]) -> Hazard:
    if row.probe is None:
        where = "in the loop" if row.vessel == subject.rig.loop else f"in “{row.vessel}”"
        note = f"a failure of the zone's {row.gas} is not seen: the rig has no {row.reading} probe {where}"
        return Hazard(
            row.hazard, row.vessel, "none", row.acts, (), row.limits, 0.0, NEVER_S, note, tuple(gaps), residual=True
        )
    note = f"{row.reading} follows the zone's gas within hours"
    late = _fresh(subject, row.probe, row.stale_s)
    return Hazard(
        row.hazard, row.vessel, row.probe, row.acts, (), row.limits, subject.every_s(row.probe), NEVER_S, note,
        (*gaps, *late),
    )  # fmt: skip


def _ph_in_zone(rig: Rig, vessel: str) -> Iterator[Finding]:
    zone = zone_of(rig, vessel)
    value = ph_at(bicarbonate_mm(rig, vessel), zone.co2_pct)
    if not bounds.MIN_PH <= value <= bounds.MAX_PH:
        what = f"in {zone.co2_pct:g} % CO2 this medium takes pH {value:.2f}, outside {bounds.MIN_PH:g} to {bounds.MAX_PH:g}"
        fix = (
            "Put the vessel into a zone with the CO2 that its bicarbonate needs (“zone: incubator”), or add organs.lung"
        )
        yield Finding(("vessels", vessel, "zone"), what, fix)


def _oxygen_in_zone(rig: Rig, vessel: str) -> Iterator[Finding]:
    zone = zone_of(rig, vessel)
    saturation_pct = 100.0 * zone.oxygen_pct / ROOM_OXYGEN_PCT
    if saturation_pct < bounds.MIN_OXYGEN_PCT:
        what = f"{zone.oxygen_pct:g} % oxygen gives {saturation_pct:.0f} % of air saturation, too little for tissue"
        min_pct = bounds.MIN_OXYGEN_PCT * ROOM_OXYGEN_PCT / 100.0
        yield Finding(("vessels", vessel, "zone"), what, f"Choose a zone with at least {min_pct:.1f} % oxygen")


def _base(subject: Subject, liver: LiverConfig, vessel: str) -> Hazard:
    dosing = liver.ph
    gaps = list(place_gap(subject, dosing, {vessel}, ("organs", "liver", "ph"), "pH probe"))
    gaps += list(_fresh(subject, dosing, DOSING_STALE_S))
    return Hazard(
        "base_overdose", vessel, dosing, "doses are measured before they are given back", (),
        "", 0.0, NEVER_S, "the spent vessel is graded before anything returns", tuple(gaps),
    )  # fmt: skip


def _fresh(subject: Subject, point: str, stale_s: float) -> Iterator[Finding]:
    """Yield a finding if one late reading already exceeds the maximum age `stale_s`."""
    every_s = subject.every_s(point)
    if READINGS * every_s > stale_s:
        what = f"“{point}” is read every {every_s:g} s, and its readings count for {stale_s:g} s"
        yield Finding(("devices", point.partition(".")[0], "every"), what, f"Write at most {stale_s / READINGS:g} s")


def _full_scale(subject: Subject, point: str) -> float | None:
    scale = subject.device(point).settings.get("full_scale_ml_min")
    return float(scale) if isinstance(scale, int | float) and not isinstance(scale, bool) else None


def _bubbled_elsewhere(rig: Rig, lung: LungConfig) -> Iterator[Finding]:
    """Yield a finding if the gas does not enter the loop, which carries it to the tissue."""
    if rig.loop is not None and lung.vessel != rig.loop:
        fix = f"Write “vessel: {rig.loop}”, and lead the gas there"
        what = f"the gas enters “{lung.vessel}”; probes and tissue rely on that of “{rig.loop}”"
        yield Finding((*PLACE, "vessel"), what, fix)


def _identity(subject: Subject, lung: LungConfig) -> Iterator[Finding]:
    """Yield findings unless each gas is known to come from its own controller: by `gas`, or by excluding full scales."""
    wanted = {"air": lung.air, "co2": lung.co2, "o2": lung.o2}
    if len(set(wanted.values())) < len(wanted):
        yield Finding((*PLACE, "co2"), "two gases come from one controller", "Name a controller for each gas")
        return
    yield from _exchanged(subject, wanted)
    if all(subject.device(point).gas is not None for point in wanted.values()):
        return
    air = _full_scale(subject, lung.air)
    others = [_full_scale(subject, lung.co2), _full_scale(subject, lung.o2)]
    if air is None or any(scale is None or scale >= air for scale in others):
        what = "nothing tells which controller carries which gas: a swap of air and CO2 could not be seen"
        yield Finding((*PLACE, "air"), what, "Write “gas: air”, “gas: co2” and “gas: o2” under their devices")


def _exchanged(subject: Subject, wanted: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each controller that is declared for another gas than its role."""
    for role, point in wanted.items():
        declared = subject.device(point).gas
        if declared is not None and declared != role:
            right = next((p for p in wanted.values() if subject.device(p).gas == role), None)
            what = f"“{point}” is the controller of {declared}, not of {role}"
            yield Finding(
                (*PLACE, role), what, f"Did you mean “{right}”?" if right else f"Name the controller of {role}"
            )


def _capacity(subject: Subject, lung: LungConfig) -> Iterator[Finding]:
    """Yield findings unless the controllers can carry the needed flows, and CO2 and oxygen no more than the total."""
    air, co2 = _full_scale(subject, lung.air), _full_scale(subject, lung.co2)
    if air is not None and air < lung.total_ml_min:
        what = f"“{lung.air}” gives at most {air:g} mL/min, and the lung needs {lung.total_ml_min:g} mL/min of air"
        fix = f"Is “{lung.air}” the controller of air? Else lower total_flow"
        yield Finding((*PLACE, "air"), what, fix)
    needed = lung.total_ml_min * lung.co2_max_pct / 100.0
    if co2 is not None and co2 < needed:
        what = f"“{lung.co2}” gives at most {co2:g} mL/min, and {needed:g} mL/min may be needed"
        yield Finding((*PLACE, "co2"), what, "Lower total_flow or co2_max, or use a larger controller")
    if air is not None and air * MIN_SHARE > lung.total_ml_min:
        what = f"{lung.total_ml_min:g} mL/min is below {MIN_SHARE:.0%} of the full scale of “{lung.air}”"
        yield Finding((*PLACE, "total_flow"), what, f"Raise it, or correct the full scale ({air:g} mL/min)")
    for role, name, point in (("co2", "CO2", lung.co2), ("o2", "oxygen", lung.o2)):
        scale = _full_scale(subject, point)
        if scale is not None and scale > lung.total_ml_min:
            what = (
                f"“{point}” gives up to {scale:g} mL/min: open by mistake it drowns {lung.total_ml_min:g} mL/min of gas"
            )
            yield Finding((*PLACE, role), what, f"Is “{point}” the controller of {name}? Else use a smaller one")


def _ph_range(lung: LungConfig, buffer_mm: float) -> Iterator[Finding]:
    low, high = bounds.SETPOINT_PH
    if not low <= lung.ph_setpoint <= high:
        what = f"pH {lung.ph_setpoint:g} is outside {low:g} to {high:g}"
        yield Finding((*PLACE, "ph_setpoint"), what, f"Choose a set-point from {low:g} to {high:g}")
        return
    for key, pct in (("co2_min", lung.co2_min_pct), ("co2_max", lung.co2_max_pct)):
        value = ph_at(buffer_mm, pct)
        if not bounds.MIN_PH <= value <= bounds.MAX_PH:
            what = f"{pct:g} % CO2 brings this medium to pH {value:.2f}, outside {bounds.MIN_PH:g} to {bounds.MAX_PH:g}"
            yield Finding((*PLACE, key), what, "Narrow the range of CO2, or correct the medium's bicarbonate")
    value = ph_at(buffer_mm, 100.0 * BASAL_CO2_FRACTION)
    if not bounds.MIN_PH <= value <= bounds.MAX_PH:
        what = f"the basal gas ({100 * BASAL_CO2_FRACTION:g} % CO2) brings this medium to pH {value:.2f}"
        yield Finding(("vessels", lung.vessel, "contains"), what, "Use a medium with 10 to 70 mM bicarbonate")
    lowest = ph_at(buffer_mm, lung.co2_max_pct * (1 + CO2_SLACK))
    highest = ph_at(buffer_mm, lung.co2_min_pct * (1 - CO2_SLACK))
    if not lowest <= lung.ph_setpoint <= highest:
        span = f"{lung.co2_min_pct:g} to {lung.co2_max_pct:g} % CO2"
        what = f"with {span} this medium has pH {lowest:.2f} to {highest:.2f}, never {lung.ph_setpoint:g}"
        key = "co2_max" if lung.ph_setpoint < lowest else "co2_min"
        yield Finding((*PLACE, key), what, "Widen the range of CO2, or move the set-point")
