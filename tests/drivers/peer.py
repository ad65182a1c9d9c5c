"""A driver on a link to the conformance kit's scripted far end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from drivers.conformance.peer import Peer
from drivers.device import Device, DeviceConfig
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl

D = TypeVar("D", bound=Device)


@asynccontextmanager
async def linked(
    driver: type[D],
    peer: Peer,
    config: DeviceConfig,
    *,
    verified: bool = True,
) -> AsyncIterator[D]:
    """A driver on a started link to `peer`; `peer.sent` begins after verification."""
    link = Link(LinkUrl.parse("sim:peer"), peer.open, line=driver.line)
    device = driver(link, config)
    failures = await link.start()
    try:
        if verified:
            assert not failures, failures
            peer.sent.clear()
        yield device
    finally:
        await link.close()


def settings(**values: float | str | bool) -> dict[str, float | str | bool]:
    """Settings for a DeviceConfig."""
    return dict(values)
