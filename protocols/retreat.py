"""The retreat of recycling: the scheduled exchange of medium instead, for tissue that loses viability.

Fresh medium is the one treatment that lowers every product, replaces every supplement and needs no dialyser, whatever
the cause of the loss. A day's exchange is made at once, then the usual one each day, so that a loop of grade B is soon as
fresh as under the protocol `exchange`. A suspicion may be wrong: recycling resumes, once in a run, if within a week the
estimate has suspected nothing for two days, with a look at each turn. Otherwise the retreat lasts until a person ends the
run: tissue that the limits harm would lose again each time. Each decision is a step of the run, so that a restart, also of a
release with other thresholds, follows it.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from protocols import exchange
from protocols.language import Lab
from protocols.ldh_requests import LdhRequests
from protocols.tissue_loss import LossWatch, TissueLoss
from protocols.turns import first_turn, next_turn

RETREAT = "recycle_retreat"
"""Kind of the note, and of the alarm, that informs people."""
RESUMED = "recycle_resumed"
"""Kind of the note that recycling goes on."""
CLEAR_D = 2.0
"""Time (days) without suspicion after which recycling resumes; false ones of the trials ended within two days [P]."""
LATEST_D = 7.0
"""Time (days) after which a retreat is final: the loss is real, or the estimate cannot tell [P]."""
DAY_S = 86_400.0
HOUR_S = 3_600.0
PER_ML = 1000.0


async def retreat(
    lab: Lab, why: str, seen: TissueLoss, watch: LossWatch, ldh: LdhRequests, begun_d: float, *, days: int, final: bool
) -> bool:
    """Tell people, and exchange medium by the schedule of `exchange`, the first time at once.

    Args:
        lab: The rig.
        why: What the estimate says.
        seen: The estimate.
        watch: Judges what the estimate says later.
        ldh: Decides whether LDH is asked for.
        begun_d: Time since the run's start (days).
        days: Number of days; 0: until the run is stopped.
        final: Whether only a person ends it.

    Returns:
        Whether recycling goes on; else the days are over.
    """
    day_ul = exchange.SCHEDULED_SHARE_D * lab.targets.loop_ul
    room_ul = min(lab.targets.spent_room_ul, lab.targets.loop_spare_ul)
    # A rig whose spent vessel takes less than a day's exchange makes it in several portions.
    parts = min(max(math.ceil(day_ul / room_ul), 1), round(DAY_S / HOUR_S)) if room_ul > 0.0 else 1
    every_s = DAY_S / parts
    final = final or seen.certain
    await lab.note(RETREAT, _told(why, seen, day_ul, final=final))
    for _ in range(parts):
        await exchange.exchange_once(lab, day_ul / parts, cycle=0)
    begun_s = await first_turn(lab)
    clear_since_s: float | None = None
    count = slot = 0
    while not days or count < days * parts:
        planned, slot = slot, await next_turn(lab, begun_s, slot, every_s)
        now_s = slot * every_s
        if slot > planned:
            clear_since_s = None  # in an absence nothing looked at the tissue
        slot, count = slot + 1, count + 1
        now = (await exchange.exchange_once(lab, day_ul / parts, count)).tissue
        await ldh.ask(lab, now, begun_d + now_s / DAY_S)
        final = final or now_s > LATEST_D * DAY_S or (now is not None and now.certain)
        if now is None or not now.known or watch.loses(now):
            clear_since_s = None
        elif clear_since_s is None:
            clear_since_s = now_s
        if clear_since_s is None:
            continue
        cleared = not final and now_s - clear_since_s >= CLEAR_D * DAY_S
        if await lab.decide("resume", partial(bool, cleared)):
            text = f"no loss was suspected for {CLEAR_D:g} days; medium is returned again"
            await lab.note(RESUMED, {"where": "tissue", "text": text})
            return True
    return False


def _told(why: str, seen: TissueLoss, day_ul: float, *, final: bool) -> dict[str, Any]:
    accepted_pct = math.ceil(100.0 * seen.lost)
    until = (
        "this run is stopped"
        if final
        else f"the estimate suspects no loss for {CLEAR_D:g} days within a week, or else this run is stopped"
    )
    text = f"{why}. No medium is returned any more; {day_ul / PER_ML:.3g} mL a day are exchanged until {until}."
    text += (
        " Likely cause: products in the medium that this tissue does not stand; or another harm (see the viability card)."
        " Next: assay LDH, lactate and ammonia of the loop, look at the tissue, and keep exchanging while it recovers. Then"
        " start `recycle` again with stricter limits (`grading`); or, if the cause was another one and is removed, with"
        f" accepted_loss={accepted_pct} %"
        if seen.known
        else " A loss would not be noticed. Likely cause: no sensor of the tissue gives readings. Next: see the viability"
        " card, restore the sensors, then start `recycle` again"
    )
    return {"where": "tissue", "text": text, "exchanged_ul_d": round(day_ul, 1), "tissue": seen.to_json()}
