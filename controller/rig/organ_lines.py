"""The pumped lines of the organs, and the medium that the gut gives."""

from __future__ import annotations

from dataclasses import dataclass

from controller.rig.description import Rig


@dataclass(frozen=True, slots=True)
class OrganLine:
    """A line that an organ moves medium through: places of line and flow below `organs.ORGAN`, and its maximum flow."""

    organ: str
    key: str
    line: str
    flow_key: str
    max_ul_min: float


def organ_lines(rig: Rig) -> tuple[OrganLine, ...]:
    """Return the lines of the organs that the rig has, except that of dialysate."""
    kidney, gut, liver = rig.organs.kidney_config, rig.organs.gut, rig.organs.liver
    found = [OrganLine("heart", "line", heart.line, "max", heart.max_ul_min) for heart in rig.organs.hearts.values()]
    if kidney is not None:
        for key, line in (("draw", kidney.draw), ("return", kidney.return_), ("discard", kidney.discard)):
            found.append(OrganLine("kidney", key, line, "flow", kidney.flow_ul_min))
    if gut is not None:
        found.append(OrganLine("gut", "feed", gut.feed, "flow", gut.flow_ul_min))
    if liver is not None:
        found.append(OrganLine("liver", "glucose", liver.glucose, "flow", liver.flow_ul_min))
        found.append(OrganLine("liver", "base", liver.base, "flow", liver.flow_ul_min))
    return tuple(found)


def fresh_medium(rig: Rig) -> str:
    """Return the name of the fresh medium: what the gut gives, else what the loop is filled with.

    Raises:
        ValueError: the rig file does not say what the vessel contains.
    """
    gut = rig.organs.gut
    return contained(rig, rig.loop if gut is None else rig.lines[gut.feed].from_)


def contained(rig: Rig, vessel: str) -> str:
    """Return the name of the medium in a vessel.

    Raises:
        ValueError: the rig file does not say what the vessel contains.
    """
    medium = rig.vessels[vessel].contains
    if medium is None:
        raise ValueError(f"nothing tells what “{vessel}” contains. Next: add “contains:” to it in the rig file")
    return medium
