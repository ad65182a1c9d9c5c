"""Keys of the other ends of tunnels. The first key that is seen for an identity is kept; the identity is the key's hash."""

from __future__ import annotations

from pathlib import Path

from controller.signed_log.public import fingerprint
from grid.errors import GridRefused

ALLOWED_FILE = "peers.txt"


class KnownPeers:
    """The identities that a member or laboratory talks to through tunnels.

    With a file `peers.txt` in the data folder (one identity a line), only those. Without it any whose key has the identity
    that the hub names: then the hub decides who the other end is.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ALLOWED_FILE

    def require(self, identity: str, key: bytes) -> None:
        """Check the other end of a tunnel before it is opened. Raises :class:`GridRefused`."""
        if fingerprint(key) != identity:
            raise GridRefused(f"the hub has given a key that is not of {identity[:16]}…. Next: ask its operator")
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return
        if identity not in {line.partition("#")[0].strip() for line in lines}:
            raise GridRefused(f"{self._path} does not list {identity}. Next: add it if its operator confirms it to you")
