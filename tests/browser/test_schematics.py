"""The schematic of any rig: texts, lines and symbols keep apart, and everything lies inside the drawing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from controller.rig.description import Rig
from controller.rig.loading import load_rig
from controller.rig.schematic import describe
from tests.browser.pages import RESULTS, ROOT
from tests.browser.sample_rigs import SAMPLES, dish, plates, sixteen, unequal_branches
from tests.browser.stage import SIZES, staged, state_of

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")

FILES = sorted([*(ROOT / "examples" / "rigs").glob("*.yaml"), *(ROOT / "tests" / "rigs").glob("*.yaml")])
RIGS: dict[str, Callable[[], Rig]] = {path.stem: partial(load_rig, path) for path in FILES} | SAMPLES

MEASURE = (Path(__file__).parent / "measure.js").read_text().partition("\n")[2]
"""Returns what lies over something else, or outside the drawing."""


def zones_apart(page: Page) -> list[str]:
    """The frames of zones that lie over each other."""
    found: list[str] = page.evaluate(
        """() => { const boxes = [...document.querySelectorAll('.zone-box')].map(n => n.getBoundingClientRect());
          return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b => a.left < b.right - 1 && b.left < a.right - 1
            && a.top < b.bottom - 1 && b.top < a.bottom - 1).map(() => `frame ${i} lies over another one`)); }"""
    )
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", RIGS)
def test_nothing_lies_over_anything_else(browser: Browser, name: str) -> None:
    rig = RIGS[name]()
    with staged(browser, rig) as visit:
        assert visit.page.evaluate(MEASURE) == []
        assert zones_apart(visit.page) == []
        assert visit.complaints == []
        shown = visit.page.evaluate("[...document.querySelectorAll('[data-vessel]')].map(n => n.dataset.vessel)")
        assert sorted(shown) == sorted(rig.vessels)


def test_the_measure_finds_what_lies_over_something_else(browser: Browser) -> None:
    with staged(browser, dish()) as visit:
        page = visit.page
        assert page.evaluate(MEASURE) == []
        page.evaluate("document.querySelector('.chip').setAttribute('transform', 'translate(0 -60)')")
        assert [each for each in page.evaluate(MEASURE) if "lies over" in each]
        page.evaluate("document.querySelector('.chip').setAttribute('transform', 'translate(900 0)')")
        assert [each for each in page.evaluate(MEASURE) if "outside" in each]


def facts(page: Page) -> dict[str, str]:
    """The details of the selected chamber, by name."""
    found: dict[str, str] = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('#chamber-body > div')]
          .map(each => [each.firstChild.textContent, each.lastChild.textContent]))"""
    )
    return found


def stopped(rig: Rig, *pumps: str) -> dict[str, Any]:
    """The actuators of a rig when some of its pumps stand."""
    actuators: dict[str, Any] = state_of(rig)["actuators"]
    for pump in pumps:
        actuators[pump]["status"] |= {"on": False, "flow_ul_min": 0.0}
    return actuators


ALARM = {
    "id": "no_heart_flow:heart7", "kind": "no_heart_flow", "source": "heart7", "state": "unacknowledged",
    "priority": "critical", "detail": "no flow for 12 s", "raised_utc": "2026-05-04T09:16:28.000Z", "consequence": "",
    "response": "", "respond_within": "", "acknowledged_by": "",
    "suppressed_by": "", "suppression_reason": "",
    "until_utc": "",
}  # fmt: skip


def test_an_overview_shows_which_chambers_are_perfused_and_which_have_an_alarm(browser: Browser) -> None:
    rig = sixteen()
    with staged(browser, rig, actuators=stopped(rig, "reglo2.heart7"), alarms=[ALARM]) as visit:
        page = visit.page
        expect(page.locator(".block .cell")).to_have_count(16)
        expect(page.locator('.cell[data-supply="perfused"]')).to_have_count(15)
        seventh = page.locator('.cell[data-vessel="chamber7"]')
        expect(seventh).to_have_attribute("data-supply", "stopped")
        expect(seventh.locator(".cell-alarm")).to_be_visible()
        assert seventh.get_attribute("aria-label") == "chamber7: 2.0 mL, 1 organoid, stopped, 1 alarm"
        expect(page.locator(".block-summary")).to_have_text("15 perfused, 1 stopped, 1 with an alarm")
        expect(page.get_by_test_id("now")).to_contain_text("1 of 16 heart pumps is stopped")
        hearts = page.locator('[data-line="loop to chambers"]')
        expect(hearts).to_have_class("line flowing")
        expect(page.locator(".device-flow").filter(has_text="15 of 16")).to_have_count(1)
        page.screenshot(path=RESULTS / "overview-trouble.png") if RESULTS.is_dir() else None
        assert page.evaluate(MEASURE) == []
        assert visit.complaints == []


def at(position: float | None) -> dict[str, Any]:
    """A reading of a selector's position."""
    quality = "missing" if position is None else "good"
    return {"value": position, "unit": "position", "quality": quality, "stable": True, "at_s": 1000.0, "detail": ""}


def test_a_selector_shows_its_port_and_where_it_leads(browser: Browser) -> None:
    rig = RIGS["two_selectors"]()
    readings = state_of(rig)["readings"] | {"giver.position": at(7), "taker.position": at(16)}
    actuators = state_of(rig)["actuators"]
    actuators["reglo.dose"]["status"] |= {"on": True, "flow_ul_min": 500.0}
    with staged(browser, rig, readings=readings, actuators=actuators) as visit:
        page = visit.page
        supply, takeoff = (page.locator(f'[data-selector="{name}"]') for name in ("supply", "takeoff"))
        expect(supply.locator(".selector-state")).to_have_text("7: w07")
        expect(takeoff.locator(".selector-state")).to_have_text("16: rest")
        expect(supply).to_have_class("selector open")
        expect(takeoff).to_have_class("selector")
        expect(page.locator(".cell.connected")).to_have_count(1)
        expect(page.locator(".cell.connected")).to_have_attribute("data-vessel", "w07")
        expect(page.locator('[data-line="selector supply to chambers, passive"]')).to_have_class("line flowing")
        expect(page.locator('[data-line="flush"]')).to_have_class("line")
        assert page.evaluate(MEASURE) == []
    readings |= {"giver.position": at(13), "taker.position": at(None)}
    with staged(browser, rig, readings=readings, actuators=actuators) as visit:
        page = visit.page
        expect(page.locator('[data-selector="supply"] .selector-state')).to_have_text("13: waste")
        expect(page.locator('[data-selector="takeoff"] .selector-state')).to_have_text("position?")
        expect(page.locator(".cell.connected")).to_have_count(0)
        expect(page.locator('[data-line="flush"]')).to_have_class("line flowing")


def test_a_dialyser_is_drawn_on_its_line(browser: Browser) -> None:
    with staged(browser, RIGS["bench_dialysis"]()) as visit:
        dialyser = visit.page.locator(".device.dialyser")
        expect(dialyser).to_have_count(1)
        expect(dialyser.locator("title")).to_have_text("fibres: hollow fibres in spent, cut-off 10 kDa")


@pytest.mark.parametrize("size", SIZES)
def test_a_chamber_is_selected_and_its_details_are_shown(browser: Browser, size: str) -> None:
    with staged(browser, sixteen(), size=SIZES[size]) as visit:
        page = visit.page
        expect(page.get_by_test_id("chamber")).to_be_hidden()
        page.locator('.cell[data-vessel="chamber6"]').click()
        expect(page.get_by_role("heading", name="chamber6")).to_be_visible()
        found = facts(page)
        assert found["Tissue"] == "1 organoid, 2.5 mm, day 60"
        assert (found["Batch"], found["Cell line"]) == ("B-5", "WTC-11")
        assert found["Perfusion"] == "perfused; 2.00 mL/min, all of heart6"
        assert found["Temperature"] == "37.0 °C (t6.temperature)"
        assert found["Lines"] == "heart6 (from loop), overflow6 (to loop)"
        expect(page.locator('.cell[data-vessel="chamber6"]')).to_have_attribute("aria-pressed", "true")
        expect(page.locator(".chart").filter(has_text="Temperature, chamber6")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        RESULTS.mkdir(exist_ok=True)
        page.screenshot(path=RESULTS / f"chamber-{size}.png")
        page.locator("#chamber-close").click()
        expect(page.get_by_test_id("chamber")).to_be_hidden()
        expect(page.locator('[aria-pressed="true"].cell')).to_have_count(0)
        assert visit.complaints == []


@pytest.mark.parametrize("width", [1280, 1360, 1440])
def test_the_whole_drawing_of_the_monitored_bench_is_visible_on_a_desk(browser: Browser, width: int) -> None:
    with staged(browser, RIGS["bench_monitored"](), size=(width, 800)) as visit:
        inside = visit.page.evaluate(
            """() => { const place = document.querySelector('.schematic-place').getBoundingClientRect();
              return [...document.querySelectorAll('#schematic text, #schematic .glass-edge')].every(node => {
                const box = node.getBoundingClientRect();
                return !box.width || box.left >= place.left && box.right <= place.right; }); }"""
        )
        assert inside
        RESULTS.mkdir(exist_ok=True)
        visit.page.screenshot(path=RESULTS / f"monitored-{width}.png")


@pytest.mark.parametrize("width", [1360, 1440])
def test_both_values_of_a_chart_are_readable_on_a_desk(browser: Browser, width: int) -> None:
    with staged(browser, RIGS["bench_monitored"](), size=(width, 800)) as visit:
        values = visit.page.locator(".chart-values:has(.chart-one + .chart-one)")
        values.filter(has_text="chamber").first.wait_for()
        cut = "all => all.filter(n => n.scrollWidth > n.clientWidth + 1).map(n => n.textContent)"
        assert values.evaluate_all(cut) == []


def test_chambers_are_reached_with_the_keyboard(browser: Browser) -> None:
    with staged(browser, plates()) as visit:
        page = visit.page
        assert page.locator('.cell[tabindex="0"]').count() == 1, "a plate is one stop of the tabulator"
        page.locator('.cell[tabindex="0"]').focus()
        for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowLeft"):
            page.keyboard.press(key)
        assert page.evaluate("document.activeElement.dataset.vessel") == "plate1-C1"
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="plate1-C1")).to_be_visible()
        assert facts(page)["Perfusion"] == "static: no pump leads here"
        page.keyboard.press("Enter")
        expect(page.get_by_test_id("chamber")).to_be_hidden()
        assert page.evaluate("document.activeElement.dataset.vessel") == "plate1-C1"


def test_a_branch_takes_the_share_that_its_resistance_leaves_it(browser: Browser) -> None:
    rig = unequal_branches()
    with staged(browser, rig) as visit:
        page = visit.page
        page.locator('[data-vessel="plate_b"]').press("Enter")
        assert facts(page)["Perfusion"] == "perfused; 667 µL/min, about 33\u00a0% of the heart"
        flows = page.evaluate(
            "async ([graph, state]) => (await import('/static/js/schematic/flows.js')).flowsOf(graph, state)",
            [describe(rig), state_of(rig)],
        )
        assert {name: round(flow) for name, flow in flows.items()} == {
            "heart": 2000, "branch_a": 1333, "branch_b": 667, "back_a": 1333, "back_b": 667,
        }  # fmt: skip


def test_a_rig_shows_only_the_cards_that_it_has_content_for(browser: Browser) -> None:
    cards = ("viability", "grade", "ledger", "decisions", "nerves")
    cases = (dish(), ("viability",)), (unequal_branches(), ("viability", "ledger")), (sixteen(), cards[:-1])
    for rig, shown in cases:
        with staged(browser, rig) as visit:
            page = visit.page
            found = tuple(card for card in cards if page.get_by_test_id(card).is_visible())
            assert found == shown, rig.name
            page.get_by_test_id("functions").locator("summary").click()
            told = {"grade": "spent_medium", "decisions": "spent_medium", "nerves": "electrophysiology"}
            for card in told.keys() - found:
                expect(page.locator(f'[data-function="{told[card]}"]')).to_contain_text("Needs")


@pytest.mark.parametrize("name", ["sixteen", "plate of 96", "many ways"])
def test_the_page_of_many_chambers_fits_a_phone_and_names_what_can_be_used(browser: Browser, name: str) -> None:
    with staged(browser, SAMPLES[name](), size=SIZES["phone"]) as visit:
        page = visit.page
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('button, input, select, [role=button], [role=img], canvas')]
              .filter(n => !(n.getAttribute('aria-label') || n.closest('label') || n.textContent.trim()
                || (n.id && document.querySelector(`label[for="${n.id}"]`)))).map(n => n.outerHTML.slice(0, 80))"""
        )
        assert nameless == []
        page.screenshot(path=RESULTS / f"phone-{name.replace(' ', '-')}.png") if RESULTS.is_dir() else None
