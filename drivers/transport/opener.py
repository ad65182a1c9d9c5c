"""Open a real line: a serial port through serialx, a serial server through TCP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import serialx

from drivers.errors import LinkDown
from drivers.transport import claims
from drivers.transport.url import LineSettings, LinkUrl
from drivers.transport.usb import device_of

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Opener: TypeAlias = Callable[[LinkUrl, LineSettings], Awaitable[Streams]]
"""Opens a link: takes its url and line settings, returns byte streams; raises OSError or LinkDown."""


async def open_real(url: LinkUrl, line: LineSettings) -> Streams:
    """Claim a serial port or TCP connection on this host (:mod:`drivers.transport.claims`) and open it.

    Args:
        url: The link.
        line: Line settings of a serial port; a TCP connection does not use them.

    Returns:
        Reader and writer. The claim lasts as long as the writer.

    Raises:
        OSError: The system refuses.
        LinkDown: Another program holds the link, no USB adapter has the link's serial number, or it is a `sim:`
            link: a real link never falls back to the simulated lab (C5).
    """
    url = await by_path(url)
    taken = await claims.take_all(await claims.link_keys(url))
    try:
        streams = await open_unclaimed(url, line)
    except BaseException:
        del taken  # the traceback of a kept error would keep the claim
        raise
    claims.keep_with(streams[1], taken)
    return streams


async def open_unclaimed(url: LinkUrl, line: LineSettings) -> Streams:
    """Open a link without a claim: in parallel to a controller, on explicit request only.

    Args:
        url: The link.
        line: Line settings of a serial port; a TCP connection does not use them.

    Returns:
        Reader and writer.

    Raises:
        OSError: The system refuses.
        LinkDown: No USB adapter has the link's serial number, or it is a `sim:` link.
    """
    url = await by_path(url)
    match url.scheme:
        case "serial":
            streams: Streams = await serialx.open_serial_connection(url=url.target, **serial_arguments(line))
            return streams
        case "tcp":
            reader, writer = await asyncio.open_connection(url.host, url.port)
            _notice_dead_peers(writer.get_extra_info("socket"))
            return reader, writer
        case "sim":
            raise LinkDown(
                "this link leads into the lab in software, but a real line was asked for",
                where=f"link {url}",
                cause="the rig file describes a simulated rig",
                action="start it as a simulated rig, or write the link of the real device",
            )


async def by_path(url: LinkUrl) -> LinkUrl:
    """Find the port of a link that names its USB adapter.

    Args:
        url: Any link.

    Returns:
        The link with the current path of its port; one that names no adapter is returned as it is.

    Raises:
        LinkDown: No such adapter or port, or several adapters with this number.
    """
    if url.usb is None:
        return url
    path = await asyncio.to_thread(device_of, *url.usb, f"link {url}")  # querying the system takes milliseconds
    return replace(url, target=path)


def serial_arguments(line: LineSettings) -> dict[str, object]:
    """Return the arguments of serialx for line settings.

    Args:
        line: The settings.

    Returns:
        Values by serialx's names: baudrate, byte_size, parity, stopbits, exclusive.
    """
    return {
        "baudrate": line.baud,
        "byte_size": line.bits,
        "parity": serialx.Parity(line.parity),
        "stopbits": serialx.StopBits(line.stop),
        "exclusive": True,
    }


def _notice_dead_peers(sock: socket.socket | None) -> None:
    """Make a half-open connection fail within about ten seconds."""
    if sock is None:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 4),
        ("TCP_KEEPINTVL", 2),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 10_000),
    ):
        if hasattr(socket, option):  # not every system has all of them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
