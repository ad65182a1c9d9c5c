"""A controller claims its rig before it does anything: every link, and the rig itself (A12)."""

from __future__ import annotations

import contextlib
from pathlib import Path

from controller.rig.description import Rig
from drivers.errors import DeviceError
from drivers.transport import claims
from drivers.transport.claims import Claim, ClaimHeld
from drivers.transport.opener import by_path
from drivers.transport.url import LinkUrl

GUARD = "guard"
"""Name of a guard in its claims."""
GUARD_LETS_GO_S = 15.0
"""Maximum time that a controller waits for the guard of its own data folder to release the links (s)."""


async def claim_rig(rig: Rig, data: Path, *, wait_s: float = 0.0) -> tuple[Claim, ...]:
    """Claim every link of `rig`, and the rig, for the controller with the data folder `data`.

    The guard of the same folder may still hold the links: it releases them when it sees the controller, so its
    claims are no reason to refuse; nothing is claimed then.

    Raises:
        ClaimHeld: Another program holds a claim.
    """
    claims.introduce(f"controller of rig {rig.name}", data)
    links = {spec.link for spec in rig.devices.values()}
    keys = [claims.rig_key(rig.name, links)]
    for link in sorted(links):
        # A host or adapter that cannot be found now is claimed when the link is opened.
        with contextlib.suppress(OSError, DeviceError):
            keys += await claims.link_keys(await by_path(LinkUrl.parse(link)))
    try:
        return await claims.take_all(keys, wait_s)
    except ClaimHeld as held:
        if _own_guard(held, data):
            return ()
        raise


def _own_guard(held: ClaimHeld, data: Path) -> bool:
    return held.holder.program.startswith(GUARD) and held.holder.data == str(data.absolute())
