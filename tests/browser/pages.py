"""Chromium and servers for the browser tests."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "test-results"
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or "/usr/bin/chromium"
"""The shell draws no window of its own around the page: that takes half of the processor time of a visit."""
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
WAIT_MS = 120_000
"""Longest wait for what a page shows (ms of real time): a busy machine draws slowly."""
expect.set_options(timeout=WAIT_MS)
START_S = 120.0
"""On a fresh checkout the plant is compiled first, and other tests may do so at the same time."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A page served by a process of its own."""

    def __init__(self, words: tuple[str, ...], port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}/"
        self._process = subprocess.Popen(
            [sys.executable, "-m", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended: {self._process.communicate()[1][-3000:]}")
            try:
                with urllib.request.urlopen(f"{self.url}health", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        self._process.kill()
        raise RuntimeError(f"the server did not answer in time: {self._process.communicate()[1][-3000:]}")

    def first_line(self) -> str:
        """The first line it printed."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        """Stop it; returns when it is gone."""
        self._process.terminate()
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


@contextmanager
def serving(*words: str, port: int | None = None) -> Iterator[Server]:
    """The page over the small controller."""
    port = port or free_port()
    server = Server(("tests.dashboards.serve_fake", str(port), *words), port)
    try:
        yield server
    finally:
        server.end()


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """One person's look at a page; remembers what the browser complained about and what it asked for."""

    def __init__(
        self,
        browser: Browser,
        url: str,
        *,
        size: tuple[int, int] = (1440, 900),
        scheme: str = "dark",
        touch: bool = False,
        prepare: Callable[[Page], None] | None = None,
    ) -> None:
        width, height = size
        self._context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="light" if scheme == "light" else "dark",
            reduced_motion="no-preference",
            has_touch=touch,
        )
        self.page: Page = self._context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        if prepare is not None:
            prepare(self.page)
        self.page.goto(url)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def live(self) -> Page:
        """The page once the feed is there."""
        self.page.locator('#link[data-status="live"]').wait_for()
        self.page.locator("#viability-body > :not(.empty)").first.wait_for()
        return self.page

    def cookies(self) -> list[dict[str, object]]:
        """The browser's cookies."""
        return [dict(cookie) for cookie in self._context.cookies()]

    def leave(self) -> None:
        """Close it."""
        self._context.close()


@contextmanager
def visiting(
    browser: Browser, url: str, *, size: tuple[int, int] = (1440, 900), scheme: str = "dark", touch: bool = False
) -> Iterator[Visit]:
    """A visit that ends with the block; with `touch`, at a screen that is touched."""
    visit = Visit(browser, url, size=size, scheme=scheme, touch=touch)
    try:
        yield visit
    finally:
        visit.leave()
