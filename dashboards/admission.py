"""Limit the open connections of a server: those of known callers, and a bounded number of others.

A connection is unknown until a request on it carries a valid credential. When the maximum number of unknown connections is
open, a new one replaces the one that has been idle longest, first of the address with most connections. Unknown connections
without a request are closed after a while, and the rate of their requests is limited. So a client with a credential can
always connect, and all other clients use a bounded share of descriptors and of the event loop. Known connections are counted
separately; those of the highest role are closed last.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from dashboards.auth import User
from dashboards.rates import Rates

MAX_UNKNOWN = 1024
MAX_KNOWN = 192
UNKNOWN_IDLE_S = 10.0
"""Real seconds after which an unknown connection without a request is closed."""
REQUESTS_PER_S, BURST = 100.0, 960.0
"""Requests without a valid credential that are answered, from all addresses together."""
ADDRESS_REQUESTS_PER_S, ADDRESS_BURST = 40.0, 480.0
"""The same from one address: all separate files of the page five times at once, and on at this rate."""
FAILURES_PER_S, FAILURE_BURST = 5.0, 100.0
"""Sign-ins that fail and are answered at once, from all addresses together."""
ADDRESS_FAILURES_PER_S, ADDRESS_FAILURE_BURST = 1 / 6, 10.0
"""The same from one address."""
DESCRIPTORS = 16_384


@dataclass(slots=True)
class AdmittedConnection:
    """One open connection. `rank` is 0 while it is unknown, else the role; `holder` is an address or a caller's name."""

    holder: str
    close: Callable[[], object]
    active_s: float
    rank: int = 0
    person: User | None = None
    """User of this machine at the other end of a local socket."""
    counted: bool = False
    """Whether the rate limits have counted its next request already."""


class Admission:
    """Limit the open connections of one server. `time_scale`: loop seconds per real second."""

    def __init__(self, *, time_scale: float = 1.0, max_unknown: int = MAX_UNKNOWN, max_known: int = MAX_KNOWN) -> None:
        self._loop = asyncio.get_running_loop()
        self._held: dict[tuple[int, str], OrderedDict[int, AdmittedConnection]] = {}
        """By rank and holder, the longest idle first."""
        self._counts: dict[bool, int] = {False: 0, True: 0}
        self._scale = time_scale
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._max_unknown = max_unknown if descriptors == resource.RLIM_INFINITY else min(max_unknown, descriptors // 4)
        self._max_known = max_known
        now_s = self._loop.time()
        self._requests = Rates(
            (ADDRESS_REQUESTS_PER_S / time_scale, ADDRESS_BURST), (REQUESTS_PER_S / time_scale, BURST), now_s
        )
        self._failures = Rates(
            (ADDRESS_FAILURES_PER_S / time_scale, ADDRESS_FAILURE_BURST),
            (FAILURES_PER_S / time_scale, FAILURE_BURST),
            now_s,
        )
        self._sweeping: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(self._counts.values())

    def admit(self, address: str, close: Callable[[], object]) -> AdmittedConnection:
        """Admit a new connection, which `close` closes; if there are too many, close another one."""
        if self._counts[False] >= self._max_unknown:
            self._close_one(known=False)
        admitted = AdmittedConnection(address, close, self._loop.time())
        self._put(admitted)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(UNKNOWN_IDLE_S * self._scale / 2, self._sweep)
        return admitted

    def remove(self, admitted: AdmittedConnection) -> None:
        """Remove a connection that has been closed; a second call does nothing."""
        held = self._held.get((admitted.rank, admitted.holder))
        if held is not None and held.pop(id(admitted), None) is not None:
            self._counts[admitted.rank > 0] -= 1
            if not held:
                del self._held[admitted.rank, admitted.holder]

    def active(self, admitted: AdmittedConnection) -> None:
        """Note a request on a connection."""
        admitted.active_s = self._loop.time()
        held = self._held.get((admitted.rank, admitted.holder))
        if held is not None and id(admitted) in held:
            held.move_to_end(id(admitted))

    def identified(self, admitted: AdmittedConnection, caller: str, rank: int) -> None:
        """Note that a connection carries the credential of `caller`, whose role is `rank` (from 1)."""
        held = self._held.get((admitted.rank, admitted.holder))
        if rank <= admitted.rank or held is None or id(admitted) not in held:
            return
        if not admitted.rank and self._counts[True] >= self._max_known:
            self._close_one(known=True)
        self.remove(admitted)
        admitted.holder, admitted.rank = caller, rank
        self._put(admitted)

    def may_request(self, address: str) -> bool:
        """Return whether a request without a credential is within the rate limits, and count it."""
        return self._requests.take(address, self._loop.time())

    def may_fail(self, address: str) -> bool:
        """Return whether a sign-in that fails may be answered at once, and count it."""
        return self._failures.take(address, self._loop.time())

    def close(self) -> None:
        """Close every connection."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for held in list(self._held.values()):
            for admitted in list(held.values()):
                self._shut(admitted)

    def _put(self, admitted: AdmittedConnection) -> None:
        self._held.setdefault((admitted.rank, admitted.holder), OrderedDict())[id(admitted)] = admitted
        self._counts[admitted.rank > 0] += 1

    def _close_one(self, *, known: bool) -> None:
        """Close the connection that has been idle longest, of the holder that has most, of the lowest rank."""
        among = [key for key in self._held if (key[0] > 0) is known]
        victims = self._held[min(among, key=lambda key: (key[0], -len(self._held[key])))]
        self._shut(next(iter(victims.values())))

    def _sweep(self) -> None:
        """Close the unknown connections that have been idle for too long."""
        self._sweeping = None
        limit_s = self._loop.time() - UNKNOWN_IDLE_S * self._scale
        for key in [key for key in self._held if key[0] == 0]:
            for admitted in list(self._held[key].values()):
                if admitted.active_s > limit_s:
                    break
                self._shut(admitted)
        if len(self):
            self._sweeping = self._loop.call_later(UNKNOWN_IDLE_S * self._scale / 2, self._sweep)

    def _shut(self, admitted: AdmittedConnection) -> None:
        self.remove(admitted)
        admitted.close()


def more_descriptors() -> None:
    """Raise this process's limit of open files, so that many sockets leave descriptors for devices and files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
