"""Selectors in the rig's graph: their ports, and the paths on which pumps move medium through them.

A selector has one common line and any number of ports. The ports lead all out of it (a pump dispenses into one of many
vessels) or all into it (a pump extracts from one of many, or chooses its medium). A port may be the common line of a
further selector.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import pi
from typing import Literal

from controller.rig.description import Line, Rig

Direction = Literal["in", "out"]
Positions = tuple[tuple[str, int], ...]
"""Selectors with the positions that a path needs, in the order of the flow."""


@dataclass(frozen=True, slots=True)
class PumpedPath:
    """A path on which one pump moves medium from one vessel into another, and what the selectors on it must connect."""

    source: str
    target: str
    pump: str
    lines: tuple[str, ...]
    """In the order of the flow."""
    pumped: str
    """That of the lines which the pump drives."""
    positions: Positions

    @property
    def resources(self) -> frozenset[str]:
        """Return what no other transfer may use at the same time: its pump, lines and selectors.

        Names carry their kind, as a line and a selector may have the same name.
        """
        selectors = (f"selector {name}" for name, _ in self.positions)
        return frozenset((f"pump {self.pump}", *(f"line {name}" for name in self.lines), *selectors))


def direction(rig: Rig, selector: str) -> Direction:
    """Return whether the ports of a selector lead out of it or into it: the side on which more lines are.

    With as many lines on either side, the lines that have a port decide.
    """
    into = [line for line in rig.lines.values() if line.to == selector]
    out = [line for line in rig.lines.values() if line.from_ == selector]
    if len(into) == len(out):
        return "in" if _with_port(into) > _with_port(out) else "out"
    return "in" if len(into) > len(out) else "out"


def selector_of_port(rig: Rig, line: str) -> str | None:
    """Return the selector of which a line is a port; None if it is the port of none."""
    spec = rig.lines[line]
    if spec.from_ in rig.selectors and direction(rig, spec.from_) == "out":
        return spec.from_
    if spec.to in rig.selectors and direction(rig, spec.to) == "in":
        return spec.to
    return None


def ports_of(rig: Rig, selector: str) -> dict[int, str]:
    """Return the lines at the ports of a selector by position, in rising order."""
    outward = direction(rig, selector) == "out"
    found = {
        line.port: name
        for name, line in rig.lines.items()
        if line.port is not None and (line.from_ if outward else line.to) == selector
    }
    return dict(sorted(found.items()))


def common_lines(rig: Rig, selector: str) -> tuple[str, ...]:
    """Return the lines on the common side of a selector; a sound rig has one."""
    outward = direction(rig, selector) == "out"
    return tuple(name for name, line in rig.lines.items() if (line.to if outward else line.from_) == selector)


def level_at(rig: Rig, selector: str, position: int) -> float:
    """Return the set-point of a selector's valve for a position: 0 for that of rest, as the actuators call it."""
    return 0.0 if position == rig.selectors[selector].rest else float(position)


def paths(rig: Rig) -> tuple[PumpedPath, ...]:
    """Return the paths of all pumped lines that end in a vessel, directly or through selectors.

    A path that `safety: never` forbids is among them (:func:`forbidden`). A pumped line that leads into a junction has no
    path of its own: its branches share what it brings.
    """
    return tuple(
        path for name, line in rig.lines.items() if line.pump is not None for path in _paths_of(rig, name, line)
    )


def forbidden(rig: Rig, path: PumpedPath) -> tuple[str, str] | None:
    """Return the pair of `safety: never` that forbids a path; None if none does."""
    liquids, places = _names(rig, path.source), _names(rig, path.target)
    return next((pair for pair in rig.safety.never if pair[0] in liquids and pair[1] in places), None)


def groups_of(rig: Rig) -> dict[str, tuple[str, ...]]:
    """Return the sets of chambers that have a name: those of the file, and the batches of tissue."""
    batches: dict[str, tuple[str, ...]] = {}
    for chamber, tissue in rig.tissue.items():
        if tissue.batch:
            batches[tissue.batch] = (*batches.get(tissue.batch, ()), chamber)
    return batches | rig.groups


def held_ul(line: Line) -> float:
    """Return the volume of medium that fills a line (µL)."""
    return pi / 4.0 * line.bore_mm**2 * line.length_m * 1000.0


def behind_ul(rig: Rig, line: str) -> float:
    """Return the dead volume of the selectors of which a line is the common one (µL): it lies in the valve's passage."""
    return sum(each.dead_volume_ul for name, each in rig.selectors.items() if line in common_lines(rig, name))


def _with_port(lines: list[Line]) -> int:
    return sum(line.port is not None for line in lines)


def _names(rig: Rig, vessel: str) -> tuple[str, ...]:
    """Return the words that stand for a vessel in `safety: never`: its name, its kind, the medium in it."""
    spec = rig.vessels[vessel]
    return tuple(name for name in (vessel, spec.kind, spec.contains) if name is not None)


def _paths_of(rig: Rig, name: str, line: Line) -> Iterator[PumpedPath]:
    for source, before, chosen in _upstream(rig, line.from_):
        for target, behind, reached in _downstream(rig, line.to):
            yield PumpedPath(source, target, line.pump or "", (*before, name, *behind), name, (*chosen, *reached))


def _upstream(rig: Rig, place: str, seen: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...], Positions]]:
    """Yield the vessels from which a pump at `place` can draw, with the lines and positions on the way to it."""
    if place in rig.vessels:
        yield place, (), ()
    if place in seen or place not in rig.selectors or direction(rig, place) == "out":
        return
    for port, name in ports_of(rig, place).items():
        for vessel, lines, positions in _upstream(rig, rig.lines[name].from_, (*seen, place)):
            yield vessel, (*lines, name), (*positions, (place, port))


def _downstream(rig: Rig, place: str, seen: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...], Positions]]:
    """Yield the vessels into which a pump can press medium that is at `place`, with the lines and positions on the way."""
    if place in rig.vessels:
        yield place, (), ()
    if place in seen or place not in rig.selectors or direction(rig, place) == "in":
        return
    for port, name in ports_of(rig, place).items():
        for vessel, lines, positions in _downstream(rig, rig.lines[name].to, (*seen, place)):
            yield vessel, (name, *lines), ((place, port), *positions)
