"""`choroid cards`: the electrode cards, with what each can do and its limits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from choroid.common.table import aligned
from choroid.rig_file.card_catalogue import CARDS
from controller.rig.card import CARD_FORMS

COLUMNS = ("card", "what", "link", "stimulates", "impedances", "options")


def cards() -> dict[str, Any]:
    """Return `{"cards": [...]}`, one entry per card, in the catalogue's order."""
    return {
        "cards": [
            {"name": each.name, **asdict(each), "links": list(form.schemes.values()), "options": list(form.options)}
            for each in CARDS
            for form in [CARD_FORMS[each.name]]
        ]
    }


def as_text(answer: dict[str, Any]) -> str:
    """Return the catalogue as a table, then the limits of each card."""
    rows = [
        (
            each["name"], each["what"], " or ".join(each["links"]), each["stimulates"] or "no", each["impedances"] or "no",
            ", ".join(each["options"]) or "-",
        )
        for each in answer["cards"]
    ]  # fmt: skip
    limits = [f"{each['name']}: {each['limits']}. Tested against {each['tested']}" for each in answer["cards"]]
    return "\n".join([*aligned(COLUMNS, rows), "", *limits, "", "No card has been tested on hardware yet."])
