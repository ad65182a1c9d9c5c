"""Former names of rig keys: files that use them still open. All later steps of loading see the present names only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controller.rig.document import Document
from controller.rig.problems import Finding, Place

ANY = "*"
FORMER_KEYS: Mapping[tuple[str, ...], str] = {
    ("filters", ANY, "least_pressure"): "min_pressure",  # wording: former name
}
"""Place of a former key → its present name at the same place. :data:`ANY` stands for each name that the file gives."""


def rename_former_keys(document: Document) -> list[Finding]:
    """Give each former key of a rig file its present name, and keep its line.

    Args:
        document: The file; its data and lines are changed.

    Returns:
        A finding for each key that stands under both names. The present name then counts.
    """
    problems: list[Finding] = []
    for (*around, former), present in FORMER_KEYS.items():
        for place, part in list(_parts(document.data, (), tuple(around))):
            if former not in part:
                continue
            value = part.pop(former)
            if present in part:
                what = f"“{former}” is the former name of “{present}”, and both are given"
                problems.append(Finding((*place, former), what, f"Remove “{former}”"))
            else:
                part[present] = value
                document.lines[(*place, present)] = document.lines[(*place, former)]
    return problems


def _parts(data: Any, place: Place, around: tuple[str, ...]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the mappings at a pattern of keys, with their places."""
    if not isinstance(data, dict):
        return
    if not around:
        yield place, data
        return
    for key in data if around[0] == ANY else {around[0]} & data.keys():
        yield from _parts(data[key], (*place, key), around[1:])
