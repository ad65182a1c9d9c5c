"""The usual procedure of laboratories: discard a part of the medium every day and replace it. Reference of
`recycle`.
"""

from __future__ import annotations

from collections.abc import Mapping

from protocols.language import Lab
from protocols.organs import Gut, Kidney
from protocols.parameters import Param
from protocols.results import NOTHING
from protocols.soft_sensor import MediaEstimate
from protocols.turns import first_turn, next_turn

NAME = "exchange"
TITLE = "Replace a volume of medium by fresh, every day"
VERSION = 1
"""Increased when a run that began before must not go on under this text; its steps are compared with its record as well."""
VERBS = (
    Kidney.draw,
    Kidney.discard,
    Gut.feed,
    Kidney.give_back,
)
"""Verbs that it cannot do without."""
PARAMS = (
    Param("volume", "uL", 20_000.0, 1_000.0, 35_000.0, "medium replaced each time"),
    Param("every", "s", 86_400.0, 3_600.0, 7 * 86_400.0, "time from one replacement to the next"),
    Param("cycles", "", 0, 0, 100_000, "number of replacements; 0: until stopped"),
)
SCHEDULED_SHARE_D = 0.5
"""Share of a loop that the scheduled exchange replaces (1/day): the defaults, on a loop of 40 mL."""


async def protocol(lab: Lab, params: Mapping[str, float]) -> None:
    """Draw, discard, feed, give back; the first time at once. Missed turns are skipped."""
    begun_s = await first_turn(lab)
    cycle = slot = 0
    while not params["cycles"] or cycle < params["cycles"]:
        slot = await next_turn(lab, begun_s, slot, params["every_s"])
        slot, cycle = slot + 1, cycle + 1
        await exchange_once(lab, params["volume_ul"], cycle)


async def exchange_once(lab: Lab, volume_ul: float, cycle: int) -> MediaEstimate:
    """Do one replacement; the loop returns to its working volume, the spent vessel to its previous one.

    Returns:
        The estimate afterwards.
    """
    targets = lab.targets
    drawn = await lab.kidney.draw(min(volume_ul, targets.spent_room_ul, targets.loop_spare_ul))
    excess_ul = lab.volumes()["spent"].ul - targets.spent_ul
    discarded = await lab.kidney.discard(excess_ul) if excess_ul >= lab.kidney.discard.min_ul else NOTHING
    missing_ul = targets.loop_ul - lab.volumes()["loop"].ul + targets.spent_ul - lab.volumes()["spent"].ul
    fed = await lab.gut.feed(min(max(missing_ul, lab.liver.min_dose_ul), targets.spent_room_ul))
    give_ul = lab.volumes()["spent"].ul - targets.spent_ul
    given = await lab.kidney.give_back(give_ul) if give_ul >= lab.kidney.give_back.min_ul else NOTHING
    estimate = await lab.estimate()
    await lab.note(
        "exchange",
        {
            "cycle": cycle,
            "drawn_ul": drawn.ul,
            "discarded_ul": discarded.ul,
            "fresh_ul": fed.ul,
            "given_back_ul": given.ul,
            "estimate": estimate.loop.to_json(),
        },
    )
    return estimate
