"""axe finds nothing to correct in any view of the page, in the dark and the light theme, from a phone to a desk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.pages import ROOT, Server, serving, visiting

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")

AXE = ROOT / "dashboards" / "node_modules" / "axe-core" / "axe.min.js"
"""Among the tools of the page: `make lint` installs it."""
SIZES = {390: 844, 1024: 768, 1440: 900}
FINDINGS = """async () => {
  const ending = document.getAnimations().filter(each => each.effect.getTiming().iterations !== Infinity);
  await Promise.all(ending.map(each => each.finished.catch(() => null)));
  const { violations } = await axe.run(document, { resultTypes: ['violations'] });
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}: ${failureSummary}`)); }"""
"""What axe finds on the page, once what fades in has done so."""


@pytest.fixture(scope="module")
def axe() -> str:
    if not Path(AXE).exists():
        words = "axe-core is not installed; next: make lint-page"
        pytest.fail(words) if os.environ.get("CI") == "true" else pytest.skip(words)
    return AXE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def bad_day() -> Iterator[Server]:
    with serving("--trouble", "--wanted") as found:
        yield found


def findings(page: Page) -> list[str]:
    """What axe finds on the page as it is."""
    found: list[str] = page.evaluate(FINDINGS)
    return found


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_axe_has_no_findings(browser: Browser, bad_day: Server, axe: str, width: int, scheme: str) -> None:
    with visiting(browser, bad_day.url, size=(width, SIZES[width]), scheme=scheme) as visit:
        page = visit.live()
        page.evaluate(axe)
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert findings(page) == []
        page.get_by_test_id("estop").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert findings(page) == []
        page.get_by_test_id("dialog-cancel").click()
        page.get_by_test_id("array-open").click()
        assert findings(page) == []


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_axe_has_no_findings_while_a_person_signs_in(browser: Browser, axe: str, scheme: str) -> None:
    with serving("--locked") as locked, visiting(browser, locked.url, scheme=scheme) as visit:
        visit.page.get_by_test_id("sign-in").wait_for()
        visit.page.evaluate(axe)
        assert findings(visit.page) == []
