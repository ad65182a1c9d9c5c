"""The short form of one heart in a rig file, and the form of a description that is hashed.

A rig file may write one heart as `organs: heart:` instead of `organs: hearts:` by name. Later steps of loading see the long
form only; findings are reported at the keys that the file has.
"""

from __future__ import annotations

from typing import Any

from controller.rig.description import Rig
from controller.rig.document import Document
from controller.rig.organs import Organs
from controller.rig.problems import Finding

HEART = "heart"
"""Key of the only heart, and its name."""
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
    "pitch",
    "geometry",
    "cameras",
    "hepes",
    "phosphate",
    "label_sd",
    "stable_glutamine",
    "use_within",
    "method_sd",
    "unlocked_protocols",
    "hubs",
    "time_stamps",
)
"""Keys that the hash leaves out as long as they are empty. A key that is added later belongs here, so that rigs keep their
hash."""
ADDED_WITH_DEFAULT: tuple[tuple[str, object], ...] = (
    ("mains", "50 Hz"),
    ("reference", "ground"),
    ("artefact_share", 60.0),
    ("reflex_filter", "linear-phase"),
    ("stimulation_artefacts", "blank"),
    ("block", 0.001),
    ("card", "simulated"),
    ("audit", {"key": None, "witnesses": [], "hubs": [], "time_stamps": None}),
)
"""Such keys that are never empty, with their usual value."""


def name_the_heart(document: Document) -> list[Finding]:
    """Give the only heart of a rig file its place below `hearts`, and keep the places of its keys.

    Args:
        document: The file; its data and moved places are changed.

    Returns:
        A finding if the file has both forms.
    """
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
    """Return the whole description as plain data without empty added keys.

    The form is part of rig format 1 and stays, so that a rig keeps its hash: a rig with one tissue has it at `organoid`, with
    the name of its chamber, and one heart is at `heart`.
    """
    data: dict[str, Any] = _without_empty(rig.model_dump(mode="json", by_alias=True))
    data["organs"] = hashed_organs(rig.organs)
    if len(rig.tissue) == 1 and "hearts" not in data["organs"]:
        ((chamber, tissue),) = data.pop("tissue").items()
        data["choroid"], data["organoid"] = 1, tissue | {"chamber": chamber}
    else:
        data["choroid"] = 2
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
