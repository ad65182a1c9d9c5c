"""The JSON schema of rig files, for editors and other programs. docs/rig.schema.json is this.

It is derived from the description and covers the form of a file: keys, kinds of values, units. It knows the usual units
only; loading reads every unit that can be converted, and checks more: bounds, names, plumbing and hazards.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, get_args

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from controller.rig.description import Rig
from controller.rig.families import FAMILIES
from controller.rig.keys import inner, keys_of
from controller.rig.plates import NAME, OWN_KEYS, SHAPE, WELLS
from controller.rig.quantities import quantity_text

Schema = dict[str, Any]

_MICRO = "uµμ"
_VOLUME = f"(?:[n{_MICRO}mcd]?[Ll])"
_FLOW = f"(?:{_VOLUME}/(?:s|min|h|d|day))"
_LENGTH = f"(?:[n{_MICRO}mc]?m)"
_TIME = "(?:ms|s|min|h|d|day|days|week|weeks)"
_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?"
UNITS: Mapping[str, str] = {
    "uL": _VOLUME,
    "uL/min": _FLOW,
    "mL/min": _FLOW,
    "mm": _LENGTH,
    "um": _LENGTH,
    "m": _LENGTH,
    "kDa": "k?Da",
    "GB": "[kMGT]?B",
    "cm^2": r"[mc]?m(?:\^2|²)",
    "s": _TIME,
    "day": _TIME,
    "degC": "(?:degC|°C|degF|°F|K)",
    "kPa": "(?:[hkM]?Pa|m?bar|mmHg|psi)",
    "mmol/L": f"(?:[n{_MICRO}m]?M|[n{_MICRO}m]?mol/[Ll])",
    "mOsm/kg": "m?Osm/kg",
    "%": "%",
    "W": "[mk]?W",
    "uV": f"[n{_MICRO}m]?V",
    "Hz": "[kM]?Hz",
    "rpm": "rpm",
}
"""Unit of the description → pattern of the usual units that a file may write."""
_WORDS = {Gt: "more than", Ge: "at least", Lt: "less than", Le: "at most"}
_WELL = "[A-P][1-9][0-9]?"
_WELLS = f"^{_WELL}(:{_WELL})?$"
_MARKUP = re.compile(r":[a-z]+:`~?([^`]+)`")


@lru_cache(maxsize=1)
def rig_schema() -> Schema:
    """Return the JSON schema (draft 2020-12) of a rig file."""
    schema = Rig.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    for name, model in _models(Rig, {}).items():
        part = schema if model is Rig else definitions[name]
        _describe(part, model)
    _tidy(schema)
    del definitions["Grading"], definitions["Variable"]
    _files(schema, definitions)
    _plates(schema, definitions)
    _heart(definitions["Organs"])
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Choroid rig, format 1"}
    return head | schema


def quantity(unit: str, *, signed: bool = False) -> Schema:
    """Return the schema of a quantity: text with a usual unit.

    Args:
        unit: The unit in which the description keeps it.
        signed: Whether it may be negative.
    """
    sign = "[+-]?" if signed else r"\+?"
    return {"type": "string", "pattern": rf"^\s*{sign}{_NUMBER}\s*{UNITS[unit]}\s*$", "examples": [f"1 {unit}"]}


def _models(model: type[BaseModel], found: dict[str, type[BaseModel]]) -> dict[str, type[BaseModel]]:
    """Return the parts of the description that `model` consists of, itself included, by name."""
    if model.__name__ not in found:
        found[model.__name__] = model
        for field in model.model_fields.values():
            for kind in _kinds(field.annotation):
                _models(kind, found)
    return found


def _kinds(annotation: Any) -> Iterator[type[BaseModel]]:
    kind = inner(annotation)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    else:
        for part in get_args(kind):
            yield from _kinds(part)


def _describe(part: Schema, model: type[BaseModel]) -> None:
    """Give each key of a part its meaning, its default as text and, if it is a quantity, the pattern of its units."""
    texts = _attribute_texts(model.__module__).get(model.__name__, {})
    part["description"] = _plain(part.get("description", ""))
    names = {field.alias or name: name for name, field in model.model_fields.items()}
    for key, field in keys_of(model).items():
        entry = part["properties"][key]
        unit = _take_unit(entry)
        default = entry.pop("default", None)
        meaning = _plain(texts.get(names[key], ""))
        if unit is not None:
            _write_quantity(entry, unit, field)
            meaning = f"{meaning} {_bounds(field, unit)}".strip()
            default = None if default is None else quantity_text(default, unit)
        if meaning:
            entry["description"] = meaning
        if isinstance(default, str | int | float | bool):
            entry["default"] = default


def _take_unit(entry: Schema) -> str | None:
    """Return the unit of a quantity, which may be one of several options."""
    options = [entry, *entry.get("anyOf", ())]
    return next((option["unit"] for option in options if "unit" in option), None)


def _write_quantity(entry: Schema, unit: str, field: FieldInfo) -> None:
    text = quantity(unit, signed=_may_be_negative(field))
    if "anyOf" in entry:
        entry["anyOf"] = [text, {"type": "null"}]
    else:
        entry |= text
        del entry["unit"]


def _may_be_negative(field: FieldInfo) -> bool:
    floors = [mark.ge if isinstance(mark, Ge) else mark.gt for mark in field.metadata if isinstance(mark, Ge | Gt)]
    return not floors or float(str(floors[0])) < 0


def _bounds(field: FieldInfo, unit: str) -> str:
    """Return the bounds of a quantity in words."""
    parts = []
    for mark in field.metadata:
        for kind, words in _WORDS.items():
            if isinstance(mark, kind):
                value = float(str(getattr(mark, kind.__name__.lower())))
                parts.append(f"{words} {quantity_text(value, unit)}")
    return f"({', '.join(parts)})" if parts else ""


def _tidy(schema: Any) -> None:
    """Remove titles that repeat the key, and allow no other names than those of the pattern."""
    if isinstance(schema, list):
        for item in schema:
            _tidy(item)
        return
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("title"), str):
        del schema["title"]
    if "patternProperties" in schema:
        schema["additionalProperties"] = False
    for value in schema.values():
        _tidy(value)


def _files(schema: Schema, definitions: Schema) -> None:
    """Replace what loading reads from elsewhere by what a file has, and name the models of the drivers."""
    properties = schema["properties"]
    properties["choroid"] = {"const": 1, "description": "Format of the file."}
    properties["grading"] = {"type": "string", "minLength": 1, "description": "A rule file in the same folder."}
    definitions["DeviceSpec"]["properties"]["model"]["examples"] = sorted(FAMILIES)


def _heart(organs: Schema) -> None:
    """Add the short form of the only heart."""
    only = {"anyOf": [{"$ref": "#/$defs/HeartConfig"}, {"type": "null"}], "description": "The only heart."}
    organs["properties"] = {"heart": only} | organs["properties"]
    organs["not"] = {"required": ["heart", "hearts"]}


def _plates(schema: Schema, definitions: Schema) -> None:
    """Add well plates, whose tissue may be given in part by well."""
    vessel = definitions["Vessel"]
    layouts = [
        {"enum": list(WELLS)},
        {"type": "string", "pattern": f"^{SHAPE.pattern}$"},
        {"type": "string", "pattern": _WELLS},
        {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": _WELLS}},
    ]
    wells = {"anyOf": layouts, "examples": [96, "4x6", ["B2:G11"]], "description": "Number, rows×columns, or a list."}
    left_out = {"anyOf": [*layouts[2:], {"type": "null"}], "description": "Wells that are not used."}
    own = dict(zip(OWN_KEYS, (wells, left_out), strict=True))
    definitions["Plate"] = {
        "type": "object",
        "description": "A well plate: each well is a chamber with these keys, called PLATE-WELL, such as plate-A1.",
        "additionalProperties": False,
        "required": ["wells", "volume", "capacity"],
        "properties": own | vessel["properties"] | {"kind": {"const": "chamber"}},
    }
    properties = schema["properties"]
    form = {"patternProperties": {f"^{NAME.pattern}$": {"$ref": "#/$defs/Plate"}}, "additionalProperties": False}
    properties["plates"] = {"type": ["object", "null"], "description": "Well plates by name."} | form
    by_chamber = properties["tissue"]
    (name,) = by_chamber["patternProperties"]
    definitions["TissueOfPlate"] = {key: of for key, of in definitions["TissueSpec"].items() if key != "required"}
    part = {"anyOf": [{"$ref": "#/$defs/TissueOfPlate"}, {"type": "null"}]}
    properties["tissue"] = {
        key: of for key, of in by_chamber.items() if key not in ("patternProperties", "description")
    }
    properties["tissue"] |= {
        "description": "By the name of its chamber, or of its plate.",
        "additionalProperties": True,
    }
    schema["if"] = {"required": ["plates"]}
    schema["then"] = {"properties": {"tissue": {"patternProperties": {name: part}, "additionalProperties": False}}}
    schema["else"] = {"properties": {"tissue": by_chamber}, "required": ["vessels"]}
    schema["required"].remove("vessels")


def _plain(text: str) -> str:
    """Return a docstring as one line without markup."""
    return " ".join(_MARKUP.sub(r"\1", text).split())


@lru_cache
def _attribute_texts(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of the attributes of a module's classes, by class and attribute."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = dict(_texts_below(node))
    return found


def _texts_below(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for before, after in zip(node.body, node.body[1:], strict=False):
        if not (isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            yield before.target.id, after.value.value
