"""`choroid tissue …`: the tissue record of a running rig."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from choroid.operating.remote import call, endpoint_of

DONE = {"tissue.placed": "placed", "tissue.moved": "moved", "tissue.removed": "removed"}


def tissue(verb: str, *, data: Path, chamber: str, body: dict[str, Any]) -> dict[str, Any]:
    """Execute one verb (list, show, place, move, remove); return the chambers that it concerns.

    Raises:
        UserError: No controller answers, or it refuses, in its own words.
    """
    endpoint = endpoint_of(data)
    if verb in ("list", "show"):
        found = call(endpoint, "GET", "/api/tissue")["chambers"]
    else:
        given = {key: value for key, value in body.items() if value is not None}
        found = call(endpoint, "POST", f"/api/tissue/{quote(chamber, safe='')}/{verb}", given)["chambers"]
    named = {chamber, body.get("target")} - {"", None}
    return {"chambers": [each for each in found if not named or each["chamber"] in named]}


def as_text(answer: dict[str, Any], *, history: bool) -> str:
    """Return one line for each chamber, with its history if asked."""
    lines = []
    for each in answer["chambers"]:
        lines.append(f"{each['chamber']:<16}{_present(each['tissue'])}")
        lines += [f"  {_past(row)}" for row in each["history"] if history]
    return "\n".join(lines) or "no such chamber"


def _present(tissue: dict[str, Any] | None) -> str:
    if tissue is None:
        return "no tissue"
    known = [tissue["batch"] and f"batch {tissue['batch']}", tissue["cell_line"]]
    known += [tissue["came_from"] and f"from {tissue['came_from']}"]
    size = f"{tissue['count']} × {tissue['diameter_mm']:g} mm, {tissue['aged_d']:.1f} d"
    return ", ".join([size, *(text for text in known if text)])


def _past(row: dict[str, Any]) -> str:
    where = f"{row['chamber']} → {row['target']}" if "target" in row else row["chamber"]
    by = f"{row['user']} ({row['role']})" if row.get("role") else row["user"]
    return f"{row['utc'][:16]}Z  {DONE[row['kind']]:<9}{row['count']} organoids, {where}, by {by}: {row['reason']}"
