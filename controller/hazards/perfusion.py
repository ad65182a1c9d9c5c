"""Hazards of flow: the heart stands, delivers too little oxygen, or shears the tissue."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from controller.hazards import bounds, physics
from controller.hazards.interlocks import time_gap
from controller.hazards.terms import Hazard, Subject
from controller.hazards.timing import blind_s
from controller.rig.description import Rig
from controller.rig.families import max_flow_ul_min
from controller.rig.organ_lines import organ_lines
from controller.rig.problems import Finding
from controller.safety.interlocks import NO_HEART_FLOW

MIN_LEASE_S = 5.0
"""Minimum lease (s): it is renewed three times in its length, at most once a tick; a shorter one lapses under load."""

MIN_FLOW_SHARE = 0.5
"""Share of the tissue's oxygen use that the minimum flow has to deliver: that flow is meant for minutes [P]."""


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield the rows of flow."""
    rig = subject.rig
    heart, lasts_s = rig.organs.heart, physics.oxygen_lasts_s(rig)
    demand = physics.oxygen_demand_pmol_s(rig.organoid)
    (limits,) = subject.limits.hearts
    takes_s = blind_s(limits.stale_s)
    gaps = [*_flows(subject, demand), *_lease(subject, lasts_s)]
    gaps += time_gap(subject, subject.heart, takes_s, lasts_s, "the chamber's oxygen is used up")
    if not limits.draws:
        fix = "Name the pumped line that draws medium away"
        gaps.append(Finding(("organs", "kidney", "draw"), "nothing stops drawing while the heart stands", fix))
    acts = (*limits.draws, subject.heart)
    yield Hazard(
        "loss_of_flow", rig.chamber, subject.heart, f"{NO_HEART_FLOW}: draws stop, heart restarts, alarm", acts,
        f"at least {heart.min_ul_min / 1000:g} mL/min", takes_s, lasts_s,
        f"{demand:.0f} pmol/s out of what is dissolved in the chamber", tuple(gaps),
    )  # fmt: skip
    yield from _unperfused(subject)


def _unperfused(subject: Subject) -> Iterator[Hazard]:
    """Yield a row for each chamber that the heart's medium does not reach."""
    rig = subject.rig
    fed = _fed(rig)
    for name, vessel in rig.vessels.items():
        if vessel.kind == "chamber" and name not in fed:
            what = f"the heart's line “{rig.organs.heart.line}” does not reach it: tissue in it gets no oxygen"
            fix = "Lead the heart's medium through it (an overflow from a perfused chamber), or remove it from the file"
            gap = Finding(("vessels", name, "kind"), what, fix)
            yield Hazard(
                f"unperfused_{name}",
                name,
                "none",
                "none",
                (),
                "",
                0.0,
                0.0,
                "medium at rest holds oxygen for minutes",
                (gap,),
            )


def _fed(rig: Rig) -> set[str]:
    """Return the vessels that the heart's medium reaches on its way back to the loop: its target, and along overflows."""
    found, ahead = set[str](), [rig.lines[rig.organs.heart.line].to]
    while ahead:
        vessel = ahead.pop()
        if vessel in found or vessel == rig.loop:
            continue
        found.add(vessel)
        ahead += [line.to for line in rig.lines.values() if line.passive and line.from_ == vessel]
    return found


def _flows(subject: Subject, demand: float) -> Iterator[Finding]:
    heart = subject.rig.organs.heart
    place = ("organs", "heart")
    for key, flow, share in (
        ("basal", heart.basal_ul_min, 1.0),
        ("flow", heart.flow_ul_min, 1.0),
        ("min", heart.min_ul_min, MIN_FLOW_SHARE),
    ):
        supply = physics.oxygen_supply_pmol_s(flow)
        if supply < share * demand:
            what = f"{flow / 1000:g} mL/min brings {supply:.0f} pmol/s of oxygen, and the tissue uses {demand:.0f}"
            needed = share * demand / physics.oxygen_supply_pmol_s(1.0) / 1000.0
            yield Finding((*place, key), what, f"Write at least {needed:.2f} mL/min")
    shear = physics.shear_pa(subject.rig, heart.max_ul_min)
    if shear > bounds.MAX_SHEAR_PA:
        what = f"{heart.max_ul_min / 1000:g} mL/min shears the tissue with {shear:.2f} Pa"
        allowed = heart.max_ul_min * bounds.MAX_SHEAR_PA / shear / 1000.0
        yield Finding((*place, "max"), what, f"Write at most {allowed:.1f} mL/min")
    for each in organ_lines(subject.rig):
        pump, flow = subject.rig.lines[each.line].pump or "", each.max_ul_min
        max_ul_min = max_flow_ul_min(subject.rig, pump)
        if flow > max_ul_min and max_ul_min < inf:
            limit = f"{max_ul_min / 1000:.1f} mL/min"
            what = f"{flow / 1000:g} mL/min is more than “{pump}” can move with its tubing ({limit})"
            yield Finding(
                ("organs", each.organ, each.flow_key),
                what,
                "Lower the flow, or fit wider tubing and say so under its channel",
            )


def _lease(subject: Subject, lasts_s: float) -> Iterator[Finding]:
    lease_s = subject.rig.organs.heart.lease_s
    if not MIN_LEASE_S <= lease_s <= lasts_s:
        what = f"a lease of {lease_s:g} s is outside {MIN_LEASE_S:g} s to {lasts_s:.0f} s (oxygen in the chamber)"
        yield Finding(("organs", "heart", "lease"), what, "Write 30 s")
