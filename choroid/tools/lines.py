"""Ports and links of the tools: a device path or a link's text; `sim:` is the simulated lab."""

from __future__ import annotations

from pathlib import Path

from choroid.common.failure import UserError
from drivers.transport.url import LinkUrl


def link_of(text: str) -> LinkUrl:
    """Return the link for `text`: `/dev/ttyUSB0`, or a link as in a rig file; raise :class:`UserError` for anything
    else.
    """
    try:
        return LinkUrl.parse(f"serial://{text}" if text.startswith("/") else text)
    except ValueError as error:
        raise UserError(
            f"{error} Next: name a port such as /dev/ttyUSB0, or a link such as tcp://192.0.2.7:4001"
        ) from None


def must_exist(url: LinkUrl) -> None:
    """Raise :class:`UserError` for a missing serial port; the message lists the existing ones."""
    if url.scheme == "serial" and url.usb is None and not Path(url.target).exists():
        ports = [str(path) for pattern in ("ttyUSB*", "ttyACM*", "ttyS[0-3]") for path in Path("/dev").glob(pattern)]
        raise UserError(
            f"there is no port {url.target}. Likely cause: the adapter is unplugged, or has another number now."
            f" Next: choose one of {', '.join(sorted(ports)) or 'none: no serial port was found'}"
        )
