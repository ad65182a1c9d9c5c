"""Rig format 1 and the short form of one heart: read as format 2, and hashed as they were.

Format 1 has one tissue (`organoid:`, which names its chamber) and one heart (`organs: heart:`). Format 2 has `tissue:` by
chamber and may have several hearts (`organs: hearts:` by name). Later steps of loading see format 2 only; findings are
reported at the keys that the file has.
"""

from __future__ import annotations

from typing import Any

from controller.rig.description import Organs, Rig
from controller.rig.document import Document
from controller.rig.problems import Finding, likeliest

ORGANOID, HEART = "organoid", "heart"
"""Keys of the only tissue and of the only heart; the heart's name is that of its key."""
ADDED = (
    "zones",
    "zone",
    "junctions",
    "overflow",
    "surface",
    "draws_above",
    "max_flow",
    "check_valve",
    "batch",
    "cell_line",
    "tasks",
    "temperatures",
    "material",
    "selectors",
    "options",
    "port",
    "groups",
    "never",
    "agitators",
    "disposables",
    "recording",
    "cameras",
    "hepes",
    "phosphate",
    "unlocked_protocols",
    "hubs",
    "time_stamps",
)
"""Keys that the description of a rig did not have at first. As long as they are empty, a rig keeps its hash."""
ADDED_WITH_DEFAULT: tuple[tuple[str, object], ...] = (
    ("mains", "50 Hz"),
    ("reference", "ground"),
    ("card", "simulated"),
    ("audit", {"key": None, "witnesses": [], "hubs": [], "time_stamps": None}),
)
"""Such keys that are never empty, with the value that stood for them before."""


def upgrade(document: Document) -> list[Finding]:
    """Turn the data of a rig file into format 2, and keep the places of its keys.

    Args:
        document: The file; its data and former places are changed.

    Returns:
        A finding for each key that stands in two forms.
    """
    problems = _name_the_heart(document)
    data = document.data
    if data.get("choroid") != 1:
        if ORGANOID in data:
            del data[ORGANOID]
            what = "“organoid” is a key of format 1, and the file says that it is in format 2"
            problems.append(Finding((ORGANOID,), what, "Write “tissue:” by chamber, or “choroid: 1”"))
        return problems
    data["choroid"] = 2
    if "tissue" in data:
        what = "“tissue” is a key of format 2, and the file says that it is in format 1"
        problems.append(Finding(("tissue",), what, "Write “choroid: 2”, or run `choroid convert` on the file"))
        del data["tissue"]
    given = data.pop(_organoid_key(data, problems), None)
    document.moved[("tissue",)] = (ORGANOID,)
    if isinstance(given, dict):
        chamber = given.pop("chamber", None)
        if chamber is None:
            problems.append(Finding((ORGANOID, "chamber"), "“chamber” is missing", "Name a vessel of kind “chamber”"))
        name = chamber if isinstance(chamber, str) else "chamber"
        document.moved[("tissue", name)] = (ORGANOID, "chamber")
        document.moved_below[("tissue", name)] = (ORGANOID,)
        data["tissue"] = {name: given}
    elif given is not None:
        data["tissue"] = given
    return problems


def _organoid_key(data: dict[str, Any], problems: list[Finding]) -> str:
    """Return the key of the tissue as the file spells it; a misspelt one is reported."""
    for key in data:
        if ORGANOID not in data and key not in Rig.model_fields and likeliest(key, [ORGANOID]):
            problems.append(Finding((key,), f"unknown key “{key}”", f"Did you mean “{ORGANOID}”?"))
            return key
    return ORGANOID


def _name_the_heart(document: Document) -> list[Finding]:
    organs = document.data.get("organs")
    if not isinstance(organs, dict) or HEART not in organs:
        return []
    given = organs.pop(HEART)
    if "hearts" in organs:
        return [Finding(("organs", HEART), "stands next to “hearts”", "Move it below “hearts”, with a name of its own")]
    if given is not None:
        organs["hearts"] = {HEART: given}
        document.moved[("organs", "hearts", HEART)] = ("organs", HEART)
        document.moved_below[("organs", "hearts", HEART)] = ("organs", HEART)
    return []


def hashed_form(rig: Rig) -> dict[str, Any]:
    """Return the whole description as plain data, in format 1 where that can express it and without empty new keys."""
    data: dict[str, Any] = _without_empty(rig.model_dump(mode="json", by_alias=True))
    data["organs"] = hashed_organs(rig.organs)
    if len(rig.tissue) == 1 and "hearts" not in data["organs"]:
        ((chamber, tissue),) = data.pop("tissue").items()
        data["choroid"], data[ORGANOID] = 1, tissue | {"chamber": chamber}
    return data


def hashed_organs(organs: Organs) -> dict[str, Any]:
    """Return the organs as plain data; one heart that has the usual name as `heart`."""
    data = organs.model_dump(mode="json", by_alias=True)
    if list(organs.hearts) in ([], [HEART]):
        hearts = data.pop("hearts")
        data[HEART] = hearts.get(HEART)
    return data


def _without_empty(data: Any) -> Any:
    """Return plain data without the added keys that say nothing new."""
    if isinstance(data, list):
        return [_without_empty(item) for item in data]
    if isinstance(data, dict):
        return {
            key: _without_empty(value)
            for key, value in data.items()
            if (value or key not in ADDED) and (key, value) not in ADDED_WITH_DEFAULT
        }
    return data
