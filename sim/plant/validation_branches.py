"""Validation of branches and of chambers without a pump: V13 to V17, against closed formulas."""

from __future__ import annotations

import numpy as np

from sim.plant import chemistry, gas, hydraulics, shapes, surfaces
from sim.plant.columns import Content, TallyCause
from sim.plant.fleet import Fleet
from sim.plant.verdicts import Measured, Validation, verdict

EXACT = 1e-9
HOUR_S = 3600.0
LEAK_UL_MIN = 50.0


def _manifold(lengths_m: tuple[float, ...], bores_mm: tuple[float, ...]) -> tuple[Fleet, float]:
    """Return a manifold with its pump on, and what the pump would move against no pressure (µL/min)."""
    fleet = Fleet(shapes.manifold(len(lengths_m), lengths_m=lengths_m, bores_mm=bores_mm), [1])
    line = fleet.lines[0, 0]
    line["command_ul_min"] = 500.0 * len(lengths_m)
    fleet.advance(0.0, 1)
    return fleet, float(line["command_ul_min"] * line["gain"])


def _flows(fleet: Fleet) -> list[float]:
    """Return the flows of the pump and of the branches (µL/min)."""
    moving = fleet.sizes.pumped + fleet.sizes.branches
    return [float(flow) * 60.0 for flow in fleet.lines["flow_ul_s"][0, :moving]]


def _pumped(fleet: Fleet, free_ul_min: float, branches: list[int]) -> float:
    """Return what the pump moves through its line and the open branches in parallel, in closed form (µL/min)."""
    lines = fleet.rig.lines
    conductances = [
        1.0 / hydraulics.tube_kpa_per_ul_min(line.bore_mm, line.length_m)
        for line in (lines[f"to_c{number}"] for number in branches)
    ]
    feed = lines["feed"]
    resistance = hydraulics.tube_kpa_per_ul_min(feed.bore_mm, feed.length_m) + 1.0 / sum(conductances)
    return free_ul_min / (1.0 + resistance * free_ul_min / hydraulics.P_STALL_KPA)


def _part(what: str, exact: float, found: float, unit: str = "uL/min", tolerance: float = EXACT) -> Measured:
    return Measured(f"{what}, {unit}", f"{exact:.6g}", found, abs(found - exact) <= tolerance * max(abs(exact), 1e-9))


def v13() -> Validation:
    """Compare the split of a flow over unequal branches with Hagen–Poiseuille."""
    lengths_m, bores_mm = (0.2, 0.4, 0.4), (1.0, 1.0, 1.4)
    fleet, free = _manifold(lengths_m, bores_mm)
    pump, *flows = _flows(fleet)
    weights = [bore**4 / length for length, bore in zip(lengths_m, bores_mm, strict=True)]
    whole = _pumped(fleet, free, [0, 1, 2])
    parts = [_part("pump", whole, pump)]
    for weight, flow, length, bore in zip(weights, flows, lengths_m, bores_mm, strict=True):
        parts.append(_part(f"branch of {length} m, {bore} mm", whole * weight / sum(weights), flow))
    return Validation(
        "V13", "flow splits over branches by resistance", "shares of bore⁴/length",
        "; ".join(f"{flow:.1f}" for flow in flows), "1e-9", verdict(parts), "consistency", "Hagen–Poiseuille",
        "The same law on both sides; the linear equations of the junctions are what can fail.", tuple(parts),
    )  # fmt: skip


def v14() -> Validation:
    """Compare a manifold with one occluded branch with its closed form."""
    fleet, free = _manifold((0.3, 0.3, 0.3), (0.5, 0.5, 0.5))
    line, before_kpa = fleet.lines[0, 0], float(fleet.lines["pressure_kpa"][0, 0])
    fleet.lines["flow_scale"][0, fleet.line_names.index("to_c0")] = 0.0
    fleet.advance(0.0, 1)
    pump, blocked, *others = _flows(fleet)
    whole = _pumped(fleet, free, [1, 2])
    after_kpa = float(line["pressure_kpa"])
    exact_kpa = hydraulics.P_STALL_KPA * (1.0 - whole / free)
    parts = [
        _part("occluded branch", 0.0, blocked),
        *(_part("open branch", whole / 2, flow) for flow in others),
        _part("pump", whole, pump),
        _part("pressure behind the pump", exact_kpa, after_kpa, "kPa"),
        Measured(
            "pressure against that of three open branches, kPa",
            f"above {before_kpa:.4g}",
            after_kpa,
            after_kpa > before_kpa,
        ),
    ]
    return Validation(
        "V14", "one branch occluded: its flow goes to the others", "half each, at a higher pressure",
        f"{others[0]:.1f} each, {after_kpa:.2f} kPa (open {before_kpa:.2f})", "1e-9", verdict(parts), "consistency",
        "Hagen–Poiseuille, pump law", "", tuple(parts),
    )  # fmt: skip


def v15() -> Validation:
    """Check that a leaking branch loses its part and that the books close."""
    fleet, _ = _manifold((0.3, 0.3), (1.0, 1.0))
    fleet.lines["leak_ul_min"][0, fleet.line_names.index("to_c0")] = LEAK_UL_MIN
    before = fleet.contents()[0]
    fleet.advance(2.0, round(HOUR_S / 2.0))
    tally = fleet.tally[0]
    off = np.abs(fleet.contents()[0] - before - tally.sum(axis=0))
    turned = np.abs(before) + np.abs(tally).sum(axis=0)
    worst = float((off / np.maximum(turned, 1e-12)).max())
    lost = -float(tally[TallyCause.LEAK, Content.LIQUID])
    arrived = [float(fleet.lines["arrived_ul"][0, fleet.line_names.index(f"to_c{number}")]) for number in (0, 1)]
    parts = [
        _part("lost in an hour", LEAK_UL_MIN * HOUR_S / 60.0, lost, "uL", 1e-6),
        _part("sound branch less leaking branch", lost, arrived[1] - arrived[0], "uL", 1e-6),
        Measured("mass balance, worst species, relative", "below 1e-9", worst, worst < 1e-9),
    ]
    return Validation(
        "V15", "one branch leaks: it loses its part, and the mass balance closes", "3000 uL an hour", f"{lost:.3f} uL",
        "1e-6; 1e-9", verdict(parts), "consistency", "conservation", "", tuple(parts),
    )  # fmt: skip


def v16() -> Validation:
    """Compare two wells with different tissue in one rig with the same wells in rigs of their own."""
    wells = shapes.wells(2)
    small, large = shapes.organoids(1, 0.8), shapes.organoids(2, 1.2)
    tissue = type(wells).model_validate({**_plain(wells), "tissue": {"w0": small, "w1": large}}).tissue
    together = Fleet(wells.model_copy(update={"tissue": tissue}), [1])
    together.advance(2.0, round(HOUR_S / 2.0))
    consumed, alone = [], []
    fresh = together.composition("fresh") * 200.0
    for number, name in enumerate(("w0", "w1")):
        single = Fleet(wells.model_copy(update={"tissue": {name: tissue[name]}}), [1])
        single.advance(2.0, round(HOUR_S / 2.0))
        consumed.append(float(fresh[Content.GLUCOSE] - together.vessels[0, number, Content.GLUCOSE]))
        alone.append(float(fresh[Content.GLUCOSE] - single.vessels[0, number, Content.GLUCOSE]))
    whole = -float(together.tally[0, TallyCause.METABOLISM, Content.GLUCOSE])
    parts = [
        *(_part(f"glucose of {name}", alone[n], consumed[n], "nmol", 1e-3) for n, name in enumerate(("w0", "w1"))),
        _part("both, against the rig's books", whole, sum(consumed), "nmol", 1e-6),
        Measured("larger over smaller", "above 2", consumed[1] / consumed[0], consumed[1] > 2.0 * consumed[0]),
    ]
    return Validation(
        "V16", "two chambers with different tissue consume as they would alone", "as alone; the sum is the rig's",
        f"{consumed[0]:.3f} + {consumed[1]:.3f} = {whole:.3f} nmol glucose", "1e-3; 1e-6", verdict(parts), "consistency",
        "conservation",
        "Not to the last digit: the trophic factor of a rig's tissue is shared out to its chambers, and a single chamber has"
        " all of it, which changes viability by some 1e-4.", tuple(parts),
    )  # fmt: skip


def _plain(rig: object) -> dict[str, object]:
    """Return the fields of a rig, to be validated again with others."""
    return {name: getattr(rig, name) for name in type(rig).model_fields}  # type: ignore[attr-defined]


def v17() -> Validation:
    """Compare the oxygen on the bottom of a static well with diffusion through the medium above, and its evaporation."""
    rig = shapes.wells(1)
    fleet = Fleet(rig, [1])
    fleet.advance(2.0, round(24 * HOUR_S / 2.0))
    vessel, tissue = fleet.vessels[0, 0], fleet.tissues[0, 0]
    volume_ul = float(vessel[Content.LIQUID])
    area_mm2 = surfaces.well_mm2(360.0)
    depth_m = volume_ul / area_mm2 * 1e-3
    top_mm = chemistry.oxygen_mm(0.186)
    flux = float(tissue["uptake_nmol_s"]) * 1e-9 / (area_mm2 * 1e-6)
    exact_mm = top_mm - flux * depth_m / gas.DIFFUSIVITY_M2_S
    found_mm = float(vessel[Content.OXYGEN]) / volume_ul
    lost_ul = 200.0 - volume_ul
    exact_ul = surfaces.evaporation_ul_s(area_mm2, 37.0, surfaces.HUMID) * 24 * HOUR_S
    parts = [
        _part("oxygen on the bottom", exact_mm, found_mm, "mM", 0.01),
        _part("evaporated in a day", exact_ul, lost_ul, "uL", 1e-9),
        Measured(
            "share of the volume that evaporates in a day, %", "2-10", lost_ul / 2.0, 2.0 <= lost_ul / 2.0 <= 10.0
        ),
    ]
    return Validation(
        "V17", "static well: oxygen by diffusion from the surface", "c* - U·h/(D·A)",
        f"{found_mm:.4f} mM below {top_mm:.4f} mM", "1 %", verdict(parts), "consistency",
        "stagnant film; makers' tables of wells",
        "The closed form is the steady state; after a day the plant is at it but for the growth of the tissue. Real wells mix"
        " by convection and get up to twice as much. That a lidded well of 200 uL loses some per cent a day is usual [R].",
        tuple(parts),
    )  # fmt: skip
