"""Count packets of this namespace that contain a text: `python -m tests.grid.sniffer TEXT`, until standard input ends.

Prints one JSON object: for each device its packets, bytes, and how many packets contain the text.
"""

from __future__ import annotations

import json
import select
import socket
import sys
from collections import Counter

ALL = 0x0003
"""Ethernet protocol number of "all"."""


def main(text: bytes) -> None:
    packets, size, hits = Counter[str](), Counter[str](), Counter[str]()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL)) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
        print("ready", flush=True)
        while True:
            for source in select.select([link, sys.stdin], [], [])[0]:
                if source is not link:
                    print(json.dumps({name: [packets[name], size[name], hits[name]] for name in packets}), flush=True)
                    return
                packet, (name, *_) = link.recvfrom(1 << 17)
                packets[name] += 1
                size[name] += len(packet)
                hits[name] += text in packet


if __name__ == "__main__":
    main(sys.argv[1].encode())
