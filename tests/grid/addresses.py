"""Loopback addresses that no other test on this machine has, not even one of another process."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

SECOND = range(100, 250)
CLAIM = "255.254"
"""Second half of an address whose port is held as long as a test has the first half; no rank has it."""
CLAIM_PORT = 7709


@contextlib.contextmanager
def loopback_bases(count: int) -> Iterator[list[str]]:
    """Claim first halves of addresses (127.x) for as many members, until the block ends.

    Raises:
        OSError: All are taken.
    """
    found: list[str] = []
    with contextlib.ExitStack() as held:
        for second in SECOND:
            if len(found) == count:
                break
            claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                claim.bind((f"127.{second}.{CLAIM}", CLAIM_PORT))
            except OSError:
                claim.close()
                continue
            held.enter_context(claim)
            found.append(f"127.{second}")
        if len(found) < count:
            raise OSError(f"{count} first halves of loopback addresses were asked for, {len(found)} are free")
        yield found
