"""Network namespaces that are joined by links, with routers that translate addresses to random ports and let nothing in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.nerves.test_gateway import ROOT

EVERYWHERE = "0.0.0.0"  # noqa: S104  # of the namespace
NAT = """
table ip nat {
  chain post { type nat hook postrouting priority 100; oifname "%s" masquerade random; }
}
table ip filter {
  chain in { type filter hook input priority 0; iifname "%s" ct state new drop; }
  chain pass { type filter hook forward priority 0; iifname "%s" ct state new drop; }
}
"""
NAMES = Path("/etc/netns")
"""`ip netns exec` puts the files of a folder here over those of /etc: without a resolver of its own a look-up would hang."""


@dataclass(frozen=True)
class Topology:
    """Links (name, address, name, address), gateways, and the outer address of each router; `forwards` only forward."""

    links: Sequence[tuple[str, str, str, str]]
    gateways: Mapping[str, str]
    outer: Mapping[str, str]
    forwards: Sequence[str] = field(default=())

    @property
    def names(self) -> list[str]:
        return sorted({name for link in self.links for name in (link[0], link[2])})


def run(*words: str, text: str = "") -> None:
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"


def device(address: str) -> str:
    return "v" + address.replace(".", "x")


class Net:
    """The namespaces of one test."""

    def __init__(self, topology: Topology) -> None:
        self._mark = f"cg{os.getpid()}"
        self.topology = topology

    def open(self) -> None:
        for name in self.topology.names:
            run("ip", "netns", "add", self.of(name))
            run("ip", "-n", self.of(name), "link", "set", "lo", "up")
            (NAMES / self.of(name)).mkdir(parents=True)
            (NAMES / self.of(name) / "hosts").write_text(f"127.0.0.1 localhost {os.uname().nodename}\n")
            (NAMES / self.of(name) / "resolv.conf").write_text("options timeout:1 attempts:1\n")
        for number, (left, left_ip, right, right_ip) in enumerate(self.topology.links):
            run("ip", "link", "add", f"{self._mark}a{number}", "type", "veth", "peer", "name", f"{self._mark}b{number}")
            for end, name, address in (("a", left, left_ip), ("b", right, right_ip)):
                run("ip", "link", "set", f"{self._mark}{end}{number}", "netns", self.of(name))
                run("ip", "-n", self.of(name), "link", "set", f"{self._mark}{end}{number}", "name", device(address))
                run("ip", "-n", self.of(name), "addr", "add", f"{address}/24", "dev", device(address))
                run("ip", "-n", self.of(name), "link", "set", device(address), "up")
        for name, gateway in self.topology.gateways.items():
            run("ip", "-n", self.of(name), "route", "add", "default", "via", gateway)
        for name in (*self.topology.outer, *self.topology.forwards):
            run("ip", "netns", "exec", self.of(name), "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for name, outer in self.topology.outer.items():
            rules = NAT % (device(outer), device(outer), device(outer))
            run("ip", "netns", "exec", self.of(name), "nft", "-f", "-", text=rules)

    def of(self, name: str) -> str:
        return f"{self._mark}{name}"

    def inside(self, name: str) -> tuple[str, ...]:
        return "ip", "netns", "exec", self.of(name)

    def start(self, name: str, *words: str, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen((*self.inside(name), sys.executable, "-m", *words), cwd=ROOT, text=True, **more)

    def close(self) -> None:
        for name in self.topology.names:
            subprocess.run(["ip", "netns", "del", self.of(name)], capture_output=True)
            shutil.rmtree(NAMES / self.of(name), ignore_errors=True)


def require_namespaces() -> None:
    """Skip the test where namespaces cannot be made."""
    if os.geteuid() != 0 and os.environ.get("CI") != "true":
        pytest.skip("network namespaces need root (CAP_NET_ADMIN)")
    assert shutil.which("nft", path=f"{os.environ['PATH']}:/usr/sbin"), "apt-get install nftables iproute2"
