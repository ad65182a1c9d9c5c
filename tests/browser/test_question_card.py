"""The page's question card and `choroid protocol answer`, over `choroid demo` with a laboratory's own recipe."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.pages import RESULTS, ROOT, Server, free_port, visiting
from tests.execution.test_replies import image

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")

ASKING = """recipe: 1
name: asking
title: It asks
steps:
  - ask_operator: {message: Lactate of the loop, answer: number, unit: mM, min: 0 mM, max: 20 mM, as: lactate}
  - ask_operator: {message: Look of the medium, answer: choice, choices: [clear, cloudy], as: look}
  - ask_operator: {message: Remarks, answer: text, as: remark}
  - ask_operator: {message: Picture of the chamber, answer: photo, as: picture}
  - ask_operator: {message: Table of the plate reader, answer: file, types: [csv], as: plate}
  - assay: {analyte: lactate, vessel: loop, as: assayed}
  - approve: {message: Go on, role: operator, as: decision}
  - note: {kind: seen, values: {picture: picture, plate: plate, decision: decision}}
"""


WEEKLY = """NAME = "weekly"
TITLE = "Note the week"
PARAMS = ()


async def protocol(lab, params):
    await lab.note("week", {})
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "recipes").mkdir()
    (folder / "recipes" / "asking.yaml").write_text(ASKING)
    return folder


@pytest.fixture(scope="module")
def demo(data: Path) -> Iterator[Server]:
    port = free_port()
    server = Server(("choroid", "demo", "--port", str(port), "--for", "170s", "--data", str(data)), port)
    try:
        yield server
    finally:
        server.end()


def answered(data: Path, *text: str, verb: str = "answer") -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-m", "choroid", "protocol", verb, *text, "--data", str(data))
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_questions_are_answered_on_the_page_and_on_the_command_line(browser: Browser, demo: Server, data: Path) -> None:
    with visiting(browser, demo.url, size=(1440, 900)) as visit:
        page = visit.live()
        run_state = page.get_by_test_id("run-state")
        expect(run_state).to_have_text("running")
        page.get_by_test_id("abort-run").click()
        page.get_by_test_id("dialog-confirm").click()
        expect(run_state).to_have_text("aborted")
        page.get_by_test_id("protocol-select").select_option("asking")
        page.get_by_test_id("start-run").click()
        card = page.get_by_test_id("question")
        expect(card).to_contain_text("Lactate of the loop: a number in mM, 0 to 20")
        expect(run_state).to_have_text("held")
        expect(page.get_by_test_id("resume-run")).to_be_disabled()
        field = page.get_by_test_id("question-answer")
        field.fill("25 mM")
        page.get_by_test_id("answer-run").click()
        expect(page.locator("body")).to_contain_text("25 mM is out of range")
        expect(field).to_have_value("25 mM")
        RESULTS.mkdir(exist_ok=True)
        page.screenshot(path=RESULTS / "question.png")
        field.fill("12.5 mM")
        page.get_by_test_id("answer-run").click()
        expect(card).to_contain_text("Look of the medium: one of clear, cloudy")
        expect(run_state).to_have_text("held")
        refused = answered(data, "dark")
        assert refused.returncode == 1
        assert "“dark” is no answer here" in refused.stderr
        assert "Next: answer one of clear, cloudy" in refused.stderr
        expect(card).to_contain_text("Look of the medium")
        page.get_by_test_id("question-answer").select_option("cloudy")
        page.get_by_test_id("answer-run").click()
        expect(card).to_contain_text("Remarks: a text of at most 500 characters")
        expect(run_state).to_have_text("held")
        given = answered(data, "all is well")
        assert given.returncode == 0, given.stderr
        expect(card).to_contain_text("Picture of the chamber: a photo (jpg, png, webp) of at most 16 MB")
        expect(run_state).to_have_text("held")
        field = page.get_by_test_id("question-answer")
        expect(field).to_have_attribute("accept", "image/jpeg,image/png,image/webp")
        photo, text_file = data / "chamber.png", data / "notes.png"
        photo.write_bytes(image(size=(640, 480)))
        text_file.write_text("no picture")
        field.set_input_files(text_file)
        page.get_by_test_id("answer-run").click()
        expect(page.locator("body")).to_contain_text("is of another type, or damaged")
        field.set_input_files(photo)
        page.get_by_test_id("answer-run").click()
        expect(card).to_contain_text("Table of the plate reader: a file (csv)")
        picture = page.get_by_test_id("step-upload").locator("img")
        expect(picture).to_be_visible()
        page.wait_for_function("() => document.querySelector('.step-photo')?.naturalWidth === 640")
        expect(run_state).to_have_text("held")
        table = data / "plate.csv"
        table.write_text("well,od\nA1,0.2\n")
        refused = answered(data, "--file", str(photo))
        assert (refused.returncode, "is of the type png" in refused.stderr) == (1, True)
        given = answered(data, "--file", str(table))
        assert given.returncode == 0, given.stderr
        expect(card).to_contain_text("lactate in “loop”: a number in mmol/L")
        expect(run_state).to_have_text("held")
        page.screenshot(path=RESULTS / "question-assay.png")
        page.get_by_test_id("question-answer").fill("0.3 mM")
        page.get_by_test_id("answer-run").click()
        expect(card).to_contain_text("Go on: approval or rejection by the role operator")
        expect(run_state).to_have_text("held")
        page.get_by_test_id("question-answer").select_option("reject")
        page.get_by_test_id("answer-run").click()
        expect(page.locator("body")).to_contain_text("A rejection needs a reason")
        page.get_by_test_id("question-more").fill("fine")
        page.get_by_test_id("question-answer").select_option("approve")
        page.get_by_test_id("answer-run").click()
        expect(run_state).to_have_text("complete")
        expect(card).to_be_hidden()
        expect(page.get_by_test_id("step").filter(has_text="12.5 mM")).to_be_visible()
        page.get_by_test_id("library").locator("summary").click()
        upload = data / "weekly.py"
        upload.write_text(WEEKLY)
        page.get_by_test_id("library-file").set_input_files(upload)
        page.get_by_test_id("library-submit").click()
        version = page.get_by_test_id("library-version")
        expect(version).to_contain_text("weekly.py: submitted")
        version.get_by_text("Read").click()
        expect(page.get_by_test_id("library-text")).to_contain_text('NAME = "weekly"')
        version.get_by_text("Accept").click()
        expect(page.locator("body")).to_contain_text("operator may not do this")
        page.screenshot(path=RESULTS / "library.png")
        listed = answered(data, verb="list")
        assert "submitted  weekly.py  (submitted by demo)" in listed.stdout, listed.stderr
        assert [text for text in visit.complaints if "422" not in text and "403" not in text] == []
