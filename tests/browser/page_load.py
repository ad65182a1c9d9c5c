"""Measure the first load of a page, its reload, and its live updates: `python -m tests.browser.page_load URL`.

The page must let this machine in without a sign-in, as that of `choroid demo` does. Bytes are those of the wire as Chromium
counts them: heads and compressed bodies. Live messages are counted as text and, by a second client, as what its socket
receives.
"""

from __future__ import annotations

import argparse
import json
import socket
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, CDPSession, Page
from websockets.sync.client import connect

from tests.browser.pages import Visit, chromium


@dataclass
class Wire:
    """What a page requested, and the bytes of the answers."""

    addresses: list[str] = field(default_factory=list)
    types: Counter[str] = field(default_factory=Counter)
    bytes: int = 0

    def follow(self, page: Page) -> CDPSession:
        """Count from now on."""
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.requestWillBeSent", self._requested)
        session.on("Network.webSocketCreated", self._opened)
        session.on("Network.loadingFinished", self._loaded)
        return session

    def _requested(self, event: dict[str, Any]) -> None:
        self.addresses.append(event["request"]["url"])
        self.types[event["type"]] += 1

    def _opened(self, event: dict[str, Any]) -> None:
        self.addresses.append(event["url"])
        self.types["WebSocket"] += 1

    def _loaded(self, event: dict[str, Any]) -> None:
        self.bytes += int(event["encodedDataLength"])


def loads(browser: Browser, url: str) -> tuple[Wire, Wire]:
    """Return what the first load of a page costs until its cards are filled, and what its reload costs."""
    first, again = Wire(), Wire()
    sessions: list[CDPSession] = []
    visit = Visit(browser, url, prepare=lambda page: sessions.append(first.follow(page)))
    try:
        visit.live().wait_for_load_state("networkidle")
        sessions[0].detach()
        again.follow(visit.page)
        visit.page.reload()
        visit.live().wait_for_load_state("networkidle")
    finally:
        visit.leave()
    return first, again


class _Counting(socket.socket):
    received = 0

    def recv(self, *words: Any) -> bytes:
        data = super().recv(*words)
        self.received += len(data)
        return data


def live(url: str, cookie: str, form: str, seconds: float) -> tuple[int, int, dict[str, int]]:
    """Return the bytes a minute of the live feed: on the wire, as text, and of the text by part of the state."""
    place = urlsplit(url)
    counting = _Counting()
    counting.connect((place.hostname, place.port))
    address = f"ws://{place.netloc}/ws{f'?form={form}' if form else ''}"
    parts: Counter[str] = Counter()
    text = 0
    with connect(address, sock=counting, additional_headers={"Cookie": cookie}, max_size=None) as feed:
        feed.recv()
        begin_s, before = time.monotonic(), counting.received
        while time.monotonic() - begin_s < seconds:
            message = str(feed.recv())
            text += len(message.encode())
            for name, value in json.loads(message).items():
                parts[name] += len(json.dumps(value))
        share = 60.0 / (time.monotonic() - begin_s)
        wire = counting.received - before
    return int(wire * share), int(text * share), {name: int(size * share) for name, size in parts.most_common(6)}


def main() -> None:
    """Print the figures of the page at the address of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--forms", nargs="*", default=["", "patch"])
    chosen = parser.parse_args()
    with chromium() as browser:
        for name, wire in zip(("first load", "reload"), loads(browser, chosen.url), strict=True):
            print(f"{name}: {len(wire.addresses)} requests, {wire.bytes / 1000:.1f} kB {dict(wire.types)}")
        visit = Visit(browser, chosen.url)
        cookie = "; ".join(f"{each['name']}={each['value']}" for each in visit.cookies())
        visit.leave()
    for form in chosen.forms:
        on_wire, text, parts = live(chosen.url, cookie, form, chosen.seconds)
        print(
            f"live, form {form or 'by parts'}: {on_wire / 1000:.0f} kB/min on the wire, {text / 1000:.0f} as text {parts}"
        )


if __name__ == "__main__":
    main()
