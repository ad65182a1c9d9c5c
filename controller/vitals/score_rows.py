"""Rows of the journal with the scores, those of earlier releases among them.

A row `scores` has the keys `viability` (the estimate), `care_rating`, `welfare`, `happiness` and others. Earlier releases
wrote rows `viability`: the care rating under its former name at the top level, in the last of them with the estimate in
`estimate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ROW = "scores"
FORMER_ROW = "viability"
ROWS = (ROW, FORMER_ROW)
OWN = ("welfare", "happiness", "stimulation", "baseline", "firing_z")
"""Keys that were next to the parts of the care rating in a former row and are its equals now."""


def scores_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a row in today's form; scores that it does not have are None."""
    if "care_rating" in body:
        return dict(body)
    rating = {name: value for name, value in body.items() if name not in (*OWN, "estimate")}
    return {
        "viability": body.get("estimate"),
        "care_rating": rating if "score" in rating else None,
        **{name: body.get(name) for name in OWN},
    }
