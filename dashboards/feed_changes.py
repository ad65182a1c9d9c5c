"""Say what changed in the state since the message before, in the two forms of the live feed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEYED = ("readings", "actuators", "volumes", "links")
"""Parts of the state of which the form by parts sends only the changed entries."""
DIGITS = 6
"""Significant digits of a number in a patch."""
TIME_DECIMALS = 2
"""Decimals of a time in seconds in a patch."""


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the difference of `now` from `before`: whole parts, but of keyed parts only the changed entries.

    A removed entry is sent as null.
    """
    change: dict[str, Any] = {}
    for name, value in now.items():
        old = before.get(name)
        if name in _KEYED and isinstance(old, dict):
            if entries := _changed_entries(old, value):
                change[name] = entries
        elif old != value or name not in before:
            change[name] = value
    return change


def _changed_entries(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed entries of a part; a removed one is None."""
    entries = {key: entry for key, entry in now.items() if before.get(key) != entry}
    return entries | {key: None for key in before if key not in now}


def patch(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the difference of `now` from `before`, down to each number.

    Objects are compared member by member, lists as a whole. A part that `now` lacks has not changed. Members that are gone
    are named in `gone`, each by its path: null is a value like others. Numbers are rounded, and one that differs by less is
    left out.
    """
    gone: list[list[str]] = []
    known = {name: before[name] for name in now if name in before}
    change = _patch(known, now, [], gone)
    return {**change, "gone": gone} if gone else change


def _patch(before: Mapping[str, Any], now: Mapping[str, Any], path: list[str], gone: list[list[str]]) -> dict[str, Any]:
    change: dict[str, Any] = {}
    for name, value in now.items():
        old = before.get(name, ...)
        if old == value:
            continue
        if isinstance(value, dict) and isinstance(old, dict):
            lost = len(gone)
            inner = _patch(old, value, [*path, name], gone)
            if inner or len(gone) > lost:
                change[name] = inner
        elif isinstance(value, float):
            short = _rounded(name, value)
            if not isinstance(old, float) or _rounded(name, old) != short:
                change[name] = short
        else:
            change[name] = value
    gone += [[*path, name] for name in before if name not in now]
    return change


def _rounded(name: str, value: float) -> float:
    return round(value, TIME_DECIMALS) if name.endswith("_s") else float(f"{value:.{DIGITS}g}")


def without_report_times(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return `now` with the times of the actuators' reports as they were before: they are a quarter of all that changes."""
    old = before.get("actuators", {})
    actuators = {name: {**each, "at_s": old.get(name, each)["at_s"]} for name, each in now["actuators"].items()}
    return {**now, "actuators": actuators}
