"""The card of the probes' own health in Chromium."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Browser, Route, expect

from tests.browser.stage import staged
from tests.execution.world import RIG

WORN: dict[str, Any] = {
    "point": "ph_loop.ph",
    "at_utc": "2026-05-04T08:00:00.000Z",
    "problem": "Its slope below pH 7 is 79 %, and 85 to 105 % is sound. Next: replace the electrode.",
    "figures": [
        {"name": "slope_acid", "meaning": "slope below pH 7", "unit": "%", "value": 79.25, "low": 85.0, "high": 105.0,
         "sound": False},
        {"name": "zero_offset", "meaning": "zero offset", "unit": "mV", "value": -3.0, "low": -30.0, "high": 30.0,
         "sound": True},
    ],
}  # fmt: skip
SILENT = WORN | {"at_utc": None, "problem": "", "point": "ph_spent.ph"}


def api(*probes: dict[str, Any]) -> Any:
    def answer(route: Route, path: str) -> bool:
        if path == "api/probes":
            route.fulfill(json={"probes": list(probes)})
        return path == "api/probes"

    return answer


def test_Q7_a_worn_probe_is_shown_with_its_figures_and_what_to_do(browser: Browser) -> None:
    with staged(browser, RIG, api=api(WORN, SILENT)) as visit:
        card = visit.page.get_by_test_id("probes")
        card.locator("summary").click()
        worn, silent = card.locator("[data-probe='ph_loop.ph']"), card.locator("[data-probe='ph_spent.ph']")
        expect(worn).to_contain_text("Slope below pH 7 79.25\u00a0% (out of range)")
        expect(worn).to_contain_text("Zero offset −3\u00a0mV")
        expect(worn).to_contain_text("Next: replace the electrode.")
        expect(silent).to_contain_text("It has not answered yet.")
        assert visit.complaints == []


def test_a_rig_whose_probes_tell_nothing_has_no_card_of_them(browser: Browser) -> None:
    with staged(browser, RIG, api=api()) as visit:
        expect(visit.page.get_by_test_id("probes")).to_be_hidden()
