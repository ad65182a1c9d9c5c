"""A requested assay on the page: what, why and since when; its result, entered in the form, answers it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.pages import RESULTS, Server, serving, visiting

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")


@pytest.fixture(scope="module")
def wanting() -> Iterator[Server]:
    with serving("--wanted") as found:
        yield found


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=["desk", "phone"])
def test_the_request_fits_the_screen(browser: Browser, wanting: Server, size: tuple[int, int]) -> None:
    with visiting(browser, wanting.url, size=size) as visit:
        page = visit.live()
        request = page.get_by_test_id("assay-wanted")
        expect(request).to_be_visible()
        request.scroll_into_view_if_needed()
        RESULTS.mkdir(exist_ok=True)
        page.screenshot(path=RESULTS / f"assay-wanted-{size[0]}.png")
        inside = request.evaluate("node => node.scrollWidth <= node.clientWidth")
        wide = page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        assert (inside, wide) == (True, True)


def test_the_time_of_a_sample_is_in_the_time_zone_of_the_page(browser: Browser) -> None:
    """A user who writes 10:40 reads the clock of the page, which may not be that of the controller's computer."""
    with serving("--zone", "Asia/Tokyo") as tokyo, visiting(browser, tokyo.url) as visit:
        page = visit.live()
        page.get_by_test_id("enter-assay").click()
        expect(page.get_by_role("dialog")).to_contain_text("Sample taken at (Asia/Tokyo")
        page.get_by_test_id("dialog-value").fill("6.4 mM")
        page.get_by_test_id("dialog-taken").fill("10:40")
        with page.expect_request("**/api/assays") as sent:
            page.get_by_test_id("dialog-confirm").click()
        body = sent.value.post_data_json
        assert body is not None
        assert (sent.value.method, body["zone"]) == ("POST", "Asia/Tokyo")


def test_a_result_that_contradicts_the_estimate_is_refused_in_the_words_of_the_page(
    browser: Browser, server: Server
) -> None:
    what, action = (
        "lactate contradicts the estimate. It is kept and not used",
        "look again; if it is right, enter it with --sure",
    )
    error = {"what": what, "where": "", "cause": "a slip", "action": action}

    def refuse(route: Route) -> None:
        if route.request.method == "POST":
            route.fulfill(status=409, json={"error": error})
        else:
            route.fallback()

    with visiting(browser, server.url) as visit:
        page = visit.live()
        page.route("**/api/assays", refuse)
        page.get_by_test_id("enter-assay").click()
        page.get_by_test_id("dialog-value").fill("39 mM")
        page.get_by_test_id("dialog-taken").fill("10:40")
        page.get_by_test_id("dialog-confirm").click()
        expect(page.locator("dialog .trouble")).to_have_text(
            "Lactate contradicts the estimate. It is kept and not used. Look again; if it is right, tick the box above and"
            " enter it again."
        )
        page.get_by_test_id("dialog-sure").check()
        with page.expect_request("**/api/assays") as sent:
            page.get_by_test_id("dialog-confirm").click()
        body = sent.value.post_data_json
        assert body is not None
        assert body["sure"] is True


def test_without_a_request_there_is_the_form_alone(browser: Browser, server: Server) -> None:
    with visiting(browser, server.url) as visit:
        page = visit.live()
        expect(page.get_by_test_id("enter-assay")).to_be_visible()
        expect(page.get_by_test_id("assay-wanted")).to_be_hidden()


def test_a_result_answers_its_part_of_the_request(browser: Browser, wanting: Server) -> None:
    with visiting(browser, wanting.url) as visit:
        page = visit.live()
        request = page.get_by_test_id("assay-wanted")
        expect(request).to_contain_text("Assay requested: LDH of the loop")
        expect(request).to_contain_text(
            "The estimate expects a loss of 5% of the viability, which LDH confirms or excludes."
        )
        expect(request).to_contain_text("Assay requested: lactate and ammonia of the loop")
        expect(request).to_contain_text("about 21 of 64\u00a0mL of fresh medium")
        expect(request).to_contain_text("Since ")
        page.get_by_test_id("handled").first.click()  # from the alarm; afterwards from the card
        results = (("ldh", "12 U/L", "lactate and"), ("lactate", "6.4 mM", "ammonia of"), ("ammonia", "0.31 mM", ""))
        for analyte, result, left in results:
            expect(page.get_by_test_id("dialog-choice")).to_have_value(analyte)
            page.get_by_test_id("dialog-value").fill(result)
            page.get_by_test_id("dialog-taken").fill("10:40")
            if left:
                page.screenshot(path=RESULTS / "assay-form.png")
            page.get_by_test_id("dialog-confirm").click()
            if left:
                expect(request).to_contain_text(f"Assay requested: {left}")
                expect(request).not_to_contain_text("LDH")
                page.get_by_test_id("enter-assay").click()
        expect(request).to_be_hidden()
        assert not visit.complaints
