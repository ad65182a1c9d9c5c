"""The form of a recipe file: which steps there are, what each takes. The reader and the JSON schema both follow it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from protocols.steps import MOVES, READS

FORMAT = 1
UNITS = ("uL", "s", "uL/min", "mM", "kPa", "degC", "g", "uS/cm", "%")
"""Inner units of quantities in a recipe, in the order in which they are tried."""
POINT_UNITS = {"ph": "", "oxygen": "%", "temperature": "degC", "pressure": "kPa", "mass": "g", "conductivity": "uS/cm"}
"""Unit of a reading by the last part of its point."""
NAME = r"^[a-z][a-z0-9-]{0,62}$"
WORD = r"^[a-z][a-z0-9_]{0,62}$"

Kind = Literal["quantity", "condition", "name", "text", "point", "choice", "steps", "values", "clock", "zone", "recipe"]


@dataclass(frozen=True, slots=True)
class Field:
    """One entry of a step."""

    kind: Kind
    help: str
    unit: str | None = ""
    """Of a quantity; None where any will do."""
    required: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verb:
    """One kind of step; `short` is the field that a bare value fills (`wait: 10 min`)."""

    help: str
    fields: Mapping[str, Field] = field(default_factory=dict)
    short: str | None = None


_AS = Field("name", "save the result under this name")
_SETTLE = Field("quantity", "wait so long before reading", "s")
_DECIDE = ("ask", "go_on", "end")
_MOVED = {
    "kidney.draw": "loop → spent vessel",
    "kidney.give_back": "spent vessel → loop, through the sterile filter",
    "kidney.discard": "spent vessel → waste",
    "kidney.dialyse": "basal medium → dialyser in the spent vessel → waste; on a rig that has one",
    "gut.feed": "reservoir → spent vessel",
    "liver.add_glucose": "glucose stock → spent vessel",
    "liver.add_base": "bicarbonate stock → spent vessel",
}
_READ = {
    "liver.acidity": "pH of the batch in the spent vessel",
    "liver.conductivity": "conductivity of the batch; no value on a rig without a probe for it",
    "lung.acidity": "pH of the loop",
    "lung.oxygen": "dissolved oxygen of the loop",
    "skin.temperature": "chamber temperature",
    "immune.pressure": "pressure before the sterile filter",
    "heart.pressure": "pressure behind the heart's pump",
    "heart.flow": "what the heart's pump says of its flow",
    "kidney.mass": "what the balance under the spent vessel shows",
}

UNSETTLED = ("immune.pressure", "heart.flow")
"""Readings that one does not wait for."""

POLICIES: Mapping[str, Field] = {
    "missing": Field("choice", "a value could not be measured", choices=_DECIDE),
    "timeout": Field("choice", "a wait_until was in vain", choices=_DECIDE),
    "small_dose": Field("choice", "a computed volume is below what its pump gives", choices=("skip", "hold")),
}

VERBS: Mapping[str, Verb] = {
    **{
        verb: Verb(
            _MOVED[verb],
            {"volume": Field("quantity", "how much", "uL", required=True), "as": _AS},
            "volume",
        )
        for verb in MOVES
    },
    **{
        verb: Verb(_READ[verb], {"as": _AS} if verb in UNSETTLED else {"settle": _SETTLE, "as": _AS}, "as")
        for verb in READS
    },
    "liver.calibrate": Verb(
        "tell the batch's pH probe that it stands in a buffer; a person has to have put it there",
        {
            "place": Field("choice", "which place of its calibration", required=True, choices=("mid", "low", "high")),
            "ph": Field("quantity", "pH of the buffer at its temperature", required=True),
            "valid": Field("quantity", "how long it is trusted (default 7 d)", "s"),
            "as": _AS,
        },
    ),
    "measure": Verb(
        "a settled reading of any sensor of the rig",
        {
            "point": Field("point", "device.point as in the rig file", required=True),
            "settle": _SETTLE,
            "unit": Field("choice", "its unit, where the point's name does not tell", choices=(*UNITS, "mL/min", "pH")),
            "as": _AS,
        },
        "point",
    ),
    "estimate": Verb("what the soft sensor makes of loop and batch", {"as": _AS}, "as"),
    "grade": Verb("grade the batch in the spent vessel, A to D", {"settle": _SETTLE, "as": _AS}, "as"),
    "wait": Verb("wait", {"time": Field("quantity", "so long", "s", required=True)}, "time"),
    "wait_until": Verb(
        "read again and again until it is so",
        {
            "read": Field("point", "an organ's reading (lung.oxygen) or a device.point", required=True),
            "unit": Field("choice", "its unit, where the point's name does not tell", choices=(*UNITS, "mL/min", "pH")),
            "until": Field("condition", "a condition on “value”", required=True),
            "every": Field("quantity", "time between readings (default 1 min)", "s"),
            "timeout": Field("quantity", "give up after so long", "s", required=True),
            "on_timeout": Field("choice", "what then (default: the policy)", choices=_DECIDE),
        },
    ),
    "ask_operator": Verb(
        "hold until a person has read this and resumed",
        {"message": Field("text", "what to do; {expression} shows a value", required=True)},
        "message",
    ),
    "note": Verb(
        "write values to the journal",
        {
            "kind": Field("name", "the note's kind", required=True),
            "values": Field("values", "what to write", None),
        },
        "kind",
    ),
    "set": Verb("give names to values"),
    "if": Verb(
        "branch on a measured value or a grade",
        {
            "condition": Field("condition", "for example: verdict >= B and acidity > 7.2", required=True),
            "then": Field("steps", "if it is so", required=True),
            "else": Field("steps", "if not"),
        },
    ),
    "repeat": Verb(
        "steps again and again",
        {
            "steps": Field("steps", "what to repeat", required=True),
            "times": Field("quantity", "how often; the number 0 = until stopped (wants every or daily_at)"),
            "every": Field("quantity", "time from one turn to the next; missed turns are left out", "s"),
            "daily_at": Field("clock", "once a day at this local time, for example “09:00”"),
            "zone": Field("zone", "the time zone of daily_at, for example Europe/Berlin"),
            "while": Field("condition", "before each turn: go on while this is so"),
            "count": Field("name", "save the number of the turn, from 1, under this name"),
        },
    ),
    "together": Verb("branches at the same time: a name and steps for each; doses through the same vessel take turns"),
    "call": Verb(
        "carry out another recipe",
        {
            "recipe": Field("recipe", "a shipped one by name, or a file beside this one", required=True),
            "with": Field("values", "its parameters", None),
        },
        "recipe",
    ),
    "end": Verb("the recipe is done here"),
}
"""`set` takes any names with values, `together` any with steps; every other step takes the fields named here."""

TOP: Mapping[str, str] = {
    "recipe": f"format: {FORMAT}",
    "name": "what it is called, say gentle-exchange",
    "title": "one line for people",
    "description": "more, if need be",
    "parameters": "name → default, least, most, help",
    "policies": "what to do where the steps leave it open",
    "steps": "what is done, in order",
}


def schema() -> dict[str, Any]:
    """The JSON schema of recipe files, for editors; docs/recipes/recipe.schema.json is this."""
    quantity = {"type": ["string", "number"]}
    kinds: dict[str, dict[str, Any]] = {
        "quantity": quantity,
        "condition": {"type": ["string", "boolean"]},
        "name": {"type": "string", "pattern": WORD},
        "text": {"type": "string"},
        "point": {"type": "string", "pattern": r"^[A-Za-z0-9_-]+\.[A-Za-z0-9_.-]+$"},
        "steps": {"$ref": "#/$defs/steps"},
        "values": {"type": "object", "additionalProperties": quantity},
        "clock": {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
        "zone": {"type": "string"},
        "recipe": {"type": "string"},
    }

    def of(entry: Field) -> dict[str, Any]:
        form: dict[str, Any] = {"enum": list(entry.choices)} if entry.kind == "choice" else dict(kinds[entry.kind])
        unit = f" ({entry.unit})" if entry.kind == "quantity" and entry.unit else ""
        return {**form, "description": entry.help + unit}

    bare = [verb for verb, known in VERBS.items() if not _needed(known) and verb not in ("set", "together")]
    steps: list[dict[str, Any]] = [{"enum": bare}]
    for name, verb in VERBS.items():
        whole: dict[str, Any] = {
            "type": ["object", "null"] if not _needed(verb) else "object",
            "properties": {key: of(entry) for key, entry in verb.fields.items()},
            "additionalProperties": {"set": quantity, "together": kinds["steps"]}.get(name, False),
        }
        if needed := _needed(verb):
            whole["required"] = needed
        form = {"anyOf": [of(verb.fields[verb.short]), whole]} if verb.short else whole
        steps.append(
            {
                "type": "object",
                "properties": {name: {**form, "description": verb.help}},
                "required": [name],
                "additionalProperties": False,
            }
        )
    parameter = {
        "type": "object",
        "properties": {
            **dict.fromkeys(("default", "least", "most"), quantity),
            "help": {"type": "string"},
        },
        "required": ["default", "least", "most", "help"],
        "additionalProperties": False,
    }
    top: dict[str, dict[str, Any]] = {
        "recipe": {"const": FORMAT},
        "name": {"type": "string", "pattern": NAME},
        "title": {"type": "string"},
        "description": {"type": "string"},
        "parameters": {"type": "object", "additionalProperties": parameter},
        "policies": {
            "type": "object",
            "properties": {key: of(entry) for key, entry in POLICIES.items()},
            "additionalProperties": False,
        },
        "steps": {"$ref": "#/$defs/steps"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Choroid recipe",
        "type": "object",
        "properties": {key: {**form, "description": TOP[key]} for key, form in top.items()},
        "required": ["recipe", "name", "title", "steps"],
        "additionalProperties": False,
        "$defs": {"steps": {"type": "array", "minItems": 1, "items": {"anyOf": steps}}},
    }


def _needed(verb: Verb) -> list[str]:
    return [name for name, entry in verb.fields.items() if entry.required]
