"""Link urls and line settings, as the rig file writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, urlsplit

Parity = Literal["N", "E", "O"]
Scheme = Literal["serial", "tcp", "sim"]

_EXAMPLES = "serial:///dev/ttyUSB0?baud=9600, serial:usb-serial=FT4XYZ, tcp://192.0.2.7:4001 or sim:reglo"
_USB = re.compile(r"usb-serial=([A-Za-z0-9._-]{1,64})(?::([1-9]))?")
_OPTIONS = frozenset({"baud", "bits", "parity", "stop", "echo"})


class LinkUrlError(ValueError):
    """The text of a link is invalid; the message says what to write."""


@dataclass(frozen=True, slots=True)
class LineSettings:
    """Holds the settings of a serial line; a TCP link to a serial server uses only the last two."""

    baud: int = 9600
    bits: int = 8
    parity: Parity = "N"
    stop: int = 1
    gap_s: float = 0.025
    """Silence between the last received byte and the next request to the same device (s): long enough for a reply
    that was sent twice to arrive completely and be discarded.
    """
    echo: bool = False
    """Whether the converter echoes sent bytes (many USB-RS485 dongles, Keller K converters)."""

    @property
    def turn_s(self) -> float:
        """Silence between two devices on a bus (s): 3.5 characters of 11 bits, at least 1.75 ms (Modbus over serial
        line V1.02, §2.5.1.1).
        """
        return max(3.5 * 11 / self.baud, 0.00175)

    @property
    def text(self) -> str:
        """Short notation, such as "9600 8N1"."""
        return f"{self.baud} {self.bits}{self.parity}{self.stop}"


@dataclass(frozen=True, slots=True)
class LinkUrl:
    """Holds a parsed link: `scheme` and `target`.

    The target is a device path, "usb-serial=" and a serial number, "host:port", or a name in the simulated lab.
    """

    scheme: Scheme
    target: str
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def parse(cls, text: str) -> LinkUrl:
        """Parse the text of a link.

        Args:
            text: `serial:///dev/x?baud=9600&parity=N`, `serial:usb-serial=FT4XYZ`, `tcp://host:port` or `sim:name`.

        Returns:
            The link.

        Raises:
            LinkUrlError: The text is anything else.
        """
        try:
            parts = urlsplit(text)
            options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
            port = parts.port if parts.scheme == "tcp" else None
        except ValueError as error:
            raise LinkUrlError(f"link “{text}” is invalid ({error}); write for example {_EXAMPLES}") from None
        if unknown := sorted(set(options) - _OPTIONS):
            raise LinkUrlError(f"link “{text}”: unknown option {unknown[0]}; known are {', '.join(sorted(_OPTIONS))}")
        scheme = _scheme(parts.scheme)
        target = _tcp_target(parts.hostname, port) if scheme == "tcp" else _path_target(scheme, parts)
        if scheme is None or target is None:
            raise LinkUrlError(f"link “{text}” is of no known kind; write for example {_EXAMPLES}")
        return cls(scheme, target, MappingProxyType(options))

    @property
    def usb(self) -> tuple[str, int] | None:
        """Serial number of the USB adapter and which of its ports (from 1), if the link names it that way."""
        match = _USB.fullmatch(self.target) if self.scheme == "serial" else None
        return None if match is None else (match[1], int(match[2] or 1))

    @property
    def host(self) -> str:
        """The host of a `tcp` link, without brackets."""
        return self.target.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port of a `tcp` link."""
        return int(self.target.rpartition(":")[2])

    def line(self, default: LineSettings) -> LineSettings:
        """Return the line settings of the link: those of the device, with the options of the link's text.

        Args:
            default: Factory settings of the device.

        Returns:
            The settings.

        Raises:
            LinkUrlError: An option is not possible.
        """
        options = self.options
        try:
            return replace(
                default,
                baud=_among(options, "baud", default.baud, range(50, 4_000_001)),
                bits=_among(options, "bits", default.bits, (7, 8)),
                parity=_parity(options.get("parity", default.parity)),
                stop=_among(options, "stop", default.stop, (1, 2)),
                echo=bool(_among(options, "echo", int(default.echo), (0, 1))),
            )
        except ValueError as error:
            raise LinkUrlError(f"link “{self}”: {error}") from None

    def __str__(self) -> str:
        query = "&".join(f"{key}={value}" for key, value in self.options.items())
        separator = ":" if self.scheme == "sim" or self.usb else "://"
        return f"{self.scheme}{separator}{self.target}{'?' if query else ''}{query}"


def _scheme(text: str) -> Scheme | None:
    match text:
        case "serial" | "tcp" | "sim":
            return text
    return None


def _tcp_target(host: str | None, port: int | None) -> str | None:
    """Return "host:port", an IPv6 address in brackets; None if either is missing."""
    if not host or not port:
        return None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _path_target(scheme: Scheme | None, parts: SplitResult) -> str | None:
    """Return the path of a serial port, USB adapter or simulated device; None if the link names none."""
    return parts.path if scheme and not parts.netloc and _is_path(scheme, parts.path) else None


def _is_path(scheme: Scheme, path: str) -> bool:
    """Return whether `path` names a serial port or adapter, or a simulated device."""
    if scheme == "serial" and path.startswith("usb-serial"):
        return _USB.fullmatch(path) is not None
    return bool(path)


def _among(options: Mapping[str, str], key: str, default: int, allowed: range | tuple[int, ...]) -> int:
    text = options.get(key)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) not in allowed:
        choice = f"{allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else " or ".join(map(str, allowed))
        raise ValueError(f"{key}={text} is not possible; choose {choice}")
    return int(text)


def _parity(text: str) -> Parity:
    match text.upper():
        case "N":
            return "N"
        case "E":
            return "E"
        case "O":
            return "O"
    raise ValueError(f"parity={text} is not possible; choose N, E or O")
