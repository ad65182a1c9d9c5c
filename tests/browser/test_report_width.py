"""The HTML report on a phone: links wrap, and a wide table scrolls in its own place."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from choroid.report.pieces import table
from choroid.report.style import CSS

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")


@pytest.mark.parametrize("width", [1440, 390])
def test_links_and_wide_tables_fit(browser: Browser, width: int) -> None:
    links = "".join(f'<a href="#{name}">Section {name}</a>' for name in "abcdefghij")
    wide = table(
        ("@when", "vessel", "#mL", "#moved", "reason"), [("2026-01-01 00:00", "reservoir", "1", "2", "x" * 20)] * 3
    )
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.set_content(f"<style>{CSS}</style><nav>{links}</nav>{wide}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("nav a").last.evaluate("node => node.getBoundingClientRect().right <= innerWidth")
    page.close()
