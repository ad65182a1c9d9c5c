"""Dead-man leases on electrodes: a client that stimulates must renew its lease, or the lease ends (N3).

Counted in frames of the array, so neither a stopped clock nor a stalled thread can lengthen a lease.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SHORTEST_S = 0.02
LONGEST_S = 10.0
MAX_LEASES = 64


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to stimulate `electrodes` until `until_frame`; never shared, never passed on."""

    id: str
    requester: str
    electrodes: frozenset[int]
    ttl_frames: int
    until_frame: int


class LeaseRefused(Exception):
    """The lease cannot be given; the message says why and what to do."""


class Leases:
    """Who holds which electrodes. An electrode has at most one holder."""

    def __init__(self, electrodes: int, sample_rate_hz: float) -> None:
        self._electrodes = electrodes
        self._rate = sample_rate_hz
        self._leases: dict[str, Lease] = {}
        self._given = 0

    def __len__(self) -> int:
        return len(self._leases)

    def acquire(self, requester: str, electrodes: Iterable[int], ttl_s: float, now_frame: int) -> Lease:
        """Give a lease for `ttl_s` seconds from now on. Raises :class:`LeaseRefused`."""
        wanted = frozenset(electrodes)
        if not wanted:
            raise LeaseRefused("no electrode is named; name at least one")
        unknown = sorted(e for e in wanted if not 0 <= e < self._electrodes)
        if unknown:
            raise LeaseRefused(f"there is no electrode {unknown[0]}; this array has 0 to {self._electrodes - 1}")
        if not SHORTEST_S <= ttl_s <= LONGEST_S:
            raise LeaseRefused(f"a lease of {ttl_s:g} s; give {SHORTEST_S:g} to {LONGEST_S:g} s and renew it")
        if len(self._leases) >= MAX_LEASES:
            raise LeaseRefused(f"{MAX_LEASES} leases are given already; wait until one ends")
        for lease in self._leases.values():
            taken = sorted(lease.electrodes & wanted)
            if taken:
                raise LeaseRefused(f"electrode {taken[0]} is held by {lease.requester}; wait or choose another")
        self._given += 1
        ttl_frames = round(ttl_s * self._rate)
        lease = Lease(f"lease-{self._given}", requester, wanted, ttl_frames, now_frame + ttl_frames)
        self._leases[lease.id] = lease
        return lease

    def renew(self, lease_id: str, requester: str, now_frame: int) -> Lease:
        """Renew a living lease: its time begins again. Raises :class:`LeaseRefused` when it has ended or is another's."""
        old = self._mine(lease_id, requester)
        lease = Lease(old.id, old.requester, old.electrodes, old.ttl_frames, now_frame + old.ttl_frames)
        self._leases[lease_id] = lease
        return lease

    def release(self, lease_id: str, requester: str) -> Lease:
        """End a lease now. Raises :class:`LeaseRefused` when it has ended or is another's."""
        lease = self._mine(lease_id, requester)
        del self._leases[lease_id]
        return lease

    def find(self, lease_id: str, requester: str) -> Lease | None:
        """The requester's living lease of that name."""
        lease = self._leases.get(lease_id)
        return lease if lease is not None and lease.requester == requester else None

    def alive(self, lease_id: str) -> bool:
        """Whether this lease still lives."""
        return lease_id in self._leases

    def expire(self, now_frame: int) -> list[Lease]:
        """End and return the leases whose time is over."""
        ended = [lease for lease in self._leases.values() if lease.until_frame <= now_frame]
        for lease in ended:
            del self._leases[lease.id]
        return ended

    def drop_all(self) -> list[Lease]:
        """End and return every lease (after a gap, how long the array was silent is not known)."""
        ended = list(self._leases.values())
        self._leases.clear()
        return ended

    def _mine(self, lease_id: str, requester: str) -> Lease:
        lease = self.find(lease_id, requester)
        if lease is None:
            raise LeaseRefused(f"“{lease_id}” is no living lease of {requester}; acquire a new one")
        return lease
