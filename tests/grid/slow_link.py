"""A slow link between two network namespaces: `python -m tests.grid.slow_link LEFT IP RIGHT IP DELAY_MS`, until killed.

`tc netem` is not in every kernel; this process reads packets from a TUN device of one namespace and writes them, later, to
that of the other. Calibrate it before asserting anything.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque

TUNSETIFF = 0x400454CA
IFF_TUN_NO_PI = 0x1001
CLONE_NEWNET = 0x40000000
MTU = 9000
MAX_WAITING = 4000
"""Packets under way in one direction; more are dropped, as by a router."""


def device(namespace: str, address: str, peer: str) -> int:
    """Return a TUN device in a namespace."""
    with open(f"/run/netns/{namespace}") as file:
        assert ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) == 0, os.strerror(
            ctypes.get_errno()
        )
    found = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(found, TUNSETIFF, struct.pack("16sH22x", b"slow", IFF_TUN_NO_PI))
    for words in (
        ("addr", "add", address, "peer", peer, "dev", "slow"),
        ("link", "set", "slow", "mtu", str(MTU), "up"),
    ):
        subprocess.run(["ip", *words], check=True)
    subprocess.run(["ip", "link", "set", "slow", "txqueuelen", "4000"], check=True)
    return found


def main(left: str, left_ip: str, right: str, right_ip: str, delay_s: float) -> None:
    ends = device(left, left_ip, right_ip), device(right, right_ip, left_ip)
    waiting: dict[int, deque[tuple[float, bytes]]] = {end: deque() for end in ends}
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    print("ready", flush=True)
    while True:
        due = [queue[0][0] for queue in waiting.values() if queue]
        readable, _, _ = select.select(ends, [], [], max(min(due) - time.monotonic(), 0.0) if due else None)
        for end in readable:
            queue = waiting[other[end]]
            for _ in range(64):
                try:
                    packet = os.read(end, MTU + 100)
                except BlockingIOError:
                    break
                if len(queue) < MAX_WAITING:
                    queue.append((time.monotonic() + delay_s, packet))
        for end, queue in waiting.items():
            while queue and queue[0][0] <= time.monotonic():
                os.write(end, queue.popleft()[1])


if __name__ == "__main__":
    one, one_ip, two, two_ip, delay_ms = sys.argv[1:]
    main(one, one_ip, two, two_ip, float(delay_ms) / 1000)
