"""The list of alarms during a flood: presses land, keyboard focus stays; local time; what a viewer sees."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.pages import RESULTS, Server, serving, visiting
from tests.dashboards.serve_fake import FLOOD

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")

ALARMS = [f"{kind}:{source}" for kind, source in FLOOD]
MORE_MESSAGES = """() => setInterval(() => {
  const feed = window.choroid.feed;
  const alarms = feed.state.alarms.map((each) => ({ ...each, detail: each.detail + '.' }));
  feed.take({ alarms }); }, 100)"""
"""Ten messages per second in addition to those of the server, each with another text in every row."""


@pytest.fixture
def flood() -> Iterator[Server]:
    with serving("--flood", "--zone", "Europe/Berlin") as found:
        yield found


def acknowledged(page: Page) -> set[str]:
    """The flood's alarms that the server has as acknowledged or gone."""
    standing = page.evaluate("async () => (await (await fetch('/api/alarms')).json()).alarms")
    states = {each["id"]: each["state"] for each in standing}
    return {name for name in ALARMS if states.get(name, "normal") in ("acknowledged", "normal")}


@pytest.mark.long
@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=["laptop", "phone"])
def test_L1_eight_of_eight_presses_on_acknowledge_land_during_a_flood(
    browser: Browser, flood: Server, size: tuple[int, int]
) -> None:
    """The page rebuilt its list on every message: a press that began on a button ended on another one, and was lost."""
    with visiting(browser, flood.url, size=size) as visit:
        page = visit.live()
        page.get_by_role("button", name=re.compile(r"^\d+ more$")).click()
        page.evaluate(MORE_MESSAGES)
        for count, name in enumerate(ALARMS, 1):
            button = page.locator(f'[data-alarm="{name}"]').get_by_test_id("acknowledge")
            button.evaluate("button => button.scrollIntoView({ block: 'center' })")  # not under the head of the page
            for _ in range(2):  # towards it, and, as a person corrects the aim, onto it
                box = button.bounding_box()
                assert box is not None
                page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            page.mouse.down()
            page.wait_for_timeout(150)  # as long as a person's press; at least one message comes meanwhile
            page.mouse.up()
            page.wait_for_timeout(300)
            if count == 4:
                RESULTS.mkdir(exist_ok=True)
                page.screenshot(path=RESULTS / f"alarm-flood-{size[0]}.png")
        page.wait_for_timeout(500)
        assert acknowledged(page) == set(ALARMS)
        rows = page.evaluate("async () => (await (await fetch('/api/audit?limit=500')).json()).entries")
        pressed = {
            e["body"]["alarm"] for e in rows if e["kind"] == "alarm.acknowledged" and e["body"]["user"] == "demo"
        }
        assert pressed <= set(ALARMS), "a press on one alarm has acknowledged another one"
        assert visit.complaints == []


@pytest.mark.long
def test_L1_keyboard_focus_stays_on_its_row_during_a_flood(browser: Browser, flood: Server) -> None:
    with visiting(browser, flood.url) as visit:
        page = visit.live()
        page.get_by_role("button", name=re.compile(r"^\d+ more$")).click()
        page.evaluate(MORE_MESSAGES)
        chosen = page.locator('[data-alarm="stock_low:glucose"]').get_by_test_id("acknowledge")
        chosen.focus()
        page.wait_for_timeout(5000)  # longer than rows keep their places: now they are put in order, around the focus
        assert page.evaluate("document.activeElement.closest('article')?.dataset.alarm") == "stock_low:glucose"
        page.keyboard.press("Enter")
        expect(page.locator('[data-alarm="stock_low:glucose"]')).to_contain_text("acknowledged by demo")
        # Its button is gone; the focus passes to the next that can be pressed, and not to the page's beginning.
        assert page.evaluate("document.activeElement.dataset.testid") == "acknowledge"


def test_dates_and_local_time_with_utc_in_the_tooltip(browser: Browser, flood: Server) -> None:
    local = re.compile(r"\d{1,2} [A-Z][a-z]{2,3} 20\d\d,? \d\d:\d\d:\d\d (GMT\+[12]|CES?T)")
    with visiting(browser, flood.url) as visit:
        page = visit.live()
        state = page.locator(".alarm-state").first
        expect(state).to_have_text(local)
        expect(state).to_have_attribute("title", re.compile(r"^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC$"))
        row = page.locator("#journal time").first
        expect(row).to_have_attribute("title", local)
        utc = state.get_attribute("datetime")
        assert utc is not None
        hours = page.evaluate(
            "([utc, shown]) => (24 + Number(shown.match(/(\\d\\d):\\d\\d:\\d\\d/)[1]) - new Date(utc).getUTCHours()) % 24",
            [utc, state.inner_text()],
        )
        assert hours in (1, 2), "Berlin is one or two hours ahead of UTC"


def test_S2_a_viewer_sees_no_control_that_could_be_used(browser: Browser) -> None:
    with serving("--locked", "--trouble") as locked:
        link = locked.first_line()
        with visiting(browser, link) as visit:
            page = visit.live()
            expect(page.get_by_test_id("estop")).to_be_enabled()
            token = page.evaluate(
                """async () => (await (await fetch('/api/users', { method: 'POST',
                headers: {'Content-Type': 'application/json'},
                body: JSON.stringify({name: 'vera', role: 'viewer', reason: 'test'})})).json()).token"""
            )
        with visiting(browser, f"{locked.url}#token={token}") as visit:
            page = visit.live()
            expect(page.locator("#user")).to_have_text("vera, viewer")
            expect(page.get_by_test_id("estop")).to_be_hidden()
            expect(page.get_by_test_id("alarm")).to_have_count(2)
            usable = page.evaluate(
                """() => [...document.querySelectorAll('button, select, input')].filter(each => !each.disabled
                  && each.offsetParent && !each.closest('#window') && each.id !== 'theme')
                  .map(each => each.outerHTML.slice(0, 90))"""
            )
            harmless = ("array-open", 'id="rig-clock"', 'id="user"', "protocol-select", 'id="param-', "start-reason")
            assert [each for each in usable if not any(name in each for name in harmless)] == []
            expect(page.get_by_test_id("start-run")).to_be_disabled()
            page.locator('[data-vessel="reservoir"]').click()
            expect(page.get_by_role("dialog")).to_have_count(0)
            refused = page.evaluate(
                """async () => Promise.all(['/api/estop', '/api/estop/reset',
                  '/api/alarms/no_heart_flow:reglo.heart/acknowledge']
                  .map(async (path) => (await fetch(path, { method: 'POST', headers: {'Content-Type': 'application/json'},
                  body: JSON.stringify({reason: 'try'})})).status))"""
            )
            assert refused == [403, 403, 403]
