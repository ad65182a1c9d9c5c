"""Data that were discarded: what, where and how many, for page, API and alarms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Discarded:
    """One count. `lost` says whether the data are gone; readings that are kept as doubtful are not."""

    where: str
    """The sink or record, such as `influx` or `history`."""
    what: str
    """What was discarded and why, such as “messages over the quota of the outbox”."""
    count: int
    lost: bool = True
