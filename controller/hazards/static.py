"""Hazards of static culture, which lives on oxygen from the surface, and of medium that a person has to change."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from controller.alarms.definitions import DEFINITIONS
from controller.hazards import bounds, physics
from controller.hazards.terms import Hazard, Subject
from controller.rig.description import Rig
from controller.rig.families import MASS, OXYGEN, PointKind, points_of
from controller.rig.graph import dosed_vessels, fed_by_hearts, static_chambers
from controller.rig.open_surfaces import MM_PER_CM, WELL_DEPTH_MM, chamber_ul, is_humid, surface_cm2
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
        area_cm2 = surface_cm2(vessel)
        supply = physics.surface_supply_pmol_s(vessel, area_cm2)
        demand = physics.oxygen_demand_pmol_s(rig.tissue[chamber])
        harm_s = min(harm_s, physics.oxygen_lasts_s(rig, chamber, supply))
        if supply < demand:
            depth_mm = chamber_ul(vessel) / area_cm2 / MM_PER_CM**2
            what = (
                f"it is at rest: through {depth_mm:.1f} mm of medium {area_cm2:.3g} cm2 of surface bring {supply:.0f} pmol/s"
                f" of oxygen, and the tissue uses {demand:.0f}"
            )
            fix = "Write its surface (“surface: …”), put less medium or tissue into it, or perfuse it with a heart"
            gaps.append(Finding(("vessels", chamber), what, fix))
    known = all(rig.vessels[chamber].surface_cm2 is not None for chamber in chambers)
    assumed = "" if known else f"; {WELL_DEPTH_MM:g} mm of medium assumed where the file names no surface"
    return Hazard(
        "oxygen_at_rest", named(chambers), _probes(rig, OXYGEN, chambers), "none", (), "", 0.0, harm_s,
        f"oxygen comes from the surface by diffusion{assumed}", tuple(gaps), residual=True,
    )  # fmt: skip


def _evaporation(subject: Subject, chambers: list[str]) -> Hazard:
    """Return the row of water that evaporates from open medium."""
    rig = subject.rig
    times = {chamber: physics.concentrated_within_s(rig, chamber) for chamber in chambers}
    worst = min(times, key=lambda chamber: times[chamber])
    harm_s = times[worst]
    gaps = [
        Finding(
            ("vessels", chamber),
            f"{_gas(rig, chamber)} it loses a tenth of its water within {time_s / 3600.0:.0f} h",
            "Put more medium into it, or cover it and write the open surface (“surface: …”)",
        )
        for chamber, time_s in times.items()
        if time_s < DAY_S
    ]
    return Hazard(
        "evaporation", named(chambers), _probes(rig, MASS, chambers), "none", (),
        f"{100 * bounds.CONCENTRATED_SHARE:g} % of its volume", 0.0, harm_s,
        f"weigh it or measure the osmolality; {_gas(rig, worst)} a tenth is lost within {harm_s / DAY_S:.1f} d",
        tuple(gaps), residual=True,
    )  # fmt: skip


def _gas(rig: Rig, chamber: str) -> str:
    return "in a humid incubator" if is_humid(rig, chamber) else "in dry air, under a lid,"


def _missed_feeding(rig: Rig, chambers: list[str]) -> Hazard:
    """Return the row of medium that a person has to change; a manual task whose alarm comes in time closes the gap."""
    times = {}
    for chamber in chambers:
        vessel = rig.vessels[chamber]
        medium = rig.media.get(vessel.contains or "")
        glucose_mm = inf if medium is None else medium.glucose_mm
        times[chamber] = physics.spent_within_s(vessel, physics.glucose_use_nmol_s(rig.tissue[chamber]), glucose_mm)
    harm_s = min(times.values())
    asked = {chamber: _asked_within_s(rig, chamber) for chamber in chambers}
    gaps = [*_never_asked([c for c in chambers if asked[c] == inf], times), *_asked_too_late(rig, asked, times)]
    reminded = all(within_s < inf for within_s in asked.values())
    sensor, interlock = ("confirmation", "task_overdue: alarm") if reminded else ("none", "none; a person feeds")
    return Hazard(
        "missed_feeding", named(chambers), sensor, interlock, (), "", max(asked.values()) if reminded else 0.0, harm_s,
        f"until glucose falls to {bounds.MIN_GLUCOSE_MM:g} mM or lactate rises to {bounds.MAX_LACTATE_MM:g} mM",
        tuple(gaps), residual=True,
    )  # fmt: skip


def _asked_within_s(rig: Rig, vessel: str) -> float:
    """Return the time from a change of a vessel's medium to the alarm that the next one is overdue (s)."""
    return min((task.longest_s for task in rig.upkeep.tasks.values() if vessel in task.feeds), default=inf)


def _never_asked(chambers: list[str], times: dict[str, float]) -> Iterator[Finding]:
    """Yield a finding if no manual task asks for a change of medium in chambers; the worst one stands for all."""
    if not chambers:
        return
    first = min(chambers, key=lambda chamber: times[chamber])
    what = (
        f"a person changes its medium, which may be spent within {times[first] / DAY_S:.1f} d, and nothing reminds them"
    )
    fix = (
        "Give it a pump (organs.gut) or a manual task (“upkeep: tasks: …, feeds: […]”), or accept the hazard missed_feeding"
        " and say who feeds it, and how often"
    )
    yield Finding(("vessels", first), what, fix)


def _asked_too_late(rig: Rig, asked: dict[str, float], times: dict[str, float]) -> Iterator[Finding]:
    """Yield a finding for each manual task whose alarm comes when the medium may be spent."""
    respond_s = DEFINITIONS["task_overdue"].respond_within_s
    for name, task in rig.upkeep.tasks.items():
        late = [c for c in task.feeds if c in times and asked[c] == task.longest_s and asked[c] + respond_s > times[c]]
        if late:
            first = min(late, key=lambda chamber: times[chamber])
            what = (
                f"the medium of “{first}” may be spent within {times[first] / 3600.0:.0f} h, and the alarm of a missed change"
                f" comes after up to {task.longest_s / 3600.0:.0f} h"
            )
            fix = "Feed more often, shorten the grace, or put more medium into it"
            yield Finding(("upkeep", "tasks", name), what, fix)


def _spent_loop(rig: Rig, loop: str, chambers: list[str]) -> Hazard:
    """Return the row of circulating medium that no pump renews."""
    vessels = [rig.vessels[name] for name in (loop, *chambers)]
    whole = rig.vessels[loop].model_copy(update={"volume_ul": sum(chamber_ul(vessel) for vessel in vessels)})
    medium = rig.media.get(whole.contains or "")
    use_nmol_s = sum(physics.glucose_use_nmol_s(rig.tissue[chamber]) for chamber in chambers)
    harm_s = physics.spent_within_s(whole, use_nmol_s, inf if medium is None else medium.glucose_mm)
    reminded = _asked_within_s(rig, loop) < inf
    interlock = "task_overdue: alarm" if reminded else "none; a person changes the medium"
    return Hazard(
        "spent_medium", loop, "estimate", interlock, (), "", 0.0, harm_s,
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
