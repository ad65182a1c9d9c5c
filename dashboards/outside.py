"""How the page is reached from outside this machine: names, TLS, and trusted proxies."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

_HOST_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Outside:
    """Names by which browsers open the page, certificate and key for TLS, and addresses of the proxies before it."""

    names: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    proxies: tuple[str, ...] = ()
    plain: bool = False
    """Whether plain HTTP is allowed beyond this machine."""

    def link_base(self, host: str, port: int) -> str:
        """Return the address of the page for browsers, without a slash at its end."""
        name = self.names[0] if self.names else host
        shown = f"[{name}]" if ":" in name else name
        if self.proxies and self.names:
            return f"https://{shown}"
        return f"{'http' if self.certificate is None else 'https'}://{shown}:{port}"

    def admits(self, peer: str) -> bool:
        """Return whether connections from `peer` are accepted: without TLS, those of this machine and of the proxies only."""
        if not self.proxies or self.certificate is not None or self.plain or is_loopback(peer):
            return True
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        return any(address in ipaddress.ip_network(proxy) for proxy in self.trusted)

    @property
    def hosts(self) -> frozenset[str]:
        """Return the names as browsers send them."""
        return frozenset(name.lower() for name in self.names)

    @property
    def trusted(self) -> tuple[str, ...]:
        """Return the addresses of the proxies, also as a socket for IPv4 and IPv6 sees them."""
        networks = [ipaddress.ip_network(proxy) for proxy in self.proxies]
        mapped = [f"::ffff:{each.network_address}/{96 + each.prefixlen}" for each in networks if each.version == 4]
        return (*self.proxies, *mapped)

    def objection(self, host: str) -> str:
        """Return why the page may not be opened at `host`; an empty text if nothing speaks against it."""
        if (self.certificate is None) != (self.key is None):
            return "TLS takes a certificate and its key. Next: write both, --certificate FILE --key FILE"
        for name in self.names:
            if not _is_address(name) and _HOST_NAME.fullmatch(name) is None:
                return (
                    f"“{name}” is no host name. Next: write it without scheme, port and path, such as rig.example.org"
                )
        for proxy in self.proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError:
                return (
                    f"“{proxy}” is no address of a proxy. Next: write its IP address, or a network such as 10.0.0.0/28"
                )
        if is_loopback(host) or self.certificate is not None or self.proxies or self.plain:
            return ""
        return (
            f"a page at {host} is open to the network, and tokens would cross it in plain text. Next: name TLS files"
            " (--certificate FILE --key FILE), or an HTTPS proxy before the page (--trusted-proxy ADDRESS), or accept that"
            " everyone on that network can read them (--plain-http); docs/security.md tells how"
        )


INSIDE = Outside()
"""A page for this machine alone."""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
