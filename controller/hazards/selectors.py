"""Hazards of selectors: a wrong port, a blocked port, what the shared line holds, and liquids that harm tissue."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from controller.hazards import bounds
from controller.hazards.terms import NEVER_S, Hazard, Subject
from controller.hazards.timing import seen_s, status_s
from controller.rig.description import Rig
from controller.rig.families import LIQUID_FLOW, MASS, PointKind, points_of
from controller.rig.problems import Finding, named
from controller.rig.quantities import quantity_text
from controller.rig.selectors import (
    PumpedPath,
    behind_ul,
    direction,
    forbidden,
    held_ul,
    paths,
)
from controller.safety.limits import pressure_interlock

READBACK = "gate: position read back before a dose; moves only while the pump stands"


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield the rows of each selector, of lines that several liquids share, and of liquids that tissue does not bear."""
    ways = paths(subject.rig)
    for selector in subject.rig.selectors:
        yield _wrong_port(subject, selector, ways)
        yield _blocked_port(subject, selector, ways)
    for line, bottles in _shared(subject.rig, ways).items():
        yield _carry_over(subject.rig, line, bottles, ways)
    yield from _harmful(subject.rig, ways)


def _through(selector: str, ways: tuple[PumpedPath, ...]) -> list[PumpedPath]:
    return [way for way in ways if selector in dict(way.positions)]


def _wrong_port(subject: Subject, selector: str, ways: tuple[PumpedPath, ...]) -> Hazard:
    """Return the row of a valve that stands elsewhere than asked; only a slipped rotor is not seen.

    Without power it stays where it is: the pump stops first, then guard or controller move it to rest.
    """
    pumps = tuple(dict.fromkeys(way.pump for way in _through(selector, ways)))
    valve = subject.rig.selectors[selector].valve
    return Hazard(
        f"wrong_port_{selector}", selector, f"{valve.partition('.')[0]}.position", READBACK, (*pumps, valve),
        f"rest at {subject.rig.selectors[selector].rest}", status_s(subject, valve), NEVER_S,
        "a rotor that slipped on its shaft reports the position that it should have: commissioning proves each port, and a"
        " look at the levels on the daily round", residual=True, group="wrong_ports",
    )  # fmt: skip


def _blocked_port(subject: Subject, selector: str, ways: tuple[PumpedPath, ...]) -> Hazard:
    """Return the row of a port that is blocked: pressure shows it before the valve, a balance behind a valve that draws."""
    through = _through(selector, ways)
    if direction(subject.rig, selector) == "out":
        return _blocked_outlet(subject, selector, through)
    if any(subject.rig.vessels[way.source].kind == "chamber" for way in through):
        return _blocked_extraction(subject.rig, selector, through)
    return _blocked_bottle(subject.rig, selector, through)


def _blocked_outlet(subject: Subject, selector: str, through: list[PumpedPath]) -> Hazard:
    """Return the row of a port into which a pump presses."""
    rules = {way.pumped: subject.interlock(pressure_interlock(subject.rig, way.pumped)) for way in through}
    known = [rule for rule in rules.values() if rule is not None]
    without = [line for line, rule in rules.items() if rule is None]
    return Hazard(
        f"blocked_port_{selector}", selector, _listed(rule.point for rule in known), _listed(rule.name for rule in known),
        _pumps(through), "", max((seen_s(subject, rule) for rule in known), default=0.0), NEVER_S,
        "the pump presses against the port; the vessel behind it gets nothing",
        tuple(_no_gauges(subject.rig, selector, without)), group="blocked_ports",
    )  # fmt: skip


def _blocked_bottle(rig: Rig, selector: str, through: list[PumpedPath]) -> Hazard:
    """Return the row of a port through which a pump draws its medium."""
    scales = _sensors(rig, MASS, [way.source for way in through])
    meters = _sensors(rig, LIQUID_FLOW, [way.pumped for way in through])
    return Hazard(
        f"blocked_port_{selector}", selector, _listed((*scales, *meters)), "none; a person sees it",
        _pumps(through), "", 0.0, NEVER_S,
        "the pump moves nothing, and the vessels behind it get nothing: weigh the bottles, or look at the flow",
        residual=True, group="blocked_ports",
    )  # fmt: skip


def _blocked_extraction(rig: Rig, selector: str, through: list[PumpedPath]) -> Hazard:
    """Return the row of a port through which a pump empties chambers."""
    ends = list(dict.fromkeys(way.target for way in through))
    seen = _sensors(rig, MASS, ends)
    return Hazard(
        f"blocked_port_{selector}", selector, _listed(seen), "ledger: alarm balance_drift" if seen else "none",
        _pumps(through), "", 0.0, NEVER_S, "what is not taken out stays in the chamber, and the next doses fill it up",
        tuple(_no_balance(selector, end) for end in ends if not _sensors(rig, MASS, [end])), group="blocked_ports",
    )  # fmt: skip


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _pumps(through: Sequence[PumpedPath]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(way.pump for way in through))


def _no_gauges(rig: Rig, selector: str, lines: list[str]) -> Iterator[Finding]:
    for line in lines:
        what = (
            f"nothing shows that a port of selector “{selector}” is blocked: a dose that goes nowhere counts as given"
        )
        fix = f"Add a gauge with “at: {line}” and “safety.over_pressure.{line}: {{trips: [{rig.lines[line].pump}], …}}”"
        yield Finding(("selectors", selector), what, fix)


def _no_balance(selector: str, end: str) -> Finding:
    what = f"nothing shows that selector “{selector}” takes nothing out of a chamber, which the next doses fill up"
    return Finding(("selectors", selector), what, f"Put “{end}” on a balance (“at: {end}”)")


def _sensors(rig: Rig, kind: PointKind, places: Collection[str]) -> list[str]:
    """Return the sensors of a kind at places."""
    return [
        point
        for point, its in points_of(rig).items()
        if its == kind and rig.devices[point.partition(".")[0]].at in places
    ]


def _shared(rig: Rig, ways: tuple[PumpedPath, ...]) -> dict[str, list[str]]:
    """Return the pumped lines through which different media go into chambers, with the vessels that they come from."""
    found: dict[str, dict[str, None]] = {}
    for way in ways:
        found.setdefault(way.pumped, {})[way.source] = None
    fills = {way.pumped for way in ways if rig.vessels[way.target].kind == "chamber"}
    media = {line: {rig.vessels[name].contains for name in names} for line, names in found.items()}
    return {line: list(names) for line, names in found.items() if line in fills and len(media[line]) > 1}


def _carry_over(rig: Rig, line: str, bottles: list[str], ways: tuple[PumpedPath, ...]) -> Hazard:
    """Return the row of a line that brings what passed last: it needs a way to rinse it into waste."""
    through = [way for way in ways if line in way.lines]
    gaps = []
    if not any(rig.vessels[way.target].kind == "waste" for way in through):
        what = f"{named(bottles)} share line “{line}”, and no port leads from it to waste: it cannot be rinsed"
        fix = f"Add a line with “from: {rig.lines[line].to}”, “port:”, “passive: true” to a vessel with “kind: waste”"
        gaps = [Finding(("lines", line), what, fix)]
    held = quantity_text(round(held_ul(rig.lines[line]) + behind_ul(rig, line)), "uL")
    return Hazard(
        f"carry_over_{line}", line, "ledger", "transfers: no dose above its bound of carry-over; rinse first",
        tuple(dict.fromkeys(way.pump for way in through)), "1 % of a dose, or max_carry_over", 0.0, NEVER_S,
        f"the line holds {held} of what passed last", tuple(gaps), group="carry_over",
    )  # fmt: skip


def _harmful(rig: Rig, ways: tuple[PumpedPath, ...]) -> Iterator[Hazard]:
    """Yield a row for each bottle whose osmolality tissue does not bear and from which a pump can reach a chamber."""
    for name, vessel in rig.vessels.items():
        medium = rig.media.get(vessel.contains or "")
        reach = [way for way in ways if way.source == name and rig.vessels[way.target].kind == "chamber"]
        if vessel.kind != "source" or medium is None or not reach:
            continue
        if not bounds.MIN_MOSM <= medium.osmolality_mosm <= bounds.MAX_MOSM:
            yield _harmful_row(rig, name, f"“{vessel.contains}” ({medium.osmolality_mosm:g} mOsm/kg)", reach)


def _harmful_row(rig: Rig, name: str, liquid: str, reach: list[PumpedPath]) -> Hazard:
    open_to = list(dict.fromkeys(way.target for way in reach if forbidden(rig, way) is None))
    gaps = []
    if open_to:
        fix = f"Write “never: [[{rig.vessels[name].contains}, chamber]]” under safety"
        what = f"{liquid} kills tissue, and may be dosed into {named(open_to)}"
        gaps = [Finding(("vessels", name, "contains"), what, fix)]
    selectors = dict.fromkeys(each for way in reach for each, _ in way.positions)
    valves = (rig.selectors[each].valve for each in selectors)
    return Hazard(
        f"harmful_{name}", name, _listed(f"{valve.partition('.')[0]}.position" for valve in valves),
        "gate: no path that safety.never forbids", _pumps(reach), f"{bounds.MIN_MOSM:g} to {bounds.MAX_MOSM:g} mOsm/kg",
        0.0, 0.0 if gaps else NEVER_S, "tissue dies within minutes; ports of a valve are next to each other", tuple(gaps),
        residual=not gaps,
    )  # fmt: skip
