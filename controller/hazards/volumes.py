"""Hazards of volume: a vessel that overflows, or is pumped dry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, inf

from controller.hazards import bounds, physics
from controller.hazards.interlocks import place_gap, time_gap
from controller.hazards.terms import NEVER_S, Hazard, Subject
from controller.hazards.timing import status_s
from controller.rig.description import Line, Vessel
from controller.rig.graph import entering, lines_of_heart, vessels_behind
from controller.rig.organ_lines import organ_lines
from controller.rig.organs import KidneyConfig
from controller.rig.problems import Finding, named
from controller.rig.quantities import quantity_text
from controller.rig.selectors import paths

ROUNDING_UL_MIN = 0.1
"""Flow that need not return to the vessel that hearts draw from: rounding of the shares."""
GATE = "gate: volume bounds; stray doses are stopped"


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield the rows of vessels that pumps fill or drain, of the balance, and of hearts whose medium does not return."""
    for name, vessel in subject.rig.vessels.items():
        if into := _inflows(subject, name):
            yield _overflow(subject, name, vessel, into)
        elif (flooding := _spilling(subject, name, vessel)) and any(_endless(subject, name)):
            yield _overflow(subject, name, vessel, flooding)
        if out := _draws(subject, name):
            yield _dry(subject, name, vessel, out)
    yield from _single_pass(subject)
    if (kidney := subject.rig.organs.kidney) is not None:
        yield _balance(subject, kidney)


def _inflows(subject: Subject, vessel: str) -> dict[str, float]:
    """Return the pumps that fill a vessel, directly or over junctions, with their maximum flow into it (µL/min)."""
    found: dict[str, float] = {}
    for name, line in subject.rig.lines.items():
        if line.pump is not None:
            share = entering(subject.rig, name).get(vessel, 0.0)
            if share > 0.0:
                found[line.pump] = found.get(line.pump, 0.0) + share * subject.max_flow_ul_min(line.pump)
    return found


def _spilling(subject: Subject, name: str, vessel: Vessel) -> dict[str, float]:
    """Return the hearts' pumps whose medium overflows into a vessel, with their maximum flow into it (µL/min).

    A waste has its own row (`runs_over`).
    """
    rig = subject.rig
    found: dict[str, float] = {}
    for heart in rig.organs.hearts if vessel.kind != "waste" else ():
        pump = subject.heart_limits(heart).pump
        share = sum(vessels_behind(rig, line).get(name, 0.0) for line in lines_of_heart(rig, heart))
        if share > 0.0:
            found[pump] = share * subject.max_flow_ul_min(pump)
    return found


def _draws(subject: Subject, vessel: str) -> list[str]:
    """Return the pumps that draw from a vessel."""
    return list(dict.fromkeys(pump for _, pump in _drawing(subject, vessel)))


def _drawing(subject: Subject, vessel: str) -> list[tuple[Line, str]]:
    """Return the lines through which pumps draw from a vessel, directly or over selectors, with the pumps."""
    rig = subject.rig
    direct = [(line, line.pump) for line in rig.lines.values() if line.from_ == vessel and line.pump is not None]
    ways = (way for way in paths(rig) if way.source == vessel and way.lines[0] != way.pumped)
    return [*direct, *((rig.lines[way.lines[0]], way.pump) for way in ways)]


def _sensor(subject: Subject, vessel: str) -> str:
    kidney = subject.rig.organs.kidney
    return kidney.mass if kidney is not None and vessel == kidney.vessel else "ledger"


def _overflow(subject: Subject, name: str, vessel: Vessel, into: Mapping[str, float]) -> Hazard:
    doses = {pump: flow for pump, flow in into.items() if pump not in subject.heart_pumps}
    hearts = [pump for pump in into if pump in subject.heart_pumps]
    gaps = list(_endless(subject, name)) if hearts else []
    flooded_s = _floods_within_s(subject, name, vessel, sum(into[pump] for pump in hearts)) if gaps else NEVER_S
    if not doses:
        harm_s = flooded_s
        return Hazard(
            f"overflow_{name}", name, ", ".join(hearts), "overflow line", (), quantity_text(vessel.limit_ul, "uL"),
            0.0, harm_s, "what the heart brings runs off by itself", tuple(gaps),
        )  # fmt: skip
    harm_s = min(flooded_s, *(physics.fills_within_s(vessel, flow) for flow in doses.values()))
    takes_s = max(status_s(subject, pump) for pump in doses)
    gaps += _brimful(subject, name, vessel, doses, harm_s, takes_s)
    return Hazard(
        f"overflow_{name}", name, _sensor(subject, name), GATE, tuple(doses), quantity_text(vessel.limit_ul, "uL"),
        takes_s, harm_s, "from ceiling to brim at the maximum flow", tuple(gaps),
    )  # fmt: skip


def _endless(subject: Subject, name: str) -> Iterator[Finding]:
    """Yield a finding if a heart fills a vessel from which nothing leads out by itself."""
    drained = any(line.passive and line.from_ == name for line in subject.rig.lines.values())
    if drained or _circulates(subject, name):
        return
    pumped = _draws(subject, name)
    fix = f"Add a line with “from: {name}” and “passive: true”"
    if pumped:
        what = f"the heart fills “{name}” while {named(pumped)} stands, and no overflow leads out of it"
        yield Finding(("vessels", name), what, fix)
    else:
        yield Finding(("vessels", name), f"the heart fills “{name}” without end, and no overflow leads out of it", fix)


def _floods_within_s(subject: Subject, name: str, vessel: Vessel, flow_ul_min: float) -> float:
    """Return how soon hearts flood a vessel without an overflow (s): at once without an outlet, else once its pump stands."""
    if not _draws(subject, name):
        return 0.0
    return (vessel.capacity_ul - vessel.volume_ul) / flow_ul_min * 60.0


def _brimful(
    subject: Subject, name: str, vessel: Vessel, doses: Mapping[str, float], harm_s: float, takes_s: float
) -> Iterator[Finding]:
    """Yield a finding if a dose that runs over reaches the brim before it is stopped."""
    if vessel.limit_ul >= vessel.capacity_ul:
        what = f"“{name}” may be filled to its brim: no room is left for a dose that runs over"
        fix = f"Add “ceiling:”, say {quantity_text(0.9 * vessel.capacity_ul, 'uL')}"
        yield Finding(("vessels", name), what, fix)
        return
    slow = [p for p, flow in doses.items() if status_s(subject, p) > physics.fills_within_s(vessel, flow)]
    if slow:
        allowed = vessel.capacity_ul - max(doses[p] * status_s(subject, p) / 60.0 for p in slow)
        what = (
            f"“{slow[0]}” runs over from ceiling to brim within {harm_s:.0f} s, and is stopped within {takes_s:.0f} s"
        )
        device = slow[0].partition(".")[0]
        fix = f"Shorten “every” of “{device}” (now {subject.every_s(slow[0]):g} s)"
        if allowed > vessel.floor_ul:
            fix += f", or write “ceiling: {quantity_text(allowed, 'uL')}”"
        yield Finding(("vessels", name, "ceiling"), what, fix + _slower(subject, slow[0]))


def _circulates(subject: Subject, vessel: str) -> bool:
    """Return whether a heart that fills a vessel also draws from it."""
    rig = subject.rig
    return any(rig.lines[heart.line].from_ == vessel for heart in rig.organs.hearts.values())


def _dry(subject: Subject, name: str, vessel: Vessel, pumps: list[str]) -> Hazard:
    """Return the row of a vessel that pumps draw from; one whose inlet hangs above some volume leaves that much in it."""
    deep = [pump for line, pump in _drawing(subject, name) if not line.draws_above_ul]
    flows = {pump: subject.max_flow_ul_min(pump) for pump in pumps if pump in deep and pump not in subject.heart_pumps}
    harm_s = min((physics.empties_within_s(vessel, flow) for flow in flows.values()), default=inf)
    takes_s = max((status_s(subject, pump) for pump in flows), default=0.0)
    gaps = tuple(_empty(subject, name, vessel, flows, harm_s, takes_s)) if deep else ()
    return Hazard(
        f"dry_{name}", name, _sensor(subject, name), GATE, tuple(pumps), quantity_text(vessel.floor_ul, "uL"),
        takes_s, harm_s, "from the floor at the maximum flow", gaps,
    )  # fmt: skip


def _slower(subject: Subject, pump: str) -> str:
    """Return the fix for a pump whose flow nothing in the file bounds."""
    organs = {each.line for each in organ_lines(subject.rig)}
    for name, line in subject.rig.lines.items():
        if line.pump == pump and name not in organs and line.max_flow_ul_min is None:
            return f", or write its maximum flow under line “{name}” (“max_flow: …”)"
    return ""


def _empty(
    subject: Subject, name: str, vessel: Vessel, flows: Mapping[str, float], harm_s: float, takes_s: float
) -> Iterator[Finding]:
    """Yield a finding if a dose that goes on empties the vessel before it is stopped."""
    if vessel.floor_ul <= 0.0:
        fix = f"Add “floor:”, what its tube does not reach, say {quantity_text(0.1 * vessel.capacity_ul, 'uL')}"
        yield Finding(("vessels", name), f"“{name}” may be pumped dry: air gets into the lines", fix)
        return
    late = [pump for pump, flow in flows.items() if status_s(subject, pump) > physics.empties_within_s(vessel, flow)]
    if late:
        needed = max(flows[pump] * status_s(subject, pump) / 60.0 for pump in late)
        what = f"“{late[0]}” empties it from the floor within {harm_s:.0f} s, and is stopped within {takes_s:.0f} s"
        fix = f"Write “floor: {quantity_text(needed, 'uL')}”, or shorten “every” of “{late[0].partition('.')[0]}”"
        fix += _slower(subject, late[0])
        yield Finding(("vessels", name, "floor"), what, fix)


def _single_pass(subject: Subject) -> Iterator[Hazard]:
    """Yield rows for hearts whose medium does not return to where it comes from: a bottle runs dry, a waste runs over."""
    rig = subject.rig
    lost: dict[str, float] = {}
    wasted: dict[str, float] = {}
    for name, heart in rig.organs.hearts.items():
        source = rig.lines[heart.line].from_
        for line in lines_of_heart(rig, name):
            ends = vessels_behind(rig, line)
            lost[source] = lost.get(source, 0.0) + (1.0 - min(ends.get(source, 0.0), 1.0)) * heart.flow_ul_min
            for vessel, share in ends.items():
                if rig.vessels[vessel].kind == "waste":
                    wasted[vessel] = wasted.get(vessel, 0.0) + share * heart.flow_ul_min
    for vessel, flow in lost.items():
        if flow > ROUNDING_UL_MIN:
            whole_ul = rig.vessels[vessel].capacity_ul - rig.vessels[vessel].floor_ul
            harm = f"the heart draws {vessel} empty"
            yield _reserve(subject, f"runs_dry_{vessel}", vessel, "stock_low", flow, harm, whole_ul=whole_ul)
    for vessel, flow in wasted.items():
        whole_ul = rig.vessels[vessel].limit_ul
        yield _reserve(
            subject, f"runs_over_{vessel}", vessel, "waste_full", flow, f"{vessel} runs over", whole_ul=whole_ul
        )


def _reserve(
    subject: Subject, hazard: str, vessel: str, alarm: str, flow_ul_min: float, harm: str, *, whole_ul: float
) -> Hazard:
    """Return the row of a bottle or a waste that a person has to change between the alarm and the harm."""
    rig, share_pct = subject.rig, subject.rig.upkeep.stock_low_pct
    harm_s = share_pct / 100.0 * whole_ul / flow_ul_min * 60.0
    gaps = []
    if rig.vessels[vessel].kind == "loop":
        what = f"the heart's medium does not come back into “{vessel}”, and nothing watches how much is left in it"
        gaps.append(Finding(("vessels", vessel, "kind"), what, "Write “kind: source”, or lead the medium back"))
        harm_s = 0.0
    elif harm_s < bounds.PERSON_S:
        needed = ceil(100.0 * flow_ul_min * bounds.PERSON_S / 60.0 / whole_ul)
        what = f"{harm} within {harm_s / 60.0:.0f} min of the alarm {alarm}, which leaves no time to change it"
        fix = f"Write “stock_low: {needed} %”" if needed < 100 else "Use a larger vessel"
        gaps.append(Finding(("upkeep", "stock_low"), what, fix))
    return Hazard(
        hazard, vessel, "ledger", f"alarm {alarm}; a person changes it", (), f"{share_pct:g} % left", 0.0, harm_s,
        "between the alarm and the harm at the working flow", tuple(gaps),
    )  # fmt: skip


def _balance(subject: Subject, kidney: KidneyConfig) -> Hazard:
    """Return the row of the balance, which weighs every transfer: it must stand under the kidney's vessel and be in time."""
    vessel = subject.rig.vessels[kidney.vessel]
    gaps = list(place_gap(subject, kidney.mass, {kidney.vessel}, ("organs", "kidney", "mass"), "balance"))
    flow = max(_inflows(subject, kidney.vessel).values(), default=0.0)
    harm_s = physics.fills_within_s(vessel, flow) if flow else inf
    takes_s = status_s(subject, kidney.mass)
    if vessel.limit_ul < vessel.capacity_ul:
        gaps += time_gap(subject, kidney.mass, takes_s, harm_s, f"“{kidney.vessel}” runs over")
    return Hazard(
        "sensor_loss_balance", kidney.vessel, kidney.mass, "no dose without a fresh weight; alarm device_lost", (),
        "", takes_s, harm_s, "transfers are judged by weight", tuple(gaps),
    )  # fmt: skip
