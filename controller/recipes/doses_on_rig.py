"""The doses of a recipe against a rig: does each chamber that is named exist, and does a path serve it?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.rig.description import Rig
from controller.rig.dosing import dosable, dosed_groups
from controller.rig.problems import nearest
from controller.transfers.routes import Route, route_of
from protocols.chamber_steps import DoseChamber, ForEach
from protocols.chamber_verbs import CHAMBER
from protocols.host import ProtocolError
from protocols.program import Step, walked

Wrong = tuple[str, str, str]
"""Key, what is wrong with it, and what to do."""


def dose_on_rig(step: Step, rig: Rig, routes: Mapping[str, Route]) -> Wrong | None:
    """Return what is wrong with a dose, or with the chambers of a `for_each`, on this rig; None if nothing is."""
    if isinstance(step, ForEach):
        return _for_each_on_rig(step, rig, routes)
    if isinstance(step, DoseChamber) and step.at != CHAMBER:
        return _unserved(step, step.at, routes)
    return None


def _for_each_on_rig(step: ForEach, rig: Rig, routes: Mapping[str, Route]) -> Wrong | None:
    groups, known = dosed_groups(rig), dosable(rig)
    if not step.chambers and step.group not in groups:
        return "group", f"the rig has no group “{step.group}”", nearest(step.group, groups, "groups")
    chambers = step.chambers or groups[step.group]
    if not chambers:
        return "group", "no chamber of the rig can be dosed", "Add pumped lines into and out of the chambers"
    for name in chambers:
        if name not in known:
            return "chambers", f"no chamber “{name}” can be dosed", nearest(name, known, "chambers")
    doses = [inner for inner in walked(step.steps) if isinstance(inner, DoseChamber) and inner.at == CHAMBER]
    return next(filter(None, (_unserved(dose, name, routes) for dose in doses for name in chambers)), None)


def _unserved(step: DoseChamber, at: str, routes: Mapping[str, Route]) -> Wrong | None:
    """Return why no path serves a dose at a chamber or selector, or None."""
    args = {step.verb.place: at, step.verb.source: step.source}
    try:
        route_of(routes, step.verb.way(args))
    except ProtocolError as error:
        what, _, fix = str(error).partition(". Next: ")
        return step.verb.name, what, fix[:1].upper() + fix[1:]
    return None


def lacking_doses(step: Step, rig: Rig, routes: Mapping[str, Route]) -> str | None:
    """Return what the rig lacks for the doses of a step, in words; None if nothing."""
    wrong = dose_on_rig(step, rig, routes)
    if wrong is None:
        return None
    return wrong[1] if wrong[1].startswith("no ") else f"no path for all doses of its chambers ({wrong[1]})"


def serves_none(verb: str, routes: Iterable[str]) -> bool:
    """Return whether a rig has no path for a verb of chambers."""
    return not any(name.startswith(f"{verb} ") for name in routes)
