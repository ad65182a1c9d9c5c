"""The form of a recipe file: its steps, policies and head, derived from the records of the verbs; and its JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocols.blocks import BLOCKS
from protocols.calendar import DAYS
from protocols.chamber_steps import EACH, FOR_EACH
from protocols.language import DECISIONS
from protocols.steps import STEPS
from protocols.table import VERBS
from protocols.verbs import Argument, StepForm, Verb

FORMAT = 1
POINT_UNITS = {"ph": "", "oxygen": "%", "temperature": "degC", "pressure": "kPa", "mass": "g", "conductivity": "uS/cm"}
"""Unit of a reading by the last part of its point."""
NAME = r"^[a-z][a-z0-9-]{0,62}$"
PART = r"^[A-Za-z][A-Za-z0-9_-]{0,39}$"
"""Name of a part of the rig, as in :data:`controller.rig.description.Name`."""
WORD = r"^[a-z][a-z0-9_]{0,62}$"

PARAMETER = ("default", "min", "max", "help")
"""Attributes of a parameter; all are required."""

POLICIES: Mapping[str, Argument] = {
    "missing": Argument("choice", "a value could not be measured", choices=DECISIONS),
    "timeout": Argument("choice", "a wait_until timed out", choices=DECISIONS),
    "small_dose": Argument("choice", "a computed volume is below what its pump gives", choices=("skip", "hold")),
}

FORMS: Mapping[str, StepForm] = {
    form.step: form
    for form in (
        *(verb.form for verb in VERBS.values() if verb.form is not None),
        *STEPS,
        *BLOCKS,
        FOR_EACH,
    )
}
"""Every step that a recipe may have, by its name."""
VERB_OF: Mapping[str, Verb] = {verb.form.step: verb for verb in VERBS.values() if verb.form is not None}
"""The verb of a step that has one, by the step's name."""
STEP_OF: Mapping[str, str] = {verb.name: step for step, verb in VERB_OF.items()}
"""The step of a verb, by the verb's name."""

TOP: Mapping[str, str] = {
    "recipe": f"format: {FORMAT}",
    "name": "what it is called, say gentle-exchange",
    "title": "one line for people",
    "description": "more, if need be",
    "parameters": "name → default, min, max, help",
    "policies": "what to do where the steps leave it open",
    "steps": "what is done, in order",
}


_QUANTITY = {"type": ["string", "number"]}
_STEPS = {"$ref": "#/$defs/steps"}
_KINDS: Mapping[str, dict[str, Any]] = {
    "quantity": _QUANTITY,
    "condition": {"type": ["string", "boolean"]},
    "name": {"type": "string", "pattern": WORD},
    "part": {"type": "string", "pattern": PART},
    "group": {"type": "string"},
    "text": {"type": "string"},
    "texts": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    "literal": {"type": ["string", "number"]},
    "point": {"type": "string", "pattern": r"^[A-Za-z0-9_-]+\.[A-Za-z0-9_.-]+$"},
    "steps": _STEPS,
    "values": {"type": "object", "additionalProperties": _QUANTITY},
    "clock": {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
    "zone": {"type": "string"},
    "days": {"type": "array", "items": {"enum": list(DAYS)}, "minItems": 1, "uniqueItems": True},
    "dates": {"type": "array", "items": {"type": "string", "format": "date"}, "minItems": 1},
    "hours": {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$"},
    "recipe": {"type": "string"},
}


def schema() -> dict[str, Any]:
    """Return the JSON schema of recipe files, for editors; docs/recipes/recipe.schema.json is this."""
    bare = [name for name, form in FORMS.items() if not form.required and not form.any_names]
    top: dict[str, dict[str, Any]] = {
        "recipe": {"const": FORMAT},
        "name": {"type": "string", "pattern": NAME},
        "title": {"type": "string"},
        "description": {"type": "string"},
        "parameters": {"type": "object", "additionalProperties": _parameter()},
        "policies": {
            "type": "object",
            "properties": {key: _argument(entry) for key, entry in POLICIES.items()},
            "additionalProperties": False,
        },
        "steps": _STEPS,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Choroid recipe",
        "type": "object",
        "properties": {key: {**form, "description": TOP[key]} for key, form in top.items()},
        "required": ["recipe", "name", "title", "steps"],
        "additionalProperties": False,
        "$defs": {
            "steps": {
                "type": "array",
                "minItems": 1,
                "items": {"anyOf": [{"enum": bare}, *map(_step, FORMS.values()), _for_each_do()]},
            }
        },
    }


def _for_each_do() -> dict[str, Any]:
    """Return the schema of a `for_each` whose steps are in a key of the same item, `do`."""
    which = {name: _argument(argument) for name, argument in FOR_EACH.arguments.items() if name != "do"}
    chambers = {"anyOf": [{"const": EACH}, {"type": "object", "properties": which, "additionalProperties": False}]}
    return {
        "type": "object",
        "properties": {FOR_EACH.step: {**chambers, "description": FOR_EACH.help}, "do": _STEPS},
        "required": [FOR_EACH.step, "do"],
        "additionalProperties": False,
    }


def _parameter() -> dict[str, Any]:
    """Return the schema of one parameter."""
    properties: dict[str, Any] = {attribute: _QUANTITY for attribute in PARAMETER if attribute != "help"}
    properties["help"] = {"type": "string"}
    return {
        "type": "object",
        "properties": properties,
        "required": list(PARAMETER),
        "additionalProperties": False,
    }


def _argument(argument: Argument) -> dict[str, Any]:
    """Return the schema of one argument."""
    if argument.kind == "choice":
        return {"enum": list(argument.choices), "description": argument.help}
    limits = [argument.unit or ""] if argument.kind == "quantity" else []
    limits += [] if argument.min_value is None else [f"≥ {argument.min_value:g}"]
    limits += [] if argument.maximum is None else [f"≤ {argument.maximum:g}"]
    shown = ", ".join(filter(None, limits))
    return {**_KINDS[argument.kind], "description": argument.help + (f" ({shown})" if shown else "")}


def _step(form: StepForm) -> dict[str, Any]:
    """Return the schema of one step."""
    whole: dict[str, Any] = {
        "type": "object" if form.required else ["object", "null"],
        "properties": {name: _argument(argument) for name, argument in form.arguments.items()},
        "additionalProperties": {"values": _QUANTITY, "steps": _STEPS}.get(form.any_names, False),
    }
    if form.required:
        whole["required"] = form.required
    short = {"anyOf": [_argument(form.arguments[form.short]), whole]} if form.short else whole
    return {
        "type": "object",
        "properties": {form.step: {**short, "description": form.help}},
        "required": [form.step],
        "additionalProperties": False,
    }
