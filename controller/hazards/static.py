"""Hazards of static culture, which lives on oxygen from the surface, and of medium that a person has to change."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from controller.hazards import bounds, physics
from controller.hazards.terms import Hazard, Subject
from controller.rig.description import Rig
from controller.rig.families import MASS, OXYGEN, PointKind, points_of
from controller.rig.graph import dosed_vessels, fed_by_hearts, static_chambers
from controller.rig.problems import Finding, named

DAY_S = 86_400.0


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield the rows of static chambers with tissue (oxygen, evaporation, feeding), and of a loop without fresh medium."""
    rig = subject.rig
    if (
        rig.loop is not None
        and rig.organs.gut is None
        and (perfused := [c for c in fed_by_hearts(rig) if c in rig.tissue])
    ):
        yield _spent_loop(rig, rig.loop, perfused)
    chambers = [chamber for chamber in static_chambers(rig) if chamber in rig.tissue]
    if not chambers:
        return
    yield _oxygen(subject, chambers)
    yield _evaporation(subject, chambers)
    dosed = dosed_vessels(rig)
    by_hand = [chamber for chamber in chambers if chamber not in dosed]
    if by_hand:
        yield _missed_feeding(rig, by_hand)


def _oxygen(subject: Subject, chambers: list[str]) -> Hazard:
    """Return the row of oxygen that diffuses from the surface; a probe in a chamber shows it, and a person acts."""
    rig, harm_s = subject.rig, inf
    gaps = []
    for chamber in chambers:
        vessel = rig.vessels[chamber]
        area_cm2 = physics.surface_cm2(vessel)
        supply = physics.surface_supply_pmol_s(vessel, area_cm2)
        demand = physics.oxygen_demand_pmol_s(rig.tissue[chamber])
        harm_s = min(harm_s, physics.oxygen_lasts_s(rig, chamber, supply))
        if supply < demand:
            depth_mm = physics.chamber_ul(vessel) / area_cm2 / physics.MM_PER_CM**2
            what = (
                f"it is at rest: through {depth_mm:.1f} mm of medium {area_cm2:.3g} cm2 of surface bring {supply:.0f} pmol/s"
                f" of oxygen, and the tissue uses {demand:.0f}"
            )
            fix = "Write its surface (“surface: …”), put less medium or tissue into it, or perfuse it with a heart"
            gaps.append(Finding(("vessels", chamber), what, fix))
    known = all(rig.vessels[chamber].surface_cm2 is not None for chamber in chambers)
    assumed = "" if known else f"; {bounds.WELL_DEPTH_MM:g} mm of medium assumed where the file names no surface"
    return Hazard(
        "oxygen_at_rest", named(chambers), _probes(rig, OXYGEN, chambers), "none", (), "", 0.0, harm_s,
        f"oxygen comes from the surface by diffusion{assumed}", tuple(gaps), residual=True,
    )  # fmt: skip


def _evaporation(subject: Subject, chambers: list[str]) -> Hazard:
    """Return the row of water that evaporates from open medium."""
    rig = subject.rig
    areas = {chamber: physics.surface_cm2(rig.vessels[chamber]) for chamber in chambers}
    times = {chamber: physics.concentrated_within_s(rig.vessels[chamber], area) for chamber, area in areas.items()}
    harm_s = min(times.values())
    gaps = [
        Finding(
            ("vessels", chamber),
            f"in a humid incubator it loses a tenth of its water within {time_s / 3600.0:.0f} h",
            "Put more medium into it, or cover it and write the open surface (“surface: …”)",
        )
        for chamber, time_s in times.items()
        if time_s < DAY_S
    ]
    return Hazard(
        "evaporation", named(chambers), _probes(rig, MASS, chambers), "none", (),
        f"{100 * bounds.CONCENTRATED_SHARE:g} % of its volume", 0.0, harm_s,
        f"weigh it or measure the osmolality; in a humid incubator a tenth is lost within {harm_s / DAY_S:.1f} d",
        tuple(gaps), residual=True,
    )  # fmt: skip


def _missed_feeding(rig: Rig, chambers: list[str]) -> Hazard:
    """Return the row of medium that a person has to change."""
    times = {}
    for chamber in chambers:
        vessel = rig.vessels[chamber]
        medium = rig.media.get(vessel.contains or "")
        glucose_mm = inf if medium is None else medium.glucose_mm
        times[chamber] = physics.spent_within_s(vessel, physics.glucose_use_nmol_s(rig.tissue[chamber]), glucose_mm)
    harm_s = min(times.values())
    first = min(times, key=lambda chamber: times[chamber])
    what = f"a person changes its medium, which may be spent within {harm_s / DAY_S:.1f} d, and nothing reminds them"
    fix = "Give it a pump (organs.gut), or accept the hazard missed_feeding and say who feeds it, and how often"
    gap = Finding(("vessels", first), what, fix)
    return Hazard(
        "missed_feeding", named(chambers), "none", "none; a person feeds", (), "", 0.0, harm_s,
        f"until glucose falls to {bounds.MIN_GLUCOSE_MM:g} mM or lactate rises to {bounds.MAX_LACTATE_MM:g} mM",
        (gap,), residual=True,
    )  # fmt: skip


def _spent_loop(rig: Rig, loop: str, chambers: list[str]) -> Hazard:
    """Return the row of circulating medium that no pump renews."""
    vessels = [rig.vessels[name] for name in (loop, *chambers)]
    whole = rig.vessels[loop].model_copy(update={"volume_ul": sum(physics.chamber_ul(vessel) for vessel in vessels)})
    medium = rig.media.get(whole.contains or "")
    use_nmol_s = sum(physics.glucose_use_nmol_s(rig.tissue[chamber]) for chamber in chambers)
    harm_s = physics.spent_within_s(whole, use_nmol_s, inf if medium is None else medium.glucose_mm)
    return Hazard(
        "spent_medium", loop, "estimate", "none; a person changes the medium", (), "", 0.0, harm_s,
        f"no pump brings fresh medium: it may be spent within {harm_s / DAY_S:.1f} d; the estimate grades it", residual=True,
    )  # fmt: skip


def _probes(rig: Rig, kind: PointKind, chambers: list[str]) -> str:
    """Return the points of a kind in the chambers as text."""
    found = [
        point
        for point, its in points_of(rig).items()
        if its == kind and rig.devices[point.partition(".")[0]].at in chambers
    ]
    return named(found) or "none"
