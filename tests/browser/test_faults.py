"""Faults made by hand on the demo's page, and what the controller says to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.pages import RESULTS, Server, free_port, visiting

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")


@pytest.fixture(scope="module")
def demo() -> Iterator[Server]:
    port = free_port()
    server = Server(("choroid", "demo", "--port", str(port), "--for", "90s"), port)
    try:
        yield server
    finally:
        server.end()


def test_a_cable_is_pulled_and_plugged_in_again(browser: Browser, demo: Server) -> None:
    with visiting(browser, demo.url, size=(1920, 1080)) as visit:
        page = visit.live()
        banner = page.get_by_test_id("fault-banner")
        expect(banner).to_be_hidden()
        page.locator("#faults summary").click()
        page.get_by_test_id("fault-kind").select_option("unplug")
        expect(page.locator("#fault-meaning")).to_contain_text("cable is pulled")
        page.get_by_test_id("fault-target").select_option("sim:balance")
        page.get_by_test_id("fault-for").select_option("0")
        page.get_by_test_id("make-fault").click()
        expect(page.get_by_test_id("fault")).to_contain_text("sim:balance")
        expect(banner).to_contain_text("Unplug: sim:balance", ignore_case=True)
        expect(page.locator('[data-alarm="device_lost:balance"]')).to_be_visible()
        RESULTS.mkdir(exist_ok=True)
        page.screenshot(path=RESULTS / "faults.png")
        page.get_by_test_id("clear-fault").click()
        expect(page.get_by_test_id("fault")).to_have_count(0)
        expect(banner).to_be_hidden()
        expect(page.get_by_test_id("journal")).to_contain_text(
            "Unplug (sim:balance) injected by demo", ignore_case=True
        )
        assert visit.complaints == []
