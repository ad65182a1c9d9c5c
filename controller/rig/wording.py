"""Turn validation errors of a rig file into findings: what is wrong, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args, get_origin

from pydantic_core import ErrorDetails

from controller.rig.keys import kind_at, known_keys, unit_at
from controller.rig.problems import Finding, Place, likeliest, nearest
from controller.rig.quantities import quantity_text

_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_KINDS = {
    "string_type": ("is not plain text", 'Put it in quotes: "{shown}"'),
    "int_type": ("is not a whole number", "Write a whole number, without quotes and unit"),
    "int_parsing": ("is not a whole number", "Write a whole number, without quotes and unit"),
    "int_from_float": ("is not a whole number", "Write a whole number"),
    "float_type": ("is not a number", "Write a plain number, without a unit"),
    "float_parsing": ("is not a number", "Write a plain number, without a unit"),
    "finite_number": ("is not a finite number", "Write a plain number"),
    "bool_type": ("is neither true nor false", "Write true or false"),
    "bool_parsing": ("is neither true nor false", "Write true or false"),
    **dict.fromkeys(
        ("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"),
        ("is not a date", "Write year, month and day: 2026-05-31"),
    ),
    "string_too_short": ("is too short", "Write it in full"),
    "tuple_type": ("is not a list", "Write a list, such as [{shown}]"),
}


def findings_of(errors: Iterable[ErrorDetails], data: Any) -> list[Finding]:
    """Return one finding for each mistake that the validation of the description found.

    A misspelt key is both unknown and missing: it is reported as unknown only. A value that fits none of several types is
    reported once.
    """
    found: dict[Place, Finding] = {}
    meant: set[Place] = set()
    for error in errors:
        place = _place(error, data)
        finding = _finding(error, place, data)
        if place in found:
            continue
        found[place] = finding
        if error["type"] == "extra_forbidden":
            likely = likeliest(str(place[-1]), known_keys(place[:-1]))
            meant |= {(*place[:-1], likely)} if likely else set()
    return [finding for place, finding in found.items() if place not in meant or _at(place, data) is not _NOTHING]


def _finding(error: ErrorDetails, place: Place, data: Any) -> Finding:
    """Return a validation error as a finding, with a text and a fix for people."""
    kind = error["type"]
    value = _at(place, data)
    shown = str(place[-1]) if error["loc"][-1] == "[key]" else "nothing" if value is None else f"{value}"
    if (special := _SPECIAL.get(kind)) is not None:
        return special(error, place, shown)
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        bound = quantity_text(error.get("ctx", {})[name], unit_at(place) or "").strip()
        return Finding(place, f"“{shown}” is out of range", f"Write {words} {bound}")
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        fix = f"Write its keys below it, indented: {', '.join(known_keys(place)) or 'name: …'}"
        return Finding(place, "is empty" if value is None else f"“{shown:.40}” stands where keys belong", fix)
    what, fix = _KINDS.get(kind, (f"does not fit ({error['msg']})", "See docs/rig.md"))
    return Finding(place, f"“{shown:.40}” {what}", fix.format(shown=f"{shown:.40}"))


def _unknown_key(error: ErrorDetails, place: Place, shown: str) -> Finding:
    return Finding(place, f"unknown key “{place[-1]}”", nearest(str(place[-1]), known_keys(place[:-1]), "here"))


def _missing_key(error: ErrorDetails, place: Place, shown: str) -> Finding:
    return Finding(place, f"“{place[-1]}” is missing", f"Add “{place[-1]}: {_example(place)}”")


def _own_text(error: ErrorDetails, place: Place, shown: str) -> Finding:
    what, _, fix = str(error.get("ctx", {}).get("error", error["msg"])).partition("; ")
    return Finding(place, what, f"{fix[:1].upper()}{fix[1:]}" if fix else "See docs/rig.md")


def _unknown_option(error: ErrorDetails, place: Place, shown: str) -> Finding:
    options = [str(option) for option in get_args(kind_at(place))]
    if place == ("choroid",):
        if shown == options[0]:
            return Finding(place, f"“{shown}” is a text, not a number", f"Write choroid: {shown}, without quotes")
        what = f"the file has format “{shown}”, this Choroid reads format {options[0]}; likely another release wrote it"
        return Finding(
            place, what, f"Use that release, or write “choroid: {options[0]}” and correct what is reported then"
        )
    return Finding(place, f"“{shown}” is not known here", nearest(shown, options, "here"))


def _wrong_pattern(error: ErrorDetails, place: Place, shown: str) -> Finding:
    return Finding(place, f"“{shown}” cannot be used here", f"Write {_pattern_in_words(place)}")


_SPECIAL: dict[str, Callable[[ErrorDetails, Place, str], Finding]] = {
    "extra_forbidden": _unknown_key,
    "missing": _missing_key,
    "value_error": _own_text,
    "literal_error": _unknown_option,
    "string_pattern_mismatch": _wrong_pattern,
}


_PATTERNS: dict[Place, str] = {
    ("name",): "small letters, digits and hyphens, starting with a letter",
    ("telemetry", "mqtt", "broker"): "host or host:port, such as 127.0.0.1:1883",
    ("telemetry", "influx", "url"): "http:// or https://, a host and a port, such as http://127.0.0.1:8086",
    ("telemetry", "influx", "org"): "the organisation's name in the database",
    ("telemetry", "influx", "bucket"): "the bucket's name in the database",
    ("telemetry", "mqtt", "prefix"): "a topic without spaces, # and +, such as choroid",
}


def _pattern_in_words(place: Place) -> str:
    return _PATTERNS.get(place, "letters, digits, - and _ only")


def _example(place: Place) -> str:
    unit = unit_at(place)
    if unit is not None:
        return f"… {unit}"
    kind = kind_at(place)
    return " or ".join(map(str, get_args(kind))) if get_origin(kind) is Literal else "…"


_NOTHING = object()


def _at(place: Place, data: Any) -> Any:
    for step in place:
        within = step in data if isinstance(data, dict) else isinstance(data, list) and step in range(len(data))
        if not within:
            return _NOTHING
        data = data[step]
    return data


def _place(error: ErrorDetails, data: Any) -> Place:
    """Return the place of the mistake in the file, without the kinds that validation has tried, which no reader wrote."""
    place: Place = tuple(error["loc"])
    if error["type"] == "missing":
        return place
    while place and _at(place, data) is _NOTHING:
        place = place[:-1]
    return place
