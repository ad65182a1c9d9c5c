"""The path of medium: from the source of a line over junctions and overflows to the vessels in which it ends.

A vessel with a passive outlet keeps what it has room for below the outlet; the rest runs on. At a junction and at several
outlets the flow divides as the rig's graph says (:mod:`controller.rig.graph`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from controller.rig.description import Rig
from controller.rig.dosing import dosing_paths
from controller.rig.graph import shares_behind
from controller.rig.selectors import PumpedPath


@dataclass(frozen=True, slots=True)
class Leg:
    """One line of a path: `share` is that of the whole volume which passes it."""

    line: str
    source: str
    target: str
    share: float


@dataclass(frozen=True, slots=True)
class FlowPath:
    """The lines that a volume passes, in the order of the flow, and the change of each vessel as a share of the volume."""

    legs: tuple[Leg, ...]
    changes: Mapping[str, float]

    def mixed(self, ul: float, held_ul: Mapping[str, float]) -> Iterator[tuple[Leg, float]]:
        """Yield each leg with the share (0..1) that what it brings makes up of its target.

        A vessel mixes what enters before it runs over; in a junction everything is what was brought last.

        Args:
            ul: The volume (µL).
            held_ul: The volumes of the vessels afterwards (µL).
        """
        coming = {target: sum(leg.share for leg in self.legs if leg.target == target) for target in held_ul}
        for leg in self.legs:
            if leg.target not in held_ul:
                yield leg, 1.0
                continue
            runs_over = sum(other.share for other in self.legs[1:] if other.source == leg.target)
            coming[leg.target] -= leg.share
            mixed_ul = held_ul[leg.target] + (runs_over - coming[leg.target]) * ul
            yield leg, min(max(leg.share * ul / mixed_ul, 0.0), 1.0) if mixed_ul > 0 else 1.0


class FlowPaths:
    """The paths of all lines of a rig."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._shares = {name: shares_behind(rig, name) for name, line in rig.lines.items() if not line.passive}
        self._selected = {
            (path.pumped, frozenset(path.positions)): path for path in dosing_paths(rig) if path.positions
        }

    def selected(self, line: str, ports: Mapping[str, int] | None) -> PumpedPath | None:
        """Return the path along a pumped line with its selectors at these positions; None for a line without selectors."""
        return self._selected.get((line, frozenset((ports or {}).items())))

    def along(self, path: PumpedPath, ul: float, held_ul: Callable[[str], float]) -> FlowPath:
        """Return the path of a volume that is moved through selectors."""
        *before, last = path.lines
        legs = [Leg(name, self._rig.lines[name].from_, self._rig.lines[name].to, 1.0) for name in before]
        end = self.of(last, ul, held_ul)
        return FlowPath((*legs, *end.legs), {**end.changes, path.source: end.changes.get(path.source, 0.0) - 1.0})

    def of(self, name: str, ul: float, held_ul: Callable[[str], float]) -> FlowPath:
        """Return the path of a volume that is moved along a line.

        Args:
            name: The line.
            ul: The volume (µL).
            held_ul: Returns the present volume of a vessel (µL).
        """
        shares = self._shares.get(name, {name: 1.0})
        line = self._rig.lines[name]
        if len(shares) == 1 or ul <= 0.0:
            ends = {line.from_: -1.0, line.to: 1.0}
            changes = {place: share for place, share in ends.items() if place in self._rig.vessels}
            return FlowPath((Leg(name, line.from_, line.to, 1.0),), changes)
        return self._branched(name, shares, lambda vessel: max(self._outlet_ul(vessel) - held_ul(vessel), 0.0) / ul)

    def full(self, name: str, ports: Mapping[str, int] | None = None) -> Mapping[str, float]:
        """Return the changes of the vessels while every vessel on the path of a line is full up to its outlet."""
        selected = self.selected(name, ports)
        path = self.of(name, 1.0, self._outlet_ul) if selected is None else self.along(selected, 1.0, self._outlet_ul)
        return path.changes

    def reach(self, line: str) -> set[str]:
        """Return the vessels whose volume a transfer along a line can change, whatever the positions of its selectors."""
        ways = [dict(path.positions) for path in self._selected.values() if path.pumped == line]
        return {vessel for ports in ways or [{}] for vessel in self.full(line, ports)}

    def ends(self, name: str, ports: Mapping[str, int] | None = None) -> tuple[str, str]:
        """Return where the path along a pumped line begins and ends; `ports` are the positions of its selectors."""
        path, line = self.selected(name, ports), self._rig.lines[name]
        return (line.from_, line.to) if path is None else (path.source, path.target)

    def _branched(self, name: str, shares: Mapping[str, float], room: Callable[[str], float]) -> FlowPath:
        """Return the path of a line with others behind it; `room` is that of a vessel as a share of the volume."""
        legs: list[Leg] = []
        entered: dict[str, float] = {}
        left: dict[str, float] = {}
        for each, static in shares.items():  # each line comes after those that lead to its source
            line = self._rig.lines[each]
            share = 1.0
            if each != name:
                siblings = sum(shares[other] for other in shares if self._rig.lines[other].from_ == line.from_)
                room_left = room(line.from_) if line.from_ in self._rig.vessels else 0.0
                share = max(entered.get(line.from_, 0.0) - room_left, 0.0) * (static / siblings if siblings else 0.0)
            legs.append(Leg(each, line.from_, line.to, share))
            left[line.from_] = left.get(line.from_, 0.0) + share
            entered[line.to] = entered.get(line.to, 0.0) + share
        places = [place for place in dict.fromkeys((*left, *entered)) if place in self._rig.vessels]
        return FlowPath(tuple(legs), {place: entered.get(place, 0.0) - left.get(place, 0.0) for place in places})

    def _outlet_ul(self, vessel: str) -> float:
        """Return the volume of a vessel at which its passive outlet begins to run (µL)."""
        spec = self._rig.vessels[vessel]
        return spec.volume_ul if spec.overflow_ul is None else spec.overflow_ul
