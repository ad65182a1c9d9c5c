"""Bottles of medium: past the date of their label, and past the time within which what is in them may be used.

Neither stops the supply: tissue without medium is worse off than with old medium (decision 18).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from controller.core.state import Volume
from controller.ledger.batches import COUNTED_SHARE, BatchMixture, Whereabouts
from controller.ledger.medium_ageing import stocks
from controller.rig.description import Rig
from controller.rig.surroundings import kept_c
from protocols.medium_ageing import use_within_d

DAY_S = 86_400.0
WARNED_SHARE = 0.2
"""The last share of the limit in which a bottle is due, at most `calibration_due`."""


def limit_d(rig: Rig, vessel: str) -> float | None:
    """Return how long a bottle may be used after it was put in (days); None if there is no limit.

    Without `use_within` there is one for medium with glutamine that is no stock: it has supplements. It depends on
    the temperature of the vessel's zone.
    """
    spec = rig.vessels[vessel]
    medium = rig.media.get(spec.contains or "")
    if spec.kind != "source" or medium is None:
        return None
    if medium.use_within_d is not None:
        return medium.use_within_d
    supplemented = medium.glutamine_mm > 0.0 and spec.contains not in stocks(rig)
    return use_within_d(kept_c(rig, vessel)) if supplemented else None


def bottle_causes(
    rig: Rig, medium: Whereabouts, volumes: Mapping[str, Volume], now_utc: str
) -> dict[tuple[str, str], str]:
    """Return the causes of alarms in bottles, by alarm kind and vessel.

    Of a refilled bottle its oldest lot counts; one from which no dose is drawn any more has no limit of use.
    """
    causes: dict[tuple[str, str], str] = {}
    now = datetime.fromisoformat(now_utc)
    for batch in medium.batches.values():
        if batch.expired(now_utc):
            causes["medium_expired", batch.vessel] = f"lot {batch.lot} expired on {day_of(batch.expires_utc)}"
    for vessel in rig.vessels:
        lots = medium.mixtures.get(vessel, BatchMixture()).by_batch
        held = [(medium.put_in_utc(vessel, lot), lot) for lot, share in lots.items() if share >= COUNTED_SHARE]
        dated = [(since, lot) for since, lot in held if since]
        limit = limit_d(rig, vessel)
        volume = volumes.get(vessel)
        empty = volume is not None and volume.ul < rig.vessels[vessel].floor_ul
        if limit is None or not dated or empty:
            continue
        since, lot = min(dated)
        ends = datetime.fromisoformat(since) + timedelta(days=limit)
        warned_s = min(rig.upkeep.calibration_due_s, WARNED_SHARE * limit * DAY_S)
        place = "" if rig.vessels[vessel].zone is not None else " (the room: it has no zone in the rig file)"
        kept = f"lot {lot}, put in on {day_of(since)}, kept at {kept_c(rig, vessel):g} °C{place}"
        if now >= ends:
            causes["bottle_over", vessel] = f"{kept}: the limit of {limit:.3g} d was over on {day_of(ends.isoformat())}"
        elif now >= ends - timedelta(seconds=warned_s):
            causes["bottle_due", vessel] = f"{kept}: the limit of {limit:.3g} d is over on {day_of(ends.isoformat())}"
    return causes


def day_of(utc: str) -> str:
    """Return a time to the minute, for people."""
    return utc[:16].replace("T", " ") + " UTC"
