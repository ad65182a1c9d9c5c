"""Records of the verbs that dose one chamber: dispense, aspirate, rinse."""

from __future__ import annotations

from protocols.verbs import SAVE_AS, Argument, ChamberVerb, SavedValue, StepForm

CHAMBER = "chamber"
"""In a `for_each`: the chamber of this turn."""
MAX_CARRY_OVER_PCT = 1.0
"""Default bound of the share of a dose that may be what the shared line held before (%)."""
CARRY_OVER = Argument(
    "quantity",
    "maximum share of the dose that may be other medium, left in the shared line (default 1 %)",
    "%",
    default=MAX_CARRY_OVER_PCT,
    minimum=0.0,
    maximum=100.0,
)
_SAVES = {"": SavedValue("ul", "uL"), ".low": SavedValue("low", "uL"), ".high": SavedValue("high", "uL")}
_VOLUME = Argument("quantity", "how much", "uL", required=True)

DISPENSE = ChamberVerb(
    name="dispense",
    says="Dispense into the chamber",
    what="into",
    place="to",
    source="from",
    needs="pumped line into the chamber",
    form=StepForm(
        "dispense",
        "medium → chamber",
        {
            "to": Argument("part", "name of the chamber, or `chamber` in a for_each", required=True),
            "volume": _VOLUME,
            "from": Argument("part", "vessel or medium, if several lead to the chamber"),
            "max_carry_over": CARRY_OVER,
            "as": SAVE_AS,
        },
        saves=_SAVES,
    ),
)
ASPIRATE = ChamberVerb(
    name="aspirate",
    says="Aspirate from the chamber",
    what="out of",
    place="from",
    needs="pumped line out of the chamber",
    form=StepForm(
        "aspirate",
        "chamber → waste, or the vessel that its line leads to",
        {
            "from": Argument("part", "name of the chamber, or `chamber` in a for_each", required=True),
            "volume": _VOLUME,
            "max_carry_over": CARRY_OVER,
            "as": SAVE_AS,
        },
        saves=_SAVES,
    ),
)
RINSE = ChamberVerb(
    name="rinse",
    says="Rinse the selector's line",
    what="through",
    place="selector",
    source="from",
    needs="pumped line from a bottle through the selector to waste",
    form=StepForm(
        "rinse",
        "medium → selector → waste, to displace what its shared line holds",
        {
            "selector": Argument("part", "name of the selector", required=True),
            "volume": _VOLUME,
            "from": Argument("part", "vessel or medium, if several lead to the selector"),
            "as": SAVE_AS,
        },
        saves=_SAVES,
    ),
)
DOSES = (DISPENSE, ASPIRATE, RINSE)
