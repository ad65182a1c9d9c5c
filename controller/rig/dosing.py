"""Doses by chamber: which pumped paths serve `dispense`, `aspirate` and `rinse`, and which chambers share plumbing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.rig.description import Rig
from controller.rig.families import max_flow_ul_min
from controller.rig.graph import lines_of_heart
from controller.rig.organ_lines import organ_lines
from controller.rig.part import MAX_UL_MIN
from controller.rig.selectors import PumpedPath, forbidden, groups_of, level_at, paths

DOSE_UL_MIN = 1000.0
"""Flow of a dose whose line has no `max_flow` (µL/min): gentle to tissue in a well [P]."""
INTO, OUT_OF, THROUGH = "into", "out of", "through"
"""What a verb does with its place: it fills a chamber, empties a chamber, or rinses a selector."""
ALL = "all"
"""Group of all chambers that can be dosed."""
_NO_PATH: Mapping[str, str] = {
    INTO: "no pumped line that leads into “{place}”",
    OUT_OF: "no pumped line that leads out of “{place}”",
    THROUGH: "no pumped line from a bottle through “{place}” to waste",
}


def dosing_paths(rig: Rig) -> tuple[PumpedPath, ...]:
    """Return the permitted paths of the pumps that belong to no organ, in the file's order."""
    own = {each.line for each in organ_lines(rig)}
    own |= {line for heart in rig.organs.hearts for line in lines_of_heart(rig, heart)}
    kidney = rig.organs.kidney
    own |= set() if kidney is None or kidney.dialyse is None else {kidney.dialyse}
    return tuple(path for path in paths(rig) if path.pumped not in own and forbidden(rig, path) is None)


def levels_of(rig: Rig, path: PumpedPath) -> dict[str, float]:
    """Return the set-points of the selectors on a path, by valve."""
    return {rig.selectors[name].valve: level_at(rig, name, position) for name, position in path.positions}


def dose_flow_ul_min(rig: Rig, line: str) -> float:
    """Return the flow of a dose along a pumped line (µL/min)."""
    spec, kidney = rig.lines[line], rig.organs.kidney
    most = min(max_flow_ul_min(rig, spec.pump or ""), MAX_UL_MIN) if kidney is None else kidney.flow_ul_min
    return spec.max_flow_ul_min or min(most, DOSE_UL_MIN)


def dosable(rig: Rig) -> tuple[str, ...]:
    """Return the chambers that some path leads into or out of."""
    ends = {end for path in dosing_paths(rig) for end in (path.source, path.target)}
    return tuple(name for name, vessel in rig.vessels.items() if vessel.kind == "chamber" and name in ends)


def dosed_groups(rig: Rig) -> dict[str, tuple[str, ...]]:
    """Return the chambers of each group that can be dosed: of the rig file, batches of tissue, and :data:`ALL`."""
    chambers = dosable(rig)
    known = {name: tuple(each for each in names if each in chambers) for name, names in groups_of(rig).items()}
    return {**{name: names for name, names in known.items() if names}, ALL: chambers}


def shared_plumbing(rig: Rig) -> dict[str, frozenset[str]]:
    """Return the resources of all paths of each chamber; chambers with a common one are dosed one after the other."""
    found: dict[str, frozenset[str]] = dict.fromkeys(dosable(rig), frozenset())
    for path in dosing_paths(rig):
        for end in (path.source, path.target):
            if end in found:
                found[end] |= path.resources
    return found


def choose(rig: Rig, known: Sequence[PumpedPath], what: str, place: str, source: str = "") -> PumpedPath | str:
    """Return the path of a dose, or why there is none.

    Args:
        rig: The rig.
        known: Its dosing paths.
        what: :data:`INTO` or :data:`OUT_OF` a chamber, or :data:`THROUGH` a selector.
        place: The chamber or selector.
        source: Vessel or medium that the dose comes from; empty: the only one.
    """
    serving = [path for path in known if _serves(rig, path, what, place)]
    if not serving:
        return _NO_PATH[what].format(place=place)
    if what == OUT_OF:
        return min(serving, key=lambda path: rig.vessels[path.target].kind != "waste")
    named = [path for path in serving if source in ("", path.source, rig.vessels[path.source].contains)]
    sources = dict.fromkeys(path.source for path in named)
    if len(sources) == 1:
        return named[0]
    sources = sources or dict.fromkeys(path.source for path in serving)
    why = f"“{source}” does not lead to “{place}”" if not named else f"several vessels lead to “{place}”"
    return f"{why}; name one of {', '.join(sources)}"


def _serves(rig: Rig, path: PumpedPath, what: str, place: str) -> bool:
    """Return whether a path is one of a verb at a place."""
    source, target = rig.vessels[path.source].kind, rig.vessels[path.target].kind
    if what == INTO:
        return path.target == place and target == "chamber" and source != "chamber"
    if what == OUT_OF:
        return path.source == place and source == "chamber" and target != "chamber"
    return target == "waste" and source != "chamber" and place in dict(path.positions)
