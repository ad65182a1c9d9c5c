"""The whole of Choroid in a browser: `choroid demo`, its plant, its devices on the wire, its controller and its page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.pages import RESULTS, Server, free_port, visiting

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")


@pytest.fixture(scope="module")
def demo() -> Iterator[Server]:
    port = free_port()
    server = Server(("choroid", "demo", "--port", str(port), "--for", "170s"), port)
    try:
        yield server
    finally:
        server.end()


@pytest.mark.long
def test_medium_is_recycled_before_ones_eyes(browser: Browser, demo: Server) -> None:
    with visiting(browser, demo.url, size=(1920, 1080)) as visit:
        page = visit.live()
        run_state = page.get_by_test_id("run-state")
        # The demo begins with a run of its own; a person ends it and starts another.
        expect(run_state).to_have_text("running")
        page.get_by_test_id("abort-run").click()
        page.get_by_test_id("dialog-confirm").click()
        expect(run_state).to_have_text("aborted")
        page.get_by_test_id("protocol-select").select_option("recycle")
        page.get_by_test_id("param-batch").fill("12 mL")
        page.get_by_test_id("param-min_batch").fill("12 mL")
        page.locator("#start-reason").fill("browser test")
        page.get_by_test_id("start-run").click()
        expect(run_state).to_have_text("running")
        expect(page.locator('[data-line="draw"]')).to_have_class("line flowing")
        page.get_by_test_id("pause-run").click()
        expect(run_state).to_have_text("held")
        expect(page.locator('[data-line="draw"]')).to_have_class("line")
        page.get_by_test_id("resume-run").click()
        expect(run_state).to_have_text("running")
        expect(page.get_by_test_id("grade-letter")).to_have_text("A")
        expect(page.locator("#nerves-active")).to_contain_text("of 32 electrodes active")
        expect(page.locator('[data-line="return"]')).to_have_class("line flowing")
        RESULTS.mkdir(exist_ok=True)
        page.screenshot(path=RESULTS / "demo.png")
        expect(page.get_by_test_id("journal")).to_contain_text("browser test")
        expect(page.locator("#ledger-body .balance")).not_to_have_class("balance broken")
        assert visit.complaints == []
