"""The hub's page in Chromium: on a desk and on a telephone, with text of members that tries to be markup."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.pages import RESULTS, Server, free_port, visiting
from tests.grid.filled_hub import HOSTILE, fill

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hub-page") / "hub"
    fill(folder)
    port = free_port()
    server = Server(("choroid", "grid", "page", "serve", "--data", str(folder), "--port", str(port)), port)
    try:
        yield server
    finally:
        server.end()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "dark"), (390, "light")])
def test_everything_is_on_the_page(browser: Browser, hub: Server, width: int, scheme: str) -> None:
    RESULTS.mkdir(exist_ok=True)
    with visiting(browser, hub.url, size=(width, 900), scheme=scheme) as visit:
        page = visit.page
        page.locator("#log pre").first.wait_for()
        assert page.locator("#hub").inner_text() == "hub.example.org/log"
        assert "521 Gflop/s" in page.locator("#members").inner_text()
        assert "12.3 ms" in page.locator("#members").inner_text()
        assert HOSTILE in page.locator("#tissues").inner_text()
        assert page.locator("main img").count() == 0
        assert "0–3, 7" in page.locator("#tissues").inner_text()
        assert "first-model" in page.locator("#boards").inner_text()
        assert "This board has not begun." in page.locator("#boards").inner_text()
        assert "witness.example.org/log" in page.locator("#log").inner_text()
        hidden = "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth).length"
        assert width > 640 or page.evaluate(hidden) == 0  # on a telephone nothing is off the screen
        assert width > 640 or page.locator("#log td[data-head=trouble]").first.is_visible()
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0
        page.screenshot(path=RESULTS / f"hub-{width}-{scheme}.png", full_page=True)
        assert visit.complaints == []
        assert all(url.startswith(hub.url) for url in visit.asked)


def test_what_is_open_stays_open_and_a_lost_process_is_named(browser: Browser, hub: Server) -> None:
    with visiting(browser, hub.url) as visit:
        page = visit.page
        refusals = page.locator("#members details").last
        refusals.locator("summary").click()
        again = page.wait_for_event("response", lambda answer: answer.url.endswith("/api/state"))
        assert again.ok
        page.wait_for_event("response", lambda answer: answer.url.endswith("/api/state"))
        assert refusals.get_attribute("open") is not None
        page.route("**/api/state", lambda route: route.abort())
        page.locator("#trouble").wait_for()
        assert "does not answer" in page.locator("#trouble").inner_text()
        page.unroute("**/api/state")
        page.locator("#trouble").wait_for(state="hidden")
