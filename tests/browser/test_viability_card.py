"""The viability card in each situation, on a desk and a phone: nothing is cut off, and its text is that of the API."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser

from controller.rig.loading import load_rig
from tests.browser.pages import Server, visiting
from tests.browser.stage import SIZES, staged
from tests.browser.viability_pictures import READ, SITUATIONS, said
from tests.dashboards.fake_rig import BENCH

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")
CUT_OFF = """parts => parts.flatMap(part => [part, ...part.querySelectorAll('*')]).filter(node => node.clientWidth
  && node.scrollWidth > node.clientWidth + 1).map(node => node.className)"""
FIRST = {
    "well": "No harm or loss seen (8 of 11 measured); up to ",
    "little-measured": "No harm or loss seen (4 of 11 measured); up to ",
    "heat": "Harmful now: heat. The tissue is losing viability.",
    "loss": "The tissue is losing viability. No cause is measured.",
    "recovering": "The tissue has lost viability and is recovering. Nothing harmful is measured now.",
    "no-data": "No harm or loss seen, but too little is measured (1 of 11) to judge the tissue.",
}


@pytest.fixture(scope="module")
def scores(browser: Browser, server: Server) -> dict[str, Any]:
    with visiting(browser, server.url) as visit:
        found: dict[str, Any] = visit.live().evaluate(READ)
        return found | {"stimulation": None}


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_card_says_what_the_api_says_and_fits(browser: Browser, scores: dict[str, Any], name: str) -> None:
    estimate = said(SITUATIONS[name])
    assert estimate["sentences"][0].startswith(FIRST[name])
    for size in SIZES.values():
        with staged(browser, load_rig(BENCH), size=size, scores=scores | {"viability": estimate}) as visit:
            card = visit.page.get_by_test_id("viability")
            assert card.locator(".estimate p").all_text_contents() == estimate["sentences"]
            card.locator(".basis-details summary").click()
            assert card.locator(".basis-details p").all_text_contents()[:-1] == estimate["basis"]
            assert card.locator(".estimate-course svg title").text_content()
            assert card.locator(".estimate, .basis-details").evaluate_all(CUT_OFF) == []
            assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert visit.complaints == []
