"""The library on the page of `choroid run`: a person submits, another accepts and releases, the first starts it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.pages import RESULTS, visiting
from tests.processes import Bench

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")

TEXT = """NAME = "weekly"
TITLE = "Note the week"
PARAMS = ()


async def protocol(lab, params):
    await lab.note("week", {})
"""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    try:
        made.run()
        yield made
    finally:
        made.end()


def opened(page: Page) -> Page:
    """The page with the library's panel open."""
    page.get_by_test_id("library").locator("summary").click()
    return page


@pytest.mark.long
def test_a_protocol_is_submitted_accepted_released_and_started_by_the_people_who_may(
    browser: Browser, bench: Bench, tmp_path: Path
) -> None:
    url = json.loads((bench.data / "endpoint.json").read_text())["url"]
    roles = {"anna": "operator", "ben": "engineer", "vera": "viewer"}
    links = {
        name: f"{url}/#token={bench.told('user', 'add', name, '--role', role)['token']}" for name, role in roles.items()
    }
    file = tmp_path / "weekly.py"
    file.write_text(TEXT)
    with (
        visiting(browser, links["anna"]) as annas,
        visiting(browser, links["ben"]) as bens,
        visiting(browser, links["vera"]) as veras,
    ):
        anna = opened(annas.live())
        anna.get_by_test_id("library-file").set_input_files(file)
        anna.get_by_test_id("library-reason").fill("for the week")
        anna.get_by_test_id("library-submit").click()
        version = anna.get_by_test_id("library-version")
        expect(version).to_contain_text("weekly.py: submitted")
        expect(version).to_contain_text("submitted by anna")
        version.get_by_role("button", name="Accept").click()
        expect(anna.locator("body")).to_contain_text("operator may not do this")
        expect(anna.get_by_test_id("protocol-select").locator("option", has_text="weekly")).to_have_count(0)

        ben = opened(bens.live())
        version = ben.get_by_test_id("library-version")
        version.get_by_role("button", name="Read").click()
        expect(ben.get_by_test_id("library-text")).to_contain_text('await lab.note("week", {})')
        version.get_by_role("button", name="Reject").click()
        expect(ben.locator("body")).to_contain_text("A rejection needs a reason")
        version.get_by_role("button", name="Accept").click()
        expect(version).to_contain_text("weekly.py: reviewed")
        expect(version.get_by_role("button", name="Accept")).to_have_count(0)
        version.get_by_role("button", name="Release").click()
        expect(version).to_contain_text("weekly.py: released")
        expect(version).to_contain_text("released by ben")
        expect(ben.get_by_test_id("protocol-select").locator("option", has_text="weekly")).to_have_count(1)
        RESULTS.mkdir(exist_ok=True)
        ben.screenshot(path=RESULTS / "library-released.png")

        vera = veras.live()
        expect(vera.get_by_test_id("library")).to_be_hidden()
        expect(vera.get_by_test_id("start-run")).to_be_disabled()
        sha256 = bench.get("/api/library")["versions"][0]["sha256"]
        refused = vera.evaluate(
            """async (path) => (await fetch(path, { method: "POST", body: "{}",
              headers: { "Content-Type": "application/json", "X-Choroid": "page" } })).status""",
            f"/api/library/{sha256}/withdraw",
        )
        assert refused == 403

        anna.get_by_test_id("start-run").hover()
        expect(anna.get_by_test_id("protocol-select").locator("option", has_text="weekly")).to_have_count(1)
        anna.get_by_test_id("protocol-select").select_option("weekly")
        expect(anna.locator("#protocol-title")).to_have_text("Note the week")
        anna.get_by_test_id("start-run").click()
        expect(anna.get_by_test_id("run-state")).to_have_text("complete")
        (start,) = (body for _, body in bench.rows("run.start"))
        assert (start["user"], start["version_sha256"]) == ("anna", sha256)
        assert [text for text in annas.complaints + bens.complaints if "403" not in text and "409" not in text] == []
