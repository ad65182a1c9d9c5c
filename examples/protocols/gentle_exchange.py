"""An own protocol: replace a little medium often, and only while the tissue has oxygen enough.

Any Python file that defines these four names is a protocol: NAME, TITLE, PARAMS and `async def protocol(lab, params)`.
Every awaited verb is a journalled step, so after a restart the function runs again and is fed what was recorded: take
times, volumes and readings only from `lab`.
"""

from collections.abc import Mapping

from protocols.language import Lab
from protocols.parameters import Param
from protocols.turns import first_turn, next_turn

NAME = "gentle-exchange"
TITLE = "Replace a little medium often"
PARAMS = (
    Param("volume", "uL", 3_000.0, 1_000.0, 10_000.0, "medium replaced each time"),
    Param("every", "s", 4 * 3_600.0, 1_800.0, 86_400.0, "time from one replacement to the next"),
    Param("cycles", "", 0, 0, 100_000, "number of replacements; 0: until stopped"),
)


async def protocol(lab: Lab, params: Mapping[str, float]) -> None:
    """Draw, discard, feed, give back, unless oxygen is low."""
    begun_s = await first_turn(lab)
    cycle = slot = 0
    while not params["cycles"] or cycle < params["cycles"]:
        slot = await next_turn(lab, begun_s, slot, params["every_s"])  # what was missed is left out
        slot, cycle = slot + 1, cycle + 1
        oxygen = await lab.lung.oxygen()
        if oxygen.interval is None or oxygen.interval.low < 50.0:
            await lab.note("skipped", {"cycle": cycle, "why": oxygen.detail or "oxygen is low"})
            continue
        drawn = await lab.kidney.draw(params["volume_ul"])
        await lab.kidney.discard(drawn.ul)
        fresh = await lab.gut.feed(drawn.ul)
        given = await lab.kidney.give_back(fresh.ul)
        await lab.note("replaced", {"cycle": cycle, "drawn_ul": drawn.ul, "given_back_ul": given.ul})
