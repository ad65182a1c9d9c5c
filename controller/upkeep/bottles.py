"""Bottles of medium: past the date of their label, and past the time within which what is in them may be used.

Neither stops the supply: tissue without medium is worse off than with old medium (decision 18).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from controller.ledger.batches import BatchMixture, Whereabouts
from controller.rig.description import Rig
from controller.rig.surroundings import kept_c
from protocols.medium_ageing import use_within_d

DAY_S = 86_400.0
COUNTED_SHARE = 0.05
"""Share of a bottle from which a lot counts."""
WARNED_SHARE = 0.2
"""The last share of the limit in which a bottle is due, at most `calibration_due`."""


def limit_d(rig: Rig, vessel: str) -> float | None:
    """Return how long a bottle may be used after it was put in (days); None if there is no limit.

    Without `use_within` there is one for medium with glutamine, which has supplements, by the temperature of its zone.
    """
    spec = rig.vessels[vessel]
    medium = rig.media.get(spec.contains or "")
    if spec.kind != "source" or medium is None:
        return None
    if medium.use_within_d is not None:
        return medium.use_within_d
    return use_within_d(kept_c(rig, vessel)) if medium.glutamine_mm > 0.0 else None


def bottle_causes(rig: Rig, medium: Whereabouts, now_utc: str) -> dict[tuple[str, str], str]:
    """Return the causes of alarms in bottles, by alarm kind and vessel. Of a refilled bottle its oldest lot counts."""
    causes: dict[tuple[str, str], str] = {}
    now = datetime.fromisoformat(now_utc)
    for batch in medium.batches.values():
        if batch.expired(now_utc):
            causes["medium_expired", batch.vessel] = f"lot {batch.lot} expired on {day_of(batch.expires_utc)}"
    for vessel in rig.vessels:
        lots = medium.mixtures.get(vessel, BatchMixture()).by_batch
        held = [medium.batches[lot] for lot, share in lots.items() if share >= COUNTED_SHARE and lot in medium.batches]
        dated = [batch for batch in held if batch.loaded_utc]
        limit = limit_d(rig, vessel)
        if limit is None or not dated:
            continue
        batch = min(dated, key=lambda each: each.loaded_utc)
        ends = datetime.fromisoformat(batch.loaded_utc) + timedelta(days=limit)
        warned_s = min(rig.upkeep.calibration_due_s, WARNED_SHARE * limit * DAY_S)
        kept = f"lot {batch.lot}, put in on {day_of(batch.loaded_utc)}, kept at {kept_c(rig, vessel):g} °C"
        if now >= ends:
            causes["bottle_over", vessel] = f"{kept}: the limit of {limit:.3g} d was over on {day_of(ends.isoformat())}"
        elif now >= ends - timedelta(seconds=warned_s):
            causes["bottle_due", vessel] = f"{kept}: the limit of {limit:.3g} d is over on {day_of(ends.isoformat())}"
    return causes


def day_of(utc: str) -> str:
    """Return a time to the minute, for people."""
    return utc[:16].replace("T", " ") + " UTC"
