"""Controls that a gloved finger meets, clocks that name their zone, and a page that can be enlarged."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.pages import Server, serving, visiting

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")

WIDTHS = {390: 844, 1024: 768, 1440: 900}
SMALL = """() => [...document.querySelectorAll('button, select, input, summary, textarea, a[href]')]
  .filter(n => n.checkVisibility({ visibilityProperty: true }) && !n.matches('.skip, .array-cells button'))
  .map(n => [n.id || n.className || n.textContent.trim().slice(0, 30), n.getBoundingClientRect()])
  .filter(([, box]) => box.height < 43.9 || box.width < 43.9)
  .map(([name, box]) => `${name}: ${Math.round(box.width)} × ${Math.round(box.height)}`)"""
"""Controls smaller than 44 px; the electrodes of an array, a map of up to a thousand, are chosen by number or key too."""
CUT = """() => [...document.querySelectorAll('button, h1, h2, #link, .mode, .state')]
  .filter(n => n.checkVisibility() && getComputedStyle(n).display !== 'inline')
  .filter(n => { const box = n.getBoundingClientRect();
    return box.right > innerWidth + 1 || box.left < -1 || n.scrollWidth > n.clientWidth + 2; })
  .map(n => n.id || n.className || n.textContent.trim())"""
"""What does not fit into its own box, or lies beyond the window."""


@pytest.fixture(scope="module")
def bad_day() -> Iterator[Server]:
    with serving("--trouble", "--wanted") as found:
        yield found


def opened(page: Page) -> Page:
    """The page with every card open."""
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    return page


@pytest.mark.parametrize("width", WIDTHS)
def test_every_control_is_as_large_as_a_finger_in_a_glove(browser: Browser, bad_day: Server, width: int) -> None:
    with visiting(browser, bad_day.url, size=(width, WIDTHS[width]), touch=True) as visit:
        page = opened(visit.live())
        expect(page.get_by_test_id("alarm").first).to_be_visible()
        assert page.evaluate(SMALL) == []
        page.get_by_test_id("array-open").click()
        expect(page.get_by_test_id("array")).to_be_visible()
        assert page.evaluate(SMALL) == []
        page.locator("#array-close").click()
        page.get_by_test_id("enter-assay").click()
        assert page.evaluate(SMALL) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_lost_at_twice_the_size(browser: Browser, bad_day: Server, width: int) -> None:
    """Zoom by 200 % gives a page half of the width; 320 px is the least that WCAG asks for."""
    for each in (width, max(320, width // 2)):
        with visiting(browser, bad_day.url, size=(each, WIDTHS[width] // 2), touch=True) as visit:
            page = opened(visit.live())
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert page.evaluate(CUT) == [], each


def test_every_clock_names_its_zone_and_can_show_utc(browser: Browser) -> None:
    with serving("--zone", "Europe/Berlin") as server, visiting(browser, server.url) as visit:
        page = visit.live()
        clock = page.get_by_test_id("rig-clock")
        expect(clock).to_contain_text("4 May 2026 CEST")
        for card in ("trends", "journal"):
            expect(page.locator(f".card:has(#{card}-title) .shown-zone")).to_have_text("times in CEST")
        local = int(page.locator("#clock").inner_text()[:2])
        clock.click()
        expect(clock).to_contain_text("UTC")
        expect(page.locator(".card:has(#trends-title) .shown-zone")).to_have_text("times in UTC")
        expect(page.locator("#link")).to_have_attribute("data-status", "live")
        assert (local - int(page.locator("#clock").inner_text()[:2])) % 24 in (1, 2)  # an hour may have passed
        page.get_by_test_id("rig-clock").click()
        expect(page.get_by_test_id("rig-clock")).to_contain_text("CEST")
        assert visit.complaints == []


def test_what_is_shown_has_an_address_that_can_be_shared(browser: Browser, server: Server) -> None:
    with visiting(browser, server.url) as visit:
        page = visit.live()
        page.get_by_role("button", name="6 h").click()
        page.get_by_test_id("array-open").click()
        page.get_by_test_id("array-number").fill("7")
        page.get_by_test_id("array-number").press("Enter")
        expect(page).to_have_url(f"{server.url}#period=21600&electrode=7")
        shared = page.url
        page.go_back()
        expect(page.get_by_test_id("array")).to_be_hidden()
        expect(page.get_by_role("button", name="6 h")).to_have_attribute("aria-pressed", "true")
        page.go_back()
        expect(page.get_by_role("button", name="1 h")).to_have_attribute("aria-pressed", "true")
        assert urlsplit(page.url).fragment == ""
    with visiting(browser, shared) as visit:
        page = visit.live()
        expect(page.get_by_test_id("array-number")).to_have_value("7")
        expect(page.locator('#window [data-seconds="21600"]')).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("wrong", ["period=5", "electrode=32", "electrode=x", "chamber=none", "card=%3Cb%3E", "card=."])
def test_an_address_that_names_nothing_shows_the_page_as_usual(browser: Browser, server: Server, wrong: str) -> None:
    with visiting(browser, f"{server.url}#{wrong}") as visit:
        page = visit.live()
        expect(page.locator('#window [data-seconds="3600"]')).to_have_attribute("aria-pressed", "true")
        expect(page.get_by_test_id("array")).to_be_hidden()
        expect(page.get_by_test_id("chamber")).to_be_hidden()
        assert visit.complaints == []


def test_an_address_opens_a_card_and_a_chamber(browser: Browser, server: Server) -> None:
    with visiting(browser, f"{server.url}#card=library&chamber=chamber", size=(390, 844)) as visit:
        page = visit.live()
        expect(page.locator("#library details")).to_have_attribute("open", "")
        expect(page.locator("#chamber-title")).to_have_text("chamber")
        page.locator("#chamber-close").click()
        expect(page).to_have_url(f"{server.url}#card=library")
