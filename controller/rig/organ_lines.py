"""The pumped lines of the organs, and the medium that the gut gives."""

from __future__ import annotations

from dataclasses import dataclass

from controller.rig.description import Rig
from controller.rig.problems import Place
from controller.rig.surroundings import culture_vessel


@dataclass(frozen=True, slots=True)
class OrganLine:
    """A line that an organ moves medium through: where line and flow stand in the description, and its maximum flow.

    `name` is that of a heart; of another organ it is the organ's.
    """

    organ: str
    name: str
    key: str
    line: str
    flow_key: str
    max_ul_min: float

    @property
    def place(self) -> Place:
        """Where the organ stands in the description."""
        return ("organs", "hearts", self.name) if self.organ == "heart" else ("organs", self.organ)


def organ_lines(rig: Rig) -> tuple[OrganLine, ...]:
    """Return the lines of the organs that the rig has, except that of dialysate."""
    kidney, gut, liver = rig.organs.kidney, rig.organs.gut, rig.organs.liver
    found = [
        OrganLine("heart", name, "line", heart.line, "max", heart.max_ul_min)
        for name, heart in rig.organs.hearts.items()
    ]
    if kidney is not None:
        for key, line in (("draw", kidney.draw), ("return", kidney.return_), ("discard", kidney.discard)):
            found.append(OrganLine("kidney", "kidney", key, line, "flow", kidney.flow_ul_min))
    if gut is not None:
        found.append(OrganLine("gut", "gut", "feed", gut.feed, "flow", gut.flow_ul_min))
    if liver is not None:
        found.append(OrganLine("liver", "liver", "glucose", liver.glucose, "flow", liver.flow_ul_min))
        found.append(OrganLine("liver", "liver", "base", liver.base, "flow", liver.flow_ul_min))
    return tuple(found)


def fresh_medium(rig: Rig) -> str:
    """Return the name of the fresh medium: what the gut gives, else what loop or chamber is filled with.

    Raises:
        ValueError: the rig file does not say what the vessel contains.
    """
    gut = rig.organs.gut
    return contained(rig, culture_vessel(rig) if gut is None else rig.lines[gut.feed].from_)


def contained(rig: Rig, vessel: str) -> str:
    """Return the name of the medium in a vessel.

    Raises:
        ValueError: the rig file does not say what the vessel contains.
    """
    medium = rig.vessels[vessel].contains
    if medium is None:
        raise ValueError(f"nothing tells what “{vessel}” contains. Next: add “contains:” to it in the rig file")
    return medium
