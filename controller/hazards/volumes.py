"""Hazards of volume: a vessel that overflows, or is pumped dry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf

from controller.hazards import physics
from controller.hazards.interlocks import place_gap, time_gap
from controller.hazards.terms import NEVER_S, Hazard, Subject
from controller.hazards.timing import status_s
from controller.rig.description import Vessel
from controller.rig.problems import Finding
from controller.rig.quantities import quantity_text

GATE = "gate: volume bounds; stray doses are stopped"


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield the rows of each vessel that a pump fills or drains."""
    for name, vessel in subject.rig.vessels.items():
        if into := _pumps(subject, name, "to"):
            yield _overflow(subject, name, vessel, into)
        if out := _pumps(subject, name, "from_"):
            yield _dry(subject, name, vessel, out)
    yield _balance(subject)


def _pumps(subject: Subject, vessel: str, end: str) -> list[str]:
    return [line.pump for line in subject.rig.lines.values() if line.pump and getattr(line, end) == vessel]


def _sensor(subject: Subject, vessel: str) -> str:
    kidney = subject.rig.organs.kidney
    return kidney.mass if vessel == kidney.vessel else "ledger"


def _overflow(subject: Subject, name: str, vessel: Vessel, pumps: list[str]) -> Hazard:
    doses = [pump for pump in pumps if pump != subject.heart]
    gaps = list(_endless(subject, name)) if subject.heart in pumps else []
    if not doses:
        return Hazard(
            f"overflow_{name}", name, subject.heart, "overflow line", (), quantity_text(vessel.limit_ul, "uL"),
            0.0, 0.0 if gaps else NEVER_S, "what the heart brings runs off by itself", tuple(gaps),
        )  # fmt: skip
    harm_s = min(physics.fills_within_s(vessel, subject.max_flow_ul_min(pump)) for pump in doses)
    takes_s = max(status_s(subject, pump) for pump in doses)
    gaps += _brimful(subject, name, vessel, doses, harm_s, takes_s)
    return Hazard(
        f"overflow_{name}", name, _sensor(subject, name), GATE, tuple(doses), quantity_text(vessel.limit_ul, "uL"),
        takes_s, harm_s, "from ceiling to brim at the maximum flow", tuple(gaps),
    )  # fmt: skip


def _endless(subject: Subject, name: str) -> Iterator[Finding]:
    """Yield a finding if the heart fills a vessel from which nothing leads out."""
    drained = any(line.passive and line.from_ == name for line in subject.rig.lines.values())
    if not drained and not _circulates(subject, name):
        what = f"the heart fills “{name}” without end, and no overflow leads out of it"
        yield Finding(("vessels", name), what, f"Add a line with “from: {name}” and “passive: true”")


def _brimful(
    subject: Subject, name: str, vessel: Vessel, doses: list[str], harm_s: float, takes_s: float
) -> Iterator[Finding]:
    """Yield a finding if a dose that runs over reaches the brim before it is stopped."""
    if vessel.limit_ul >= vessel.capacity_ul:
        what = f"“{name}” may be filled to its brim: no room is left for a dose that runs over"
        fix = f"Add “ceiling:”, say {quantity_text(0.9 * vessel.capacity_ul, 'uL')}"
        yield Finding(("vessels", name), what, fix)
        return
    slow = [p for p in doses if status_s(subject, p) > physics.fills_within_s(vessel, subject.max_flow_ul_min(p))]
    if slow:
        allowed = vessel.capacity_ul - max(subject.max_flow_ul_min(p) * status_s(subject, p) / 60.0 for p in slow)
        what = (
            f"“{slow[0]}” runs over from ceiling to brim within {harm_s:.0f} s, and is stopped within {takes_s:.0f} s"
        )
        device = slow[0].partition(".")[0]
        fix = f"Shorten “every” of “{device}” (now {subject.every_s(slow[0]):g} s)"
        if allowed > vessel.floor_ul:
            fix += f", or write “ceiling: {quantity_text(allowed, 'uL')}”"
        yield Finding(("vessels", name, "ceiling"), what, fix)


def _circulates(subject: Subject, vessel: str) -> bool:
    """Return whether the heart also draws from the vessel that it fills."""
    return subject.rig.lines[subject.rig.organs.heart.line].from_ == vessel


def _dry(subject: Subject, name: str, vessel: Vessel, pumps: list[str]) -> Hazard:
    flows = {pump: subject.max_flow_ul_min(pump) for pump in pumps if pump != subject.heart}
    harm_s = min((physics.empties_within_s(vessel, flow) for flow in flows.values()), default=inf)
    takes_s = max((status_s(subject, pump) for pump in flows), default=0.0)
    gaps = tuple(_empty(subject, name, vessel, flows, harm_s, takes_s))
    return Hazard(
        f"dry_{name}", name, _sensor(subject, name), GATE, tuple(pumps), quantity_text(vessel.floor_ul, "uL"),
        takes_s, harm_s, "from the floor at the maximum flow", gaps,
    )  # fmt: skip


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
        yield Finding(("vessels", name, "floor"), what, fix)


def _balance(subject: Subject) -> Hazard:
    """Return the row of the balance, which weighs every transfer: it must stand under the kidney's vessel and be in time."""
    kidney = subject.rig.organs.kidney
    vessel = subject.rig.vessels[kidney.vessel]
    gaps = list(place_gap(subject, kidney.mass, {kidney.vessel}, ("organs", "kidney", "mass"), "balance"))
    flow = max((subject.max_flow_ul_min(pump) for pump in _pumps(subject, kidney.vessel, "to")), default=0.0)
    harm_s = physics.fills_within_s(vessel, flow) if flow else inf
    takes_s = status_s(subject, kidney.mass)
    if vessel.limit_ul < vessel.capacity_ul:
        gaps += time_gap(subject, kidney.mass, takes_s, harm_s, f"“{kidney.vessel}” runs over")
    return Hazard(
        "sensor_loss_balance", kidney.vessel, kidney.mass, "no dose without a fresh weight; alarm device_lost", (),
        "", takes_s, harm_s, "transfers are judged by weight", tuple(gaps),
    )  # fmt: skip
