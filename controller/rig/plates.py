"""Well plates of a rig file: each well of `plates:` becomes a vessel of kind “chamber”, before the file is validated.

A well is called by its plate, row and column: `plate-A1`. `tissue: {plate: …}` is the tissue of each well; the keys of
`tissue: {plate-B2: …}` replace those of the plate, and `plate-B2: null` leaves the well without tissue. `feeds: [plate]` of
a manual task means each well. Findings are reported at the keys that the file has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from controller.rig.description import Vessel
from controller.rig.document import Document
from controller.rig.keys import keys_of
from controller.rig.problems import Finding, Place, nearest

PLATES, TISSUE, VESSELS = "plates", "tissue", "vessels"
CHAMBER = "chamber"
WELLS: Mapping[int, tuple[int, int]] = {6: (2, 3), 12: (3, 4), 24: (4, 6), 48: (6, 8), 96: (8, 12), 384: (16, 24)}
"""Number of wells → rows and columns of the usual plates (ANSI/SLAS 4)."""
MAX_ROWS, MAX_COLUMNS = WELLS[384]
OWN_KEYS = ("wells", "except")
"""Keys of a plate in addition to those of a vessel."""
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,35}")
"""Names of plates; with a well behind it, the name is still one of a vessel."""
SHAPE = re.compile(r"([0-9]{1,3})\s*[x×*]\s*([0-9]{1,3})")
WELL = re.compile(r"([A-P])([1-9][0-9]?)")
WELLS_FIX = "Write 6, 12, 24, 48, 96 or 384, rows and columns such as 4x6, or wells such as [A1, B2:C4]"


def expand(document: Document) -> list[Finding]:
    """Replace the plates of a rig file by their wells, and keep the places of the keys.

    Args:
        document: The file; its data and moved places are changed.

    Returns:
        A finding for each mistake in the form of the plates. Mistakes in the keys of a vessel are left to the validation.
    """
    data = document.data
    if PLATES not in data:
        return []
    plates = data.pop(PLATES)
    if plates is None:
        return []
    if not isinstance(plates, dict):
        fix = "Write the plates below it by name, indented: plate: {wells: 24, …}"
        return [Finding((PLATES,), f"“{plates!s:.40}” stands where keys belong", fix)]
    problems: list[Finding] = []
    for name, plate in plates.items():
        problems += _plate(document, name, plate)
    return problems


def _plate(document: Document, name: str, plate: object) -> Iterator[Finding]:
    """Add the wells of one plate to the data, with their tissue."""
    place: Place = (PLATES, name)
    if not isinstance(plate, dict):
        fix = "Write its keys below it, indented: wells, volume, capacity, contains"
        yield Finding(place, "is empty" if plate is None else f"“{plate!s:.40}” stands where keys belong", fix)
        return
    if not NAME.fullmatch(name):
        fix = "Write letters, digits, - and _ only, at most 36 characters"
        yield Finding(place, f"“{name}” cannot be used here", fix)
        return
    problems = list(_foreign_keys(place, plate))
    yield from problems
    wells, wrong = _wells(place, plate, told=any("“wells”" in each.fix for each in problems))
    yield from wrong
    of_well = {key: value for key, value in plate.items() if key in keys_of(Vessel)}
    yield from _add_vessels(document, name, wells, of_well | {"kind": CHAMBER})
    _add_tissue(document, name, wells)
    upkeep = document.data.get("upkeep")
    _add_to_lists(upkeep.get("tasks") if isinstance(upkeep, dict) else None, "feeds", name, wells)
    _add_to_lists(document.data.get("agitators"), "at", name, wells)


def _foreign_keys(place: Place, plate: dict[str, Any]) -> Iterator[Finding]:
    """Yield a finding for each key that no plate has."""
    known = [*OWN_KEYS, *(key for key in keys_of(Vessel) if key != "kind")]
    for key in plate:
        if key not in (*known, "kind"):
            yield Finding((*place, key), f"unknown key “{key}”", nearest(key, known, "here"))
    if plate.get("kind", CHAMBER) != CHAMBER:
        yield Finding((*place, "kind"), f"the wells of a plate are of kind “{CHAMBER}”", "Remove it")


def _add_vessels(document: Document, name: str, wells: Sequence[str], vessel: dict[str, Any]) -> Iterator[Finding]:
    vessels = document.data.get(VESSELS)
    if vessels is None:
        vessels = document.data[VESSELS] = {}
    if not isinstance(vessels, dict):
        return
    if name in vessels:
        yield Finding((PLATES, name), f"a vessel is called “{name}” as well", "Give the plate a name of its own")
    for well in wells:
        if well in vessels:
            yield Finding((VESSELS, well), f"“{well}” is a well of the plate “{name}”", "Give it another name")
            continue
        vessels[well] = dict(vessel)
        document.moved[VESSELS, well] = (PLATES, name)
        document.moved_below[VESSELS, well] = (PLATES, name)


def _add_tissue(document: Document, name: str, wells: Sequence[str]) -> None:
    """Give each well the tissue of its plate, except where the file gives it its own."""
    tissue = document.data.get(TISSUE)
    if not isinstance(tissue, dict):
        return
    common = tissue.pop(name, None)
    for well in wells:
        own = tissue.pop(well, common)  # and back again, in the order of the wells
        if own is common:
            document.moved[TISSUE, well] = (TISSUE, name)
            document.moved_below[TISSUE, well] = (TISSUE, name)
        elif isinstance(own, dict) and isinstance(common, dict):
            _inherit(document, (TISSUE, name), (TISSUE, well), common.keys() - own.keys())
            own = common | own
        if own is not None:
            tissue[well] = own


def _add_to_lists(entries: object, key: str, name: str, wells: Sequence[str]) -> None:
    """Replace the plate by its wells in the list `key` of each entry: what a manual task feeds, where an agitator stands."""
    for entry in entries.values() if isinstance(entries, dict) else ():
        places = entry.get(key) if isinstance(entry, dict) else None
        if isinstance(places, list) and name in places:
            number = places.index(name)
            entry[key] = [*places[:number], *wells, *places[number + 1 :]]


def _inherit(document: Document, plate: Place, well: Place, keys: set[str]) -> None:
    """Note that these keys of a well's tissue stand at the plate's."""
    for key in keys:
        document.moved[*well, key] = (*plate, key)
        document.moved_below[*well, key] = (*plate, key)


def _wells(place: Place, plate: dict[str, Any], *, told: bool) -> tuple[list[str], list[Finding]]:
    """Return the names of the wells of one plate, and what is wrong with `wells` and `except`.

    Wells that cannot be read count as those of a plate of 96, so that what refers to them is not reported as well.
    """
    problems: list[Finding] = []
    given = plate.get("wells")
    found = _layout(given)
    if found is None:
        what = "“wells” is missing" if given is None else f"“{given!s:.40}” is no layout of wells"
        problems += [] if told and given is None else [Finding((*place, "wells"), what, WELLS_FIX)]
        found = _grid(*WELLS[96])
    left_out, wrong = _left_out((*place, "except"), plate.get("except"), found)
    return [f"{place[-1]}-{well}" for well in found if well not in left_out], problems + wrong


def _left_out(place: Place, given: object, wells: list[str]) -> tuple[list[str], list[Finding]]:
    """Return the wells that `except` names, and what is wrong with it."""
    listed = [] if given is None else _listed(given)
    if listed is None or not set(listed) <= set(wells):
        fix = "Write wells of the plate, such as [A1, B2:C4]"
        return [], [Finding(place, f"“{given!s:.40}” are no wells of the plate", fix)]
    if set(listed) >= set(wells):
        return [], [Finding(place, "leaves out all wells", "Name fewer wells")]
    return listed, []


def _layout(given: object) -> list[str] | None:
    """Return the wells that `wells` stands for: a number, rows×columns, or a list; None if it cannot be read."""
    if isinstance(given, int) and not isinstance(given, bool):
        return _grid(*WELLS[given]) if given in WELLS else None
    if isinstance(given, str) and (shape := SHAPE.fullmatch(given)):
        rows, columns = int(shape[1]), int(shape[2])
        return _grid(rows, columns) if 1 <= rows <= MAX_ROWS and 1 <= columns <= MAX_COLUMNS else None
    return _listed(given) or None


def _listed(given: object) -> list[str] | None:
    """Return the wells of a list of wells and rectangles (“B2:C4”), each once; None if it cannot be read."""
    found: dict[str, None] = {}
    for item in given if isinstance(given, list) else [given]:
        wells = _rectangle(item) if isinstance(item, str) else None
        if wells is None:
            return None
        found |= dict.fromkeys(wells)
    return list(found)


def _rectangle(text: str) -> list[str] | None:
    """Return the wells of “B2:C4”, or of “B2” alone; None if it cannot be read."""
    corners = [WELL.fullmatch(part) for part in text.split(":")]
    known = [corner for corner in corners if corner is not None]
    if len(known) != len(corners) or len(known) > 2:
        return None
    rows = sorted(ascii_uppercase.index(corner[1]) for corner in known)
    columns = sorted(int(corner[2]) for corner in known)
    return _grid(rows[-1] + 1, columns[-1], rows[0], columns[0]) if columns[-1] <= MAX_COLUMNS else None


def _grid(rows: int, columns: int, first_row: int = 0, first_column: int = 1) -> list[str]:
    """Return the wells of a rectangle, row by row; `rows` and `columns` are those of its last corner, counted from 1."""
    return [
        f"{ascii_uppercase[row]}{column}"
        for row in range(first_row, rows)
        for column in range(first_column, columns + 1)
    ]
