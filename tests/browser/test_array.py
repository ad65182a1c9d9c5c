"""The electrode array on the page: map, waveforms, leases, agents and the stimulation ledger, for 32 and 1,024 electrodes.

One page without a server serves all tests of this file; `python -m tests.browser.test_array FOLDER` writes pictures.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from controller.rig.description import Rig
from controller.rig.loading import load_rig
from dashboards.models.nerves import ElectrodesModel, LeasesModel, ResponsesModel, StimulationsModel, WaveformsModel
from tests.browser.pages import Visit, chromium
from tests.browser.stage import SIZES, rig_answer, staged

BENCH = load_rig(Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml")
DEAD, NOISY, SILENT = 5, 9, 12
RECORDS = 60


class Engine:
    """Answers of the API for an array, and what the page asked for."""

    def __init__(self, rig: Rig, role: str) -> None:
        assert rig.nerves is not None
        self.count = rig.nerves.electrodes
        self.rig, self.role = rig, role
        self.leases = [
            {"requester": "pong", "electrodes": [0, 1, 2, 3], "held": True, "ends_in_s": 0.4, "silent_s": 0.01},
            {"requester": "vowels", "electrodes": list(range(8, 24)), "held": False, "ends_in_s": 1.4, "silent_s": 0.6},
        ]
        self.revoked: set[str] = set()
        self.sent: list[tuple[str, Any]] = []
        self.positions: dict[str, Any] = {}

    def answer(self, route: Route, path: str) -> bool:
        """Answer a request of the nerves; returns whether it was one."""
        if path == "api/rig":
            route.fulfill(json=rig_answer(self.rig) | {"role": self.role})
            return True
        if not path.startswith(("api/nerves/", "api/agents/")):
            return False
        if route.request.method == "POST":
            self.sent.append((path, json.loads(route.request.post_data or "{}")))
            if path.endswith("/revoke"):
                self.revoked.add(path.split("/")[2])
            self.leases = [each for each in self.leases if each["requester"] != "pong"]
            route.fulfill(json={"confirmed": True, "agents": []})
            return True
        what = path.split("/")[2]
        query = {name: values[0] for name, values in parse_qs(urlsplit(route.request.url).query).items()}
        body = {  # type: ignore[no-untyped-call]
            "electrodes": self.electrodes,
            "waveforms": lambda: self.waveforms(int(path.rpartition("/")[2])),
            "responses": lambda: self.responses(int(path.rpartition("/")[2])),
            "leases": self.held,
            "stimulation": lambda: self.stimulation(query),
        }[what]()
        route.fulfill(json=body)
        return True

    def electrodes(self) -> dict[str, Any]:
        names = {DEAD: "dead", NOISY: "noisy", 20: "saturated"}
        states = [names.get(k, "ok") for k in range(self.count)]
        wave = [0.5 + 0.5 * math.sin(k / 3.0) * math.cos(k / math.sqrt(self.count)) for k in range(self.count)]
        rates = [None if states[k] != "ok" else round(12.0 * wave[k] ** 2, 2) for k in range(self.count)]
        return ElectrodesModel(
            states=states,
            rates_hz=rates,
            amplitudes_uv=[None if rate is None else 30.0 + 140.0 * wave[k] for k, rate in enumerate(rates)],
            noise_uv=[4.0 + (30.0 if states[k] == "noisy" else wave[k]) for k in range(self.count)],
            impedances_kohm=[None if k == SILENT else 80.0 + 200.0 * wave[k] for k in range(self.count)],
            bursts_min=[6.0] * self.count,
            deviation=[None if rate is None else 4.0 * (wave[k] - 0.5) for k, rate in enumerate(rates)],
            muted_pct=[2.0 * wave[k] for k in range(self.count)],
            muted_by={"stimulation": [2.0 * wave[k] for k in range(self.count)], "artefact": [0.0] * self.count},
            **self.positions,
        ).model_dump()

    def waveforms(self, electrode: int) -> dict[str, Any]:
        shape = [-120.0 * math.exp(-(((k - 25) / 5) ** 2)) + 30.0 * math.exp(-(((k - 36) / 7) ** 2)) for k in range(75)]
        traces = (
            []
            if electrode == SILENT
            else [[v + 6 * math.sin(k * (n + 2)) for k, v in enumerate(shape)] for n in range(9)]
        )
        model = WaveformsModel(electrode=electrode, sample_rate_hz=25_000.0, before=25, traces_uv=traces)
        return model.model_dump()

    def responses(self, electrode: int) -> dict[str, Any]:
        """Sixty pulses a moment ago, hidden for 3 ms, with an answer at 8 ms; none for the silent electrode."""
        trials = 0 if electrode == SILENT else 60
        edges = [float(ms) for ms in range(-20, 51)]
        hidden = [0.0 <= ms < 3.0 for ms in edges[:-1]]
        answer = [
            0.0 if lost else 0.004 + 0.2 * math.exp(-(((ms - 8) / 3) ** 2))
            for lost, ms in zip(hidden, edges[:-1], strict=True)
        ]
        counts = [round(trials * each) if ms >= 0 else int(ms) % 2 for each, ms in zip(answer, edges[:-1], strict=True)]
        seconds = [0.0 if lost else trials * 1e-3 for lost in hidden]
        rates = [n / s if s else None for n, s in zip(counts, seconds, strict=True)]
        before = sum(counts[:20]) / sum(seconds[:20]) if trials else None
        return ResponsesModel(
            electrode=electrode, seconds=300.0, trials=trials, overlapping=trials // 20, edges_ms=edges, counts=counts,
            observed_s=seconds, rate_hz=rates, baseline_hz=before, baseline_low_hz=before and 0.6 * before,
            baseline_high_hz=before and 1.6 * before,
        ).model_dump()  # fmt: skip

    def held(self) -> dict[str, Any]:
        names = {"pong": "agent", "vowels": "agent", "viewer": "reader"}
        agents = [{"name": name, "role": role, "revoked": name in self.revoked} for name, role in names.items()]
        rows = [
            ("", "pulses of the last minute", 120, 20_000, ""), ("", "charge of the last hour", 52_000, 60_000, "nC"),
            ("", "time of the last hour", 310, 1800, "s"), ("", "time of the last day", 3.5, 16, "h"),
            ("pong", "pulses of the last minute", 110, 12_000, ""),
        ]  # fmt: skip
        keys = ("requester", "name", "used", "limit", "unit")
        budgets = [dict(zip(keys, row, strict=True)) for row in rows]
        return LeasesModel.model_validate(
            {"answers": True, "agents": agents, "leases": self.leases, "budgets": budgets}
        ).model_dump()

    def stimulation(self, query: dict[str, str]) -> dict[str, Any]:
        self.sent.append(("stimulation", query))
        records = [
            {
                "decision": number, "session_utc": "2026-05-04T08:00:00Z", "at_s": 60.0 * number,
                "requester": "pong" if number % 3 else "vowels", "purpose": "a test", "electrodes": [number % 4],
                "accepted": bool(number % 5), "limiting": "" if number % 5 else "organoid_nc_h",
                "reasons": [] if number % 5 else ["the organoid's charge of the hour is used up"], "charge_nc": 0.4,
                "pulses": {"delivered": 3} if number % 5 else {},
            }
            for number in range(RECORDS, 0, -1)
        ]  # fmt: skip
        found = [
            each
            for each in records
            if int(str(each["decision"])) < int(query.get("before", 10**9))
            and each["requester"] == query.get("requester", each["requester"])
            and ("electrode" not in query or each["electrodes"] == [int(query["electrode"])])
        ]
        limit = int(query["limit"])
        return StimulationsModel.model_validate({"records": found[:limit], "more": len(found) > limit}).model_dump()


def large() -> Rig:
    assert BENCH.nerves is not None
    return BENCH.model_copy(update={"nerves": BENCH.nerves.model_copy(update={"electrodes": 1024})})


def opened(
    browser: Browser, rig: Rig, size: str, role: str = "admin", **positions: Any
) -> Iterator[tuple[Visit, Engine]]:
    engine = Engine(rig, role)
    engine.positions = positions
    with staged(browser, rig, size=SIZES[size], api=engine.answer) as visit:
        visit.page.get_by_test_id("array-open").click()
        visit.page.locator('#array-cells [data-electrode="0"][aria-label*="Hz"]').wait_for()
        yield visit, engine


@pytest.fixture(scope="module")
def desk(browser: Browser) -> Iterator[tuple[Visit, Engine]]:
    yield from opened(browser, BENCH, "desk")


def cell(page: Page, electrode: int) -> Any:
    return page.locator(f'#array-cells [data-electrode="{electrode}"]')


def test_the_map_shows_figures_and_states_and_the_switch_changes_them(desk: tuple[Visit, Engine]) -> None:
    page = desk[0].page
    assert page.locator("#array-cells button").count() == 32
    expect(cell(page, 0)).to_have_attribute("aria-label", "Electrode 0: ok, rate 3.0 Hz")
    expect(cell(page, DEAD)).to_have_attribute("aria-label", f"Electrode {DEAD}: dead, rate not known")
    expect(cell(page, DEAD)).to_have_text("D")
    colours = {}
    for figure in ("amplitude", "noise", "impedance", "deviation", "state", "rate"):
        page.locator(f'#array-figures [data-figure="{figure}"]').click()
        expect(page.locator(f'#array-figures [data-figure="{figure}"]')).to_have_attribute("aria-pressed", "true")
        colours[figure] = [cell(page, k).evaluate("node => getComputedStyle(node).background") for k in (0, 3, NOISY)]
    assert len({tuple(each) for each in colours.values()}) == 6, "each figure has colours of its own"
    assert page.locator('#array-figures [aria-pressed="true"]').count() == 1
    assert desk[0].complaints == []


def test_keys_move_over_the_map_and_the_selected_electrode_shows_its_waveforms(desk: tuple[Visit, Engine]) -> None:
    page = desk[0].page
    cell(page, 0).click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(cell(page, 7)).to_be_focused()
    expect(cell(page, 7)).to_have_attribute("aria-selected", "true")
    assert page.locator('#array-cells [tabindex="0"]').count() == 1, "the map is one stop of the Tab key"
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    expect(cell(page, 0)).to_be_focused()
    expect(page.locator("#array-caption")).to_contain_text("9 spikes, mean trough −")
    expect(page.get_by_test_id("array-waves")).to_have_attribute("aria-label", re.compile("9 spikes, mean trough"))
    page.get_by_test_id("array-number").fill(str(SILENT))
    page.get_by_test_id("array-number").press("Tab")
    expect(page.locator("#array-caption")).to_have_text("No spike in the last seconds")
    expect(page.get_by_test_id("array-words")).to_contain_text("Impedance not known")


def test_responses_to_pulses_are_a_picture_words_and_a_table_and_what_is_hidden_is_not_zero(
    desk: tuple[Visit, Engine],
) -> None:
    page = desk[0].page
    cell(page, 3).click()
    caption = page.get_by_test_id("array-responses-caption")
    expect(caption).to_contain_text("60 pulses in the last 5.0 min, 3 with another one near, highest 200 Hz at 8.0 ms")
    expect(caption).to_contain_text("not observed: 3.0 ms")
    expect(page.get_by_test_id("array-responses")).to_have_attribute("aria-label", re.compile("highest 200 Hz"))
    page.get_by_text("Responses as a table").click()
    rows = page.locator("#array-responses-rows tr")
    expect(rows).to_have_count(70)
    expect(rows.nth(20)).to_have_text("0.0 to 1.0not observed–0 %")
    expect(rows.nth(28)).to_have_text("8.0 to 9.0200.012100 %")
    page.get_by_text("Responses as a table").click()
    page.get_by_test_id("array-number").fill(str(SILENT))
    page.get_by_test_id("array-number").press("Tab")
    expect(caption).to_have_text("No pulse in the last 5.0 min")
    expect(rows).to_have_count(0)
    assert desk[0].complaints == []


def test_the_stimulation_ledger_is_filtered_and_goes_back(desk: tuple[Visit, Engine]) -> None:
    page = desk[0].page
    records = page.get_by_test_id("array-record")
    expect(records).to_have_count(25)
    expect(records.nth(0)).to_contain_text("refused: organoid_nc_h")
    page.locator("#array-older").click()
    expect(records).to_have_count(50)
    page.locator("#array-older").click()
    expect(records).to_have_count(RECORDS)
    expect(page.locator("#array-older")).to_be_hidden()
    for _ in range(2):  # the second one is asked for after the first one is shown
        with page.expect_response(lambda response: "/stimulation?" in response.url and "before" not in response.url):
            pass
    expect(page.locator("#array-older"), "a renewal of the newest records brings no older ones").to_be_hidden()
    page.get_by_test_id("array-by-agent").fill("vowels")
    page.get_by_test_id("array-by-electrode").fill("3")
    page.get_by_role("button", name="Filter").click()
    expect(records).to_have_count(5)
    assert set(records.locator("strong").all_inner_texts()) == {"vowels"}


def test_S2_an_operator_ends_leases_and_an_admin_revokes_with_a_reason(desk: tuple[Visit, Engine]) -> None:
    visit, engine = desk
    page = visit.page
    expect(page.get_by_test_id("array-lease")).to_have_count(2)
    expect(page.get_by_test_id("array-budget")).to_have_count(5)
    page.get_by_role("button", name="End leases of pong").click()
    page.get_by_test_id("dialog-confirm").click()
    expect(page.locator("#dialog-reason:invalid")).to_be_visible()
    page.locator("#dialog-reason").fill("it stimulates too much")
    page.get_by_test_id("dialog-confirm").click()
    expect(page.get_by_test_id("array-lease")).to_have_count(1)
    expect(page.get_by_test_id("array-agent")).to_have_count(2)
    page.get_by_role("button", name="Revoke of pong").click()
    page.locator("#dialog-reason").fill("it is gone")
    page.get_by_test_id("dialog-confirm").click()
    expect(page.get_by_test_id("array-agent")).to_have_count(1)
    posts = [each for each in engine.sent if each[0] != "stimulation"]
    assert posts == [
        ("api/nerves/leases/end", {"requester": "pong", "reason": "it stimulates too much"}),
        ("api/agents/pong/revoke", {"reason": "it is gone"}),
    ]
    assert visit.complaints == []


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_S2_a_viewer_sees_agents_and_leases_but_has_no_button(browser: Browser, role: str) -> None:
    for visit, _ in opened(browser, BENCH, "phone", role):
        expect(visit.page.get_by_test_id("array-lease")).to_have_count(2)
        expect(visit.page.get_by_test_id("array-agent")).to_have_count(1)
        names = visit.page.locator("#array-leases button").all_inner_texts()
        assert names == ([] if role == "viewer" else ["End leases"] * 2)


def test_the_cells_lie_as_the_electrodes_of_a_shank_do_and_keys_go_along_it(browser: Browser) -> None:
    """Two columns, 50 µm apart, shifted by half of their pitch; numbered from the tip upwards."""
    at: dict[str, Any] = {"x_um": [50.0 * (k % 2) for k in range(32)], "y_um": [20.0 * k for k in range(32)]}
    for visit, _ in opened(browser, BENCH, "desk", geometry="probe X; positions: rig file", **at):
        page = visit.page
        expect(page.get_by_test_id("array-geometry")).to_have_text("probe X; positions: rig file")
        boxes = [cell(page, k).bounding_box() for k in range(32)]
        assert all(one["y"] > other["y"] for one, other in pairwise(boxes)), "y grows upwards"
        assert {box["x"] for box in boxes[::2]} == {boxes[0]["x"]}
        assert boxes[1]["x"] > boxes[0]["x"]
        cell(page, 0).click()
        page.keyboard.press("ArrowUp")
        expect(cell(page, 2)).to_be_focused()
        page.keyboard.press("End")
        page.keyboard.press("ArrowUp")
        expect(cell(page, 31)).to_be_focused()
        assert page.locator('#array-cells [role="row"]').count() == 32
        assert visit.complaints == []


def test_1024_electrodes_fit_a_phone_and_are_drawn_in_time(browser: Browser) -> None:
    for visit, _ in opened(browser, large(), "phone"):
        page = visit.page
        assert page.locator("#array-cells button").count() == 1024
        wide = page.evaluate("() => [document.querySelector('#array').scrollWidth, innerWidth]")
        assert wide[0] <= wide[1]
        box = cell(page, 1023).bounding_box()
        assert box is not None
        assert box["width"] >= 8.0
        assert box["x"] + box["width"] <= 390.0
        page.get_by_test_id("array-number").fill("1023")
        page.get_by_test_id("array-number").press("Tab")
        expect(cell(page, 1023)).to_have_attribute("aria-selected", "true")
        expect(page.locator("#array-caption")).to_contain_text("9 spikes")
        page.locator("#array-close").click()
        page.wait_for_timeout(500)  # what was asked before the click is reported by then
        asked = len(visit.asked)
        page.wait_for_timeout(2500)
        assert not [url for url in visit.asked[asked:] if "/nerves/" in url], "a closed dialog asks for nothing"
        assert visit.complaints == []


def main() -> None:
    """Write pictures of the dialog."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for name, rig in (("32", BENCH), ("1024", large())):
            for size in SIZES:
                for visit, _ in opened(browser, rig, size):
                    cell(visit.page, 3).click()
                    visit.page.wait_for_timeout(600)
                    visit.page.screenshot(path=folder / f"array-{name}-{size}.png")
                    if size == "phone":
                        visit.page.locator("#array-records").scroll_into_view_if_needed()
                        visit.page.screenshot(path=folder / f"array-{name}-{size}-below.png")


if __name__ == "__main__":
    main()
