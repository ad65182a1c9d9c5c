"""Loading a rig file: every problem at once, each with file, line, key, what is wrong and the likely fix."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from controller.rig import anatomy, plumbing, selector_rules, wiring
from controller.rig.described import take_descriptions
from controller.rig.description import Rig
from controller.rig.document import read_document
from controller.rig.forms import hashed_form, name_the_heart
from controller.rig.geometry import take_geometry
from controller.rig.grading import take_grading
from controller.rig.plates import expand
from controller.rig.problems import Finding, RigError
from controller.rig.sketch import sketch
from controller.rig.wording import findings_of

Check = Callable[[], Iterator[Finding]]
Rule = Callable[[Rig], Iterator[Finding]]


def load_rig(path: Path, *, models: Collection[str] | None = None, rules: Sequence[Rule] = ()) -> Rig:
    """Read and validate a rig file as a description; what runs a rig uses `controller.hazards.load_checked_rig`.

    `models` is the drivers' catalogue (ids); with it, unknown device models are problems too. `rules` judge a rig in which
    nothing else is wrong. Raises :class:`RigError` with every problem found, OSError when the file cannot be read.
    """
    document = read_document(path)
    misfits: list[Finding] = []
    misplaced = [*expand(document), *name_the_heart(document)]
    in_other_files = [
        *take_grading(path, document.data),
        *map(document.problem, take_descriptions(path, document.data)),
        *map(document.problem, take_geometry(path, document.data)),
    ]
    try:
        rig = Rig.model_validate(document.data)
    except ValidationError as error:
        misfits = findings_of(error.errors(include_url=False), document.data)
        rig = sketch(document.data)
    reported = {finding.place for finding in misfits}
    broken_rules = (finding for finding in _whole(rig, models, sound=not misfits) if finding.place not in reported)
    problems = [*document.problems, *in_other_files, *document.problems_of([*misplaced, *misfits, *broken_rules])]
    if not problems:
        problems = document.problems_of(finding for rule in rules for finding in rule(rig))
    if problems:
        raise RigError(path, problems)
    return rig


def effective_hash(rig: Rig) -> str:
    """sha256 of the whole effective description, defaults included (D7): which rig was this run on?

    It does not depend on the file's order, format, comments or choice of units. Parts of the description that came later are
    left out as long as they are empty, so that a rig keeps its hash.
    """
    canonical = json.dumps(hashed_form(rig), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _whole(rig: Rig, models: Collection[str] | None, *, sound: bool) -> Iterator[Finding]:
    """Yield what the rules over the whole rig find; of a sketch, a rule that needs an absent part finds nothing."""
    for check in _checks(rig, models):
        try:
            yield from check()
        except AttributeError:
            if sound:
                raise


def _checks(rig: Rig, models: Collection[str] | None) -> Iterator[Check]:
    for name, vessel in getattr(rig, "vessels", {}).items():
        yield from (partial(rule, rig, name, vessel) for rule in plumbing.VESSEL_RULES)
    for name, line in getattr(rig, "lines", {}).items():
        yield from (partial(rule, rig, name, line) for rule in (*plumbing.LINE_RULES, *selector_rules.LINE_RULES))
    for name in getattr(rig, "junctions", {}):
        yield from (partial(rule, rig, name) for rule in plumbing.JUNCTION_RULES)
    for name in getattr(rig, "selectors", {}):
        yield from (partial(rule, rig, name) for rule in selector_rules.SELECTOR_RULES)
    yield from _device_checks(rig, models)
    yield from (partial(wiring.name_means_something, rig, wants) for wants in wiring.names(rig))
    yield from (partial(wiring.trips_are_actuators, rig, interlock) for interlock in wiring.INTERLOCKS)
    rules = (
        *plumbing.RIG_RULES,
        *selector_rules.RIG_RULES,
        *wiring.RIG_RULES,
        *anatomy.RIG_RULES,
    )
    yield from (partial(rule, rig) for rule in rules)


def _device_checks(rig: Rig, models: Collection[str] | None) -> Iterator[Check]:
    for name, device in getattr(rig, "devices", {}).items():
        yield from (partial(rule, rig, name, device) for rule in wiring.DEVICE_RULES)
        if models is not None:
            yield partial(wiring.device_model, rig, name, device, models)
