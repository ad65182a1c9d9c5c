"""Disposables: parts that are used for a time and then replaced. Pure."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from controller.rig.description import Rig
from controller.rig.upkeep import Disposable


def disposable_causes(rig: Rig, now_utc: str) -> dict[tuple[str, str], str]:
    """Return the causes of alarms in disposables, by alarm kind and name: used up, or soon.

    Days are those of the laboratory's time zone. The warning comes `calibration_due` before the last day.
    """
    today = datetime.fromisoformat(now_utc).astimezone(ZoneInfo(rig.time_zone)).date()
    soon = today + timedelta(seconds=rig.upkeep.calibration_due_s)
    causes = {}
    for name, disposable in rig.upkeep.disposables.items():
        last = disposable.last_day
        if last is not None and last < today:
            causes["disposable_over", name] = _text(disposable, last)
        elif last is not None and last <= soon:
            causes["disposable_due", name] = _text(disposable, last)
    return causes


def _text(disposable: Disposable, last: date) -> str:
    lot = f", lot {disposable.lot}" if disposable.lot else ""
    opened = f", opened on {disposable.opened}" if disposable.opened else ""
    return f"{disposable.what}{lot}{opened}: its last day is {last}"
