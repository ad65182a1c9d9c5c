"""Hazards of doses for which only the pump vouches: it counts its turns with medium or air, forwards or backwards."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from controller.hazards.terms import NEVER_S, Hazard, Subject
from controller.rig.problems import named
from controller.rig.quantities import quantity_text
from controller.transfers.continuous import standing_balances
from controller.transfers.flow_witness import flow_sensors, proved_from_ul
from controller.transfers.routes import Route, routes_of


def unwitnessed_id(line: str) -> str:
    """Return the id of the hazard that nothing shows what a line's doses move."""
    return f"unwitnessed_{line}"


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield a row for each line of doses, or of small doses, that neither a weighing nor a flow sensor proves."""
    by_line: dict[str, list[Route]] = {}
    for route in routes_of(subject.rig).values():
        if not route.weighed and proved_from_ul(subject.rig, route) > route.min_ul:
            by_line.setdefault(route.line, []).append(route)
    for line, routes in by_line.items():
        yield _row(subject, line, routes)


def _row(subject: Subject, line: str, routes: list[Route]) -> Hazard:
    rig = subject.rig
    from_ul = max(proved_from_ul(rig, route) for route in routes)
    sensors = list(dict.fromkeys(point for route in routes for point in flow_sensors(rig, route)))
    faults = "air in the line, a motor that turns backwards"
    faults += ", a valve between two ports" if any(route.ports for route in routes) else ""
    limits, remedy = "every dose", f"fit a flow sensor that tells of air (“at: {line}”)"
    if isfinite(from_ul):
        limits = f"doses under {quantity_text(round(from_ul, 1), 'uL')}"
        remedy = f"read {named(sensors)} more often (“every:”), or lower “max_flow” of “{line}”"
    return Hazard(
        unwitnessed_id(line), line, named(sensors) or "none",
        "a dose without flow holds the run" if sensors else "none; the pump's count is believed", (routes[0].pump,),
        limits, 0.0, NEVER_S,
        f"{limits}: nothing shows {faults}; it ends as done, though less or nothing arrives{_later(subject, routes)}:"
        f" {remedy}",
        residual=True,
    )  # fmt: skip


def _later(subject: Subject, routes: list[Route]) -> str:
    """Return as text which balance shows what several doses lack together; it is too coarse for one."""
    ends = {end for route in routes for end in (route.source, route.target)}
    balances = [point for point, vessel in standing_balances(subject.rig).items() if vessel in ends]
    return f" (after many, {named(balances)} shows what they lack together)" if balances else ""
