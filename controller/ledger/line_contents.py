"""Contents of the lines that several media pass: what a dose brings first is what its path held before.

What a dose brings is booked as if each such line mixed what it holds with what enters. Real tubing is between that and pure
displacement (plug flow), so both are followed, and the larger amount of other medium counts for the bound of carry-over. A
line that only one vessel feeds is not followed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from controller.ledger.batches import BatchMixture
from controller.ledger.terms import Parcel
from controller.rig.description import Rig
from controller.rig.dosing import dosing_paths
from controller.rig.selectors import PumpedPath, behind_ul, held_ul
from protocols.medium_ageing import MediumRates


@dataclass(frozen=True, slots=True)
class Liquid:
    """A liquid: the vessels that it came from with their shares (0..1, sum 1), its history and its lots."""

    origins: Mapping[str, float]
    parcel: Parcel
    lots: BatchMixture

    def mixed(self, other: Liquid, share: float) -> Liquid:
        """Return the mixture with a `share` (0..1) of `other`."""
        origins = {
            name: (1.0 - share) * self.origins.get(name, 0.0) + share * other.origins.get(name, 0.0)
            for name in dict.fromkeys((*self.origins, *other.origins))
        }
        return Liquid(origins, self.parcel.mixed(other.parcel, share), self.lots.with_(other.lots, share))


Slugs = tuple[tuple[str, float], ...]
"""Origins and volumes (µL), in the order in which they leave."""


def _pushed(slugs: Slugs, ul: float) -> tuple[Slugs, Slugs]:
    """Return what of `slugs` leaves when `ul` has to leave, and what stays."""
    left: list[tuple[str, float]] = []
    stays: list[tuple[str, float]] = []
    for origin, held in slugs:
        leaves = min(held, max(ul, 0.0))
        ul -= leaves
        for part, target in ((leaves, left), (held - leaves, stays)):
            if part > 0.0 and target and target[-1][0] == origin:
                target[-1] = origin, target[-1][1] + part
            elif part > 0.0:
                target.append((origin, part))
    return tuple(left), tuple(stays)


class LineContents:
    """Tracks which medium fills the lines of a rig that several vessels feed."""

    def __init__(self, rig: Rig) -> None:
        feeds: dict[str, dict[str, None]] = {}
        for path in dosing_paths(rig):
            for line in path.lines:
                feeds.setdefault(line, {})[path.source] = None
        shared = {line: tuple(sources) for line, sources in feeds.items() if len(sources) > 1}
        self._ul = {line: held_ul(rig.lines[line]) + behind_ul(rig, line) for line in shared}
        # Until something has passed, a line counts as primed with the medium of its first vessel.
        self._held = {line: Liquid({sources[0]: 1.0}, Parcel(), BatchMixture()) for line, sources in shared.items()}
        self._slugs: dict[str, Slugs] = {line: ((sources[0], self._ul[line]),) for line, sources in shared.items()}
        """By line: what stands in it by displacement."""

    def __contains__(self, line: object) -> bool:
        return line in self._held

    def copy(self) -> LineContents:
        """Return a copy, for a trial."""
        other = object.__new__(LineContents)
        other._ul, other._held, other._slugs = self._ul, dict(self._held), dict(self._slugs)
        return other

    def pass_through(self, line: str, entering: Liquid, ul: float) -> Liquid:
        """Pass `ul` of a liquid through a line, and return what leaves it: what it held comes first."""
        if ul <= 0.0 or line not in self._held:
            return entering
        held, line_ul = self._held[line], self._ul[line]
        kept = math.exp(-ul / line_ul) if line_ul > 0.0 else 0.0
        self._held[line] = entering.mixed(held, kept)
        return entering.mixed(held, min(line_ul * (1.0 - kept) / ul, 1.0))

    def pass_along(self, path: PumpedPath, ul: float) -> None:
        """Pass `ul` of the medium of a path's source along it; only the origins are followed."""
        liquid = Liquid({path.source: 1.0}, Parcel(), BatchMixture())
        for line in path.lines:
            liquid = self.pass_through(line, liquid, ul)
        self.displace(path.lines, path.source, ul)

    def displace(self, lines: Iterable[str], origin: str, ul: float) -> None:
        """Push `ul` of the medium of a vessel into the first of `lines`; each passes on what it held before."""
        coming: Slugs = ((origin, max(ul, 0.0)),)
        for line in lines:
            if line in self._slugs:
                coming, self._slugs[line] = _pushed((*self._slugs[line], *coming), ul)

    def prime(self, lots: Mapping[str, BatchMixture]) -> None:
        """Fill each line with the lots of its first vessel."""
        for line, held in self._held.items():
            self._held[line] = replace(held, lots=lots.get(next(iter(held.origins)), BatchMixture()))

    def other_ul(self, path: PumpedPath, ul: float) -> float:
        """Return the maximum volume of other medium in a dose of `ul` along a path (µL): all that its lines hold of it."""
        lines = [line for line in path.lines if line in self._held]
        mixed_ul = sum(self._ul[line] * (1.0 - self._held[line].origins.get(path.source, 0.0)) for line in lines)
        displaced_ul = sum(held for line in lines for origin, held in self._slugs[line] if origin != path.source)
        return min(max(mixed_ul, displaced_ul), ul)

    def age(self, seconds: float, rates: MediumRates) -> None:
        """Let time pass, which takes from medium at these rates."""
        for line, held in self._held.items():
            self._held[line] = replace(held, parcel=held.parcel.older(seconds, rates))
