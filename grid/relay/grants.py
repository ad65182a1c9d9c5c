"""Grants: which identities may reach each other through tunnels, and for how long. A lease that runs is one."""

from __future__ import annotations

from dataclasses import dataclass

from grid.errors import GridRefused


@dataclass(frozen=True, slots=True)
class TunnelGrant:
    """The right of some identities to open tunnels to each other.

    Attributes:
        id: Name of the lease that grants it.
        parties: Their identities.
    """

    id: str
    parties: tuple[str, ...]

    def peer(self, caller: str, wanted: str) -> str:
        """Return the other end of a tunnel.

        Args:
            caller: Identity that opens it.
            wanted: Identity that it names; empty where there is only one other.

        Raises:
            GridRefused: One of them has no part in this grant, or none is named among several.
        """
        others = [each for each in self.parties if each != caller]
        if caller not in self.parties:
            raise GridRefused(f"{self.id} is no running lease of yours. Next: ask for a lease first")
        if not wanted and len(others) == 1:
            return others[0]
        if wanted not in others:
            raise GridRefused(f"{wanted[:16] or 'an unnamed peer'} has no part in the lease {self.id}")
        return wanted
