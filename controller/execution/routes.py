"""Which way each verb moves liquid on this rig: line, pump, valve, flow, least volume, and how well the pump keeps to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.rig.description import Rig

CALIBRATION_REL_SD = {"ismatec-reglo-icc": 0.08, "atlas-ezo-pmp": 0.02}
"""How far a pump's volume may be from the truth: peristaltic tubing drifts 5–15 % (biology.md §2); EZO-PMP ±1 %."""
LEAST_UL = {"ismatec-reglo-icc": 50.0, "atlas-ezo-pmp": 500.0}
OTHER_REL_SD, OTHER_LEAST_UL = 0.1, 100.0


@dataclass(frozen=True, slots=True)
class Route:
    """One way of moving liquid. Volumes in µL, flow in µL/min."""

    line: str
    pump: str
    source: str
    target: str
    valve: str | None
    flow_ul_min: float
    least_ul: float
    rel_sd: float
    weighed: int
    """+1 when the weighed vessel is filled by it, -1 when it is emptied, 0 when the balance does not see it."""


def routes_of(rig: Rig) -> dict[str, Route]:
    """Verb → route."""
    organs = rig.organs
    kidney = organs.kidney
    dialysis = (
        {} if kidney.dialyse is None else {"kidney.dialyse": _route(rig, kidney.dialyse, kidney.dialysate_ul_min)}
    )
    return {
        "kidney.draw": _route(rig, organs.kidney.draw, organs.kidney.flow_ul_min),
        "kidney.give_back": _route(rig, organs.kidney.return_, organs.kidney.flow_ul_min),
        "kidney.discard": _route(rig, organs.kidney.discard, organs.kidney.flow_ul_min),
        "gut.feed": _route(rig, organs.gut.feed, organs.gut.flow_ul_min),
        "liver.add_glucose": _route(
            rig, organs.liver.glucose, organs.liver.flow_ul_min, least_ul=organs.liver.min_dose_ul
        ),
        "liver.add_base": _route(rig, organs.liver.base, organs.liver.flow_ul_min, least_ul=organs.liver.min_dose_ul),
        **dialysis,
    }


def by_line(routes: Mapping[str, Route]) -> dict[str, Route]:
    """The same routes by the name of their line."""
    return {route.line: route for route in routes.values()}


def _route(rig: Rig, name: str, flow_ul_min: float, *, least_ul: float = 0.0) -> Route:
    line = rig.lines[name]
    if line.pump is None:
        raise ValueError(
            f"line “{name}” has no pump. Likely cause: a passive line is named under organs. Next: name another"
        )
    model = rig.devices[line.pump.partition(".")[0]].model
    weighed = rig.organs.kidney.vessel
    return Route(
        line=name,
        pump=line.pump,
        source=line.from_,
        target=line.to,
        valve=line.valve,
        flow_ul_min=flow_ul_min,
        least_ul=max(least_ul, LEAST_UL.get(model, OTHER_LEAST_UL)),
        rel_sd=CALIBRATION_REL_SD.get(model, OTHER_REL_SD),
        weighed=(line.to == weighed) - (line.from_ == weighed),
    )
