"""A recipe against a rig: does it have the sensors that the recipe reads, and vessels that hold what it moves?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from controller.recipes.catalogue import find
from controller.recipes.doses_on_rig import dose_on_rig, lacking_doses, serves_none
from controller.recipes.file import RecipeError
from controller.recipes.readings_on_rig import reading_problems
from controller.recipes.sensors import SENSORS
from controller.rig.description import Rig
from controller.rig.places import has_organ, roles_of
from controller.rig.problems import Problem, nearest
from controller.rig.quantities import quantity_text
from controller.transfers.routes import Route, routes_of
from protocols.blocks import Call
from protocols.chamber_steps import DoseChamber
from protocols.language import Lab
from protocols.organs import KIDNEY, Kidney, Liver
from protocols.parameters import ParamError
from protocols.program import NAMES, Program, Step, names_used
from protocols.registry import Recipe
from protocols.steps import Do, GradeBatch, Move, Read, WaitUntil
from protocols.verbs import AnyReadingVerb, ChamberVerb, TransferVerb, Verb

PREFERRED = ("recycle", "exchange", "change-wells", "stand-by")
"""What a rig is for, the best first; every rig supports the last one."""
ROLES = {"loop": "loop that a heart draws from", "spent": KIDNEY, "waste": KIDNEY}
"""First word of a predefined name of expressions → what the rig must have for it."""


class UnavailableError(ParamError):
    """The rig lacks something that the protocol needs."""


def lacking(recipe: Recipe, rig: Rig) -> tuple[str, ...]:
    """Return what `rig` lacks for `recipe`, in words; empty if it can run it.

    A reading that only a probe of its own gives is no need: a recipe says itself what is done without it.
    """
    routes = routes_of(rig)
    steps = () if recipe.program is None else tuple(recipe.program.all_steps())
    lacks = [
        _lacking(verb, rig, routes) for verb in (*recipe.verbs, *(verb for step in steps for verb in _verbs(step)))
    ]
    lacks += [_unknown(name, rig) for step in steps for name in sorted(names_used(step))]
    if not any(lacks):
        lacks += [lacking_doses(step, rig, routes) for step in steps]
    return tuple(dict.fromkeys(lack for lack in lacks if lack is not None))


def preferred(rig: Rig) -> str:
    """Return the name of the protocol that a simulation of `rig` runs if no other is named."""
    return next(name for name in PREFERRED if not lacking(find(name), rig))


def _verbs(step: Step) -> tuple[Verb, ...]:
    """Return the verbs that a step carries out."""
    if isinstance(step, Move | Read | Do | DoseChamber):
        return (step.verb,)
    if isinstance(step, WaitUntil):
        return (step.read.verb,)
    return (Kidney.mass, Liver.ph, Lab.estimate) if isinstance(step, GradeBatch) else ()


def _unknown(name: str, rig: Rig) -> str | None:
    """Return what the rig lacks for a predefined name of expressions; None if it has it, or if the name is not predefined."""
    role = name.partition(".")[0]
    if name not in NAMES or role not in ROLES or role in roles_of(rig):
        return None
    return f"no {ROLES[role]}"


def _lacking(verb: Verb, rig: Rig, routes: Mapping[str, Route]) -> str | None:
    """Return what the rig lacks for a verb; None if it has it."""
    if isinstance(verb, TransferVerb):
        return None if verb.name in routes else f"no {verb.needs}"
    if isinstance(verb, ChamberVerb):
        return f"no {verb.needs}" if serves_none(verb.name, routes) else None
    if isinstance(verb, AnyReadingVerb) and (probe_of := SENSORS.get(verb.sensor)) is not None:
        return None if probe_of(rig) is not None else f"no probe for {verb.name}"
    if verb is Lab.estimate:
        return None if "loop" in roles_of(rig) else f"no {ROLES['loop']}"
    organ, _, method = verb.name.partition(".")
    if not method or has_organ(rig, organ):
        return None
    return f"no {KIDNEY if organ == 'kidney' else f'organs.{organ}'}"


def check_on(recipe: Recipe, rig: Rig, params: Mapping[str, float]) -> None:
    """Check a recipe against a rig and the parameters of a run, as far as its text alone tells.

    Raises :class:`RecipeError`: a sensor or a dialyser that the rig lacks, a reading in another unit, a volume that no vessel
    of it holds.
    Raises :class:`UnavailableError`: a shipped or a Python protocol needs what the rig lacks.
    """
    made = recipe.program
    if made is None or not recipe.watched:
        if lacks := lacking(recipe, rig):
            raise UnavailableError(
                f"{recipe.name}: the rig has {', '.join(lacks)}. Next: choose a protocol that `choroid check --capabilities`"
                " lists for this rig, or add what is missing to the rig file"
            )
        return
    routes = routes_of(rig)
    problems = reading_problems(made, rig)
    own = {param.name: params[param.key] for param in made.params}
    called = _called(made)
    for step in made.all_steps():
        found = _on_rig(step, rig, routes, {} if id(step) in called else own)
        if found is not None:
            file, _, line = step.where.rpartition(":")
            problems.append(Problem(Path(file), int(line), *found))
    if problems:
        raise RecipeError(recipe.watched[0][0], problems)


def _called(program: Program) -> set[int]:
    """Return the ids of all steps of the recipes that a recipe calls; they have parameters of their own."""
    return {id(step) for call in program.all_steps() if isinstance(call, Call) for step in _under(call)}


def _under(step: Step) -> Iterator[Step]:
    for inner in step.inner():
        yield inner
        yield from _under(inner)


def _on_rig(
    step: Step, rig: Rig, routes: Mapping[str, Route], values: Mapping[str, float]
) -> tuple[str, str, str] | None:
    """Key, what and fix of what is wrong with one step on this rig."""
    needs = {verb.name: _lacking(verb, rig, routes) for verb in _verbs(step) if not isinstance(verb, AnyReadingVerb)}
    needs |= {name: _unknown(name, rig) for name in sorted(names_used(step))}
    for key, lack in needs.items():
        if lack is not None:
            return key, f"the rig has {lack}", "Take a rig that has one (docs/recycling.md), or leave the step out"
    if (wrong := dose_on_rig(step, rig, routes)) is not None:
        return wrong
    if isinstance(step, WaitUntil):
        step = step.read
    if isinstance(step, Read) and step.heart and step.heart not in rig.organs.hearts:
        what = f"the rig has no heart “{step.heart}”"
        return step.verb.name, what, nearest(step.heart, rig.organs.hearts, "hearts")
    if isinstance(step, Move) and step.volume.names <= set(values):
        return _volume_on_rig(step, rig, routes[step.verb.name], step.volume.number(lambda name: values[name]))
    return None


def _volume_on_rig(step: Move, rig: Rig, route: Route, volume_ul: float) -> tuple[str, str, str] | None:
    """Return key, what and fix of a volume that no vessel or pump of this rig can take."""
    source, target = rig.vessels[route.source], rig.vessels.get(route.target)  # a junction holds nothing
    shown = quantity_text(volume_ul, "uL")
    if target is not None and volume_ul > target.limit_ul:
        limit = quantity_text(target.limit_ul, "uL")
        return step.verb.name, f"{shown} is more than “{route.target}” may hold ({limit})", "Move less at a time"
    if volume_ul > source.capacity_ul - source.floor_ul:
        limit = quantity_text(source.capacity_ul - source.floor_ul, "uL")
        return step.verb.name, f"{shown} is more than “{route.source}” can give ({limit})", "Move less at a time"
    # A parameter of zero may switch a step off: the step then puts on record that it moves nothing.
    if (volume_ul > 0 or not step.volume.names) and (refusal := route.refusal(volume_ul)):
        least = quantity_text(route.min_ul, "uL")
        what = "is less than its pump gives" if volume_ul < route.min_ul else f"cannot be requested: {refusal}"
        return step.verb.name, f"{shown} {what}", f"Write at least {least}, or leave the step out"
    return None
