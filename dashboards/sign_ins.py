"""Count failed sign-ins by source, and record them in few rows, however many there are.

The first failure is recorded at once. Those that follow are summed: a row after a minute, then after twice the time, at most
one an hour. Memory is bounded: the sources of a row are those with most failures.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import Counter
from datetime import datetime

from controller.journal.terms import JournalUnwritten
from controller.process.controller import Controller

logger = logging.getLogger(__name__)

FIRST_PAUSE_S, MAX_PAUSE_S = 60.0, 3600.0
MAX_SOURCES = 1024
NAMED = 5
"""Sources that a row names."""
KIND = "page.sign_ins_failed"


def source_of(address: str) -> str:
    """Return the source for which an address counts: itself, or the network of an IPv6 host, which has many addresses."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.IPv6Network((found, 64), strict=False))
    return str(found)


class FailedSignIns:
    """The failed sign-ins of one page since its start."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.count = 0
        self.last: datetime | None = None
        self.last_source = ""
        self._waiting = 0
        self._sources: Counter[str] = Counter()
        self._pause_s = FIRST_PAUSE_S
        self._timer: asyncio.TimerHandle | None = None

    def add(self, source: str) -> None:
        """Count one."""
        self.count += 1
        self.last, self.last_source = self._controller.clock.utc(), source
        self._waiting += 1
        if source in self._sources or len(self._sources) < MAX_SOURCES:
            self._sources[source] += 1
        if self._timer is None:
            self._record()

    def close(self) -> None:
        """Record what waits, and end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._write()

    def _record(self) -> None:
        """Write a row and wait longer for the next one; after a pause without a failure, begin again."""
        self._timer = None
        if not self._waiting:
            self._pause_s = FIRST_PAUSE_S
            return
        self._write()
        self._timer = asyncio.get_running_loop().call_later(self._pause_s, self._record)
        self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)

    def _write(self) -> None:
        if not self._waiting:
            return
        row = {"count": self._waiting, "sources": len(self._sources), "most": dict(self._sources.most_common(NAMED))}
        self._waiting = 0
        self._sources.clear()
        try:
            self._controller.journal.append(KIND, row)
        except JournalUnwritten as error:
            logger.warning("%d sign-ins failed, and no row tells of it: %s", row["count"], error)
