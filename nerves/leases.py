"""Dead-man leases on electrodes: a client that stimulates must give signs of life, or its lease ends (N3).

Counted in frames of the array, so neither a stopped clock nor a stalled thread can lengthen a lease. A lease is bound to the
identity that acquired it and has a name that cannot be guessed. Its fencing token grows with each grant, also over restarts
of the engine, so that a late request of an earlier holder is recognised (X2).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

SHORTEST_S = 0.02
LONGEST_S = 10.0
MAX_LEASES = 64
SILENCE_S = 0.03
"""A held lease delivers no pulse when its last heartbeat is older than this. With a pulse's tolerance (10 ms) and a block the
array is silent within 50 ms of the last heartbeat.
"""
UNHELD_AHEAD_S = 0.03
"""Without a heartbeat nothing tells that a client has died: pulses that no open call stands for lie at most so far ahead."""
FENCES_OF_A_SESSION = 1 << 32


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to stimulate `electrodes` until `until_frame`; never shared, never passed on."""

    id: str
    requester: str
    electrodes: frozenset[int]
    ttl_frames: int
    until_frame: int
    fence: int
    held: bool
    """Whether it lives no longer than its heartbeat stream."""
    alive_frame: int
    """The array's clock at the last sign of life of its holder."""


class LeaseRefused(Exception):
    """The lease cannot be given; the message says why and what to do."""


def random_id() -> str:
    """Return a name that cannot be guessed: 128 random bits."""
    return secrets.token_hex(16)


class Leases:
    """Keeps the leases on electrodes. An electrode has at most one holder."""

    def __init__(
        self, electrodes: int, sample_rate_hz: float, *, session: int = 0, new_id: Callable[[], str] = random_id
    ) -> None:
        """Begin without leases.

        Args:
            electrodes: Number of electrodes of the array.
            sample_rate_hz: Its frames per second.
            session: Number of the ledger's session, which grows with each start of the engine; fencing tokens follow it.
            new_id: Source of names.
        """
        self._electrodes = electrodes
        self._rate = sample_rate_hz
        self._new_id = new_id
        self._silence = round(SILENCE_S * sample_rate_hz)
        self._leases: dict[str, Lease] = {}
        self._fence = session * FENCES_OF_A_SESSION

    def __len__(self) -> int:
        return len(self._leases)

    def acquire(
        self, requester: str, electrodes: Iterable[int], ttl_s: float, now_frame: int, *, held: bool = False
    ) -> Lease:
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
                whose = "another lease of yours" if lease.requester == requester else "another agent's lease"
                raise LeaseRefused(f"electrode {taken[0]} is held under {whose}; wait or choose another")
        self._fence += 1
        ttl_frames = round(ttl_s * self._rate)
        until_frame = now_frame + ttl_frames
        lease = Lease(self._new_id(), requester, wanted, ttl_frames, until_frame, self._fence, held, now_frame)
        self._leases[lease.id] = lease
        return lease

    def renew(self, lease_id: str, requester: str, now_frame: int) -> Lease:
        """Renew a living lease: its time begins again. Raises :class:`LeaseRefused` when it has ended or is another's."""
        old = self._mine(lease_id, requester)
        lease = replace(old, until_frame=now_frame + old.ttl_frames, alive_frame=now_frame)
        self._leases[lease_id] = lease
        return lease

    def release(self, lease_id: str, requester: str) -> Lease:
        """End a lease now. Raises :class:`LeaseRefused` when it has ended or is another's."""
        lease = self._mine(lease_id, requester)
        del self._leases[lease_id]
        return lease

    def find(self, lease_id: str, requester: str) -> Lease | None:
        """Return the requester's living lease of that name."""
        lease = self._leases.get(lease_id)
        return lease if lease is not None and lease.requester == requester else None

    def note_alive(self, lease: Lease, now_frame: int) -> None:
        """Note a sign of life of the holder, which does not lengthen the lease."""
        self._leases[lease.id] = replace(lease, alive_frame=now_frame)

    def silent(self, lease_id: str, now_frame: int) -> bool:
        """Return whether no pulse may be delivered under this lease now: it has ended, or its heartbeats have stopped."""
        lease = self._leases.get(lease_id)
        return lease is None or (lease.held and now_frame - lease.alive_frame > self._silence)

    def count(self, requester: str) -> int:
        """Return the number of living leases of a requester."""
        return len(self.living(requester))

    def living(self, requester: str | None) -> list[Lease]:
        """Return the living leases of a requester, or of all; from any thread."""
        return [lease for lease in tuple(self._leases.values()) if requester in (None, lease.requester)]

    def expire(self, now_frame: int) -> list[Lease]:
        """End and return the leases whose time is over."""
        return self._end([lease for lease in self._leases.values() if lease.until_frame <= now_frame])

    def revoke(self, requester: str) -> list[Lease]:
        """End and return every lease of a requester."""
        return self._end([lease for lease in self._leases.values() if lease.requester == requester])

    def drop_all(self) -> list[Lease]:
        """End and return every lease (after a gap, how long the array was silent is not known)."""
        return self._end(list(self._leases.values()))

    def _end(self, ended: list[Lease]) -> list[Lease]:
        for lease in ended:
            del self._leases[lease.id]
        return ended

    def _mine(self, lease_id: str, requester: str) -> Lease:
        lease = self.find(lease_id, requester)
        if lease is None:
            raise LeaseRefused(f"“{lease_id}” is no living lease of {requester}; acquire a new one")
        return lease
