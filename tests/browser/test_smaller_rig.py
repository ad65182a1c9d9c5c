"""The page of a rig that lacks organs and stands in an incubator: what is absent, the zones, the missing functions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from controller.rig.loading import load_rig
from controller.rig.schematic import describe
from tests.browser.pages import RESULTS, ROOT, Server, serving, visiting

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")

RIGS = ROOT / "examples" / "rigs"
SIZES = {"desk": (1400, 1000), "tablet": (1024, 768), "phone": (390, 844)}
LAY_OUT = "async graph => (await import('/static/js/schematic/layout.js')).layOut(graph)"


@pytest.fixture(scope="module")
def incubator() -> Iterator[Server]:
    with serving("--rig", str(RIGS / "incubator.yaml")) as found:
        yield found


def capabilities(page: Page) -> list[dict[str, Any]]:
    """The functions of the rig, as the API lists them."""
    found: list[dict[str, Any]] = page.evaluate("async () => (await (await fetch('/api/rig')).json()).capabilities")
    return found


def within(inner: dict[str, float], outer: dict[str, float]) -> bool:
    """Whether one box of a layout lies inside another."""
    return (
        outer["x"] <= inner["x"]
        and inner["x"] + inner["w"] <= outer["x"] + outer["w"]
        and outer["y"] <= inner["y"]
        and inner["y"] + inner["h"] <= outer["y"] + outer["h"]
    )


def overlap(a: dict[str, float], b: dict[str, float]) -> bool:
    """Whether two boxes of a layout overlap."""
    apart_x = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
    return not (apart_x or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"])


@pytest.mark.parametrize("name", SIZES)
def test_what_the_rig_lacks_is_not_shown(browser: Browser, incubator: Server, name: str) -> None:
    with visiting(browser, incubator.url, size=SIZES[name]) as visit:
        page = visit.live()
        expect(page.get_by_test_id("nerves")).to_be_hidden()
        expect(page.locator("#schematic .electrode")).to_have_count(0)
        expect(page.locator("#schematic .heater")).to_have_count(0)
        expect(page.locator("#schematic .gas-box")).to_have_count(0)
        expect(page.locator('[data-vessel="loop"] .vessel-volume')).to_contain_text("mL")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        RESULTS.mkdir(exist_ok=True)
        page.screenshot(path=RESULTS / f"incubator-{name}.png")
        assert visit.complaints == []


def test_a_whole_rig_shows_its_electrodes_its_heater_and_its_refrigerator(browser: Browser, server: Server) -> None:
    with visiting(browser, server.url) as visit:
        page = visit.live()
        expect(page.get_by_test_id("nerves")).to_be_visible()
        expect(page.locator("#schematic .heater")).to_have_count(1)
        expect(page.locator("#schematic .zone")).to_have_count(1)
        expect(page.locator('#schematic .zone[data-zone="fridge"] text').first).to_contain_text("fridge")


@pytest.mark.parametrize("name", SIZES)
def test_a_zone_is_a_frame_behind_its_vessels(browser: Browser, incubator: Server, name: str) -> None:
    with visiting(browser, incubator.url, size=SIZES[name]) as visit:
        page = visit.live()
        zone = page.locator('#schematic .zone[data-zone="incubator"]')
        expect(zone).to_have_count(1)
        expect(zone.locator("text")).to_have_text("incubator 37 °C, 5 % CO₂")
        assert zone.locator("title").text_content() == "incubator: 37 °C, 5 % CO₂, 18.6 % O₂"
        assert page.evaluate("document.querySelector('#schematic').firstElementChild.matches('.zones')")
        placed = page.evaluate(
            """() => { const box = n => n.getBoundingClientRect(), frame = box(document.querySelector('.zone-box'));
              const inside = b => frame.left <= b.left && b.right <= frame.right
                && frame.top <= b.top && b.bottom <= frame.bottom;
              return Object.fromEntries([...document.querySelectorAll('.vessel')]
                .map(n => [n.dataset.vessel, inside(box(n.querySelector('.glass-edge')))])); }"""
        )
        assert placed == {
            "loop": True, "chamber": True, "spent": True,
            "reservoir": False, "glucose": False, "base": False, "waste": False,
        }  # fmt: skip
        assert covered(page) == []


def covered(page: Page) -> list[str]:
    """What lies over the label of a zone."""
    found: list[str] = page.evaluate(
        """() => { const box = n => n.getBoundingClientRect();
          const labels = [...document.querySelectorAll('.zone-label')].map(box);
          const others = '.chip-box, .glass-edge, .device .body, .pipe, .now text, .organ, .vessel-name';
          const cross = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
          const parts = n => { if (!n.matches('.pipe')) return [box(n)];
            const at = n.getScreenCTM(), all = n.getTotalLength();
            return Array.from({ length: 200 }, (_, i) => { const p = n.getPointAtLength((all * i) / 199).matrixTransform(at);
              return { left: p.x - 2, right: p.x + 2, top: p.y - 2, bottom: p.y + 2 }; }); };
          return [...document.querySelectorAll(others)].filter(n => n.closest('#schematic') && n.checkVisibility())
            .filter(n => parts(n).some(a => labels.some(b => cross(a, b)))).map(n => n.getAttribute('class')); }"""
    )
    return found


ROWS = ("incubator", "bench")
"""Rigs whose vessels are drawn in one row."""
Inside = dict[str, tuple[str, ...]]
"""The vessels inside each zone."""

ZONES: dict[str, tuple[Inside, dict[str, int]]] = {
    "two neighbours": ({"incubator": ("loop", "chamber")}, {"incubator": 1}),
    "the chamber alone": ({"incubator": ("chamber",)}, {"incubator": 1}),
    "the loop between is outside": ({"incubator": ("spent", "chamber")}, {"incubator": 2}),
    "two zones": (
        {"incubator": ("loop", "chamber"), "refrigerator": ("reservoir", "glucose")},
        {"incubator": 1, "refrigerator": 1},
    ),
    "one vessel each": (
        {"warm": ("loop",), "incubator": ("chamber",), "cold": ("glucose",)},
        {"warm": 1, "incubator": 1, "cold": 1},
    ),
    "everything": (
        {"box": ("reservoir", "glucose", "base", "basal", "loop", "chamber", "spent", "waste")},
        {"box": 1},
    ),
    "the second lies across the first": (
        {"one": ("spent", "chamber", "loop"), "two": ("reservoir", "waste")},
        {"one": 1, "two": 2},
    ),
    "nothing inside": ({"spare": ()}, {"spare": 0}),
}  # fmt: skip


def zoned(rig: str, inside: Inside) -> dict[str, Any]:
    """The graph of an example rig with these zones instead of its own."""
    graph = describe(load_rig(RIGS / f"{rig}.yaml"))
    zone_of = {vessel: zone for zone, vessels in inside.items() for vessel in vessels}
    graph["vessels"] = [vessel | {"zone": zone_of.get(vessel["name"])} for vessel in graph["vessels"]]
    graph["zones"] = [{"name": zone, "temperature_c": 4.0, "co2_pct": 0.04, "oxygen_pct": 20.9} for zone in inside]
    return graph


@pytest.mark.parametrize("rig", ["incubator", "bench", "other_makers", "bench_dialysis"])
def test_frames_surround_the_vessels_of_a_zone_and_no_others(browser: Browser, server: Server, rig: str) -> None:
    with visiting(browser, server.url) as visit:
        page = visit.live()
        for case, (inside, counts) in ZONES.items():
            plan = page.evaluate(LAY_OUT, zoned(rig, inside))
            frames = plan["zones"]
            # In columns, what stands on the lines may part a zone. The gas mixer of the bench rig stands outside, in the
            # middle of "everything".
            if rig in ROWS and (plan["gas"] is None or case != "everything"):
                found = {zone: sum(frame["zone"]["name"] == zone for frame in frames) for zone in inside}
                assert found == counts, case
            check_frames(plan, inside, case)


def check_frames(plan: dict[str, Any], inside: Inside, case: str) -> None:
    """Each vessel of a zone lies in one frame of it; frames overlap neither other vessels nor each other."""
    frames = plan["zones"]
    for frame in frames:
        zone = frame["zone"]["name"]
        for name, vessel in plan["vessels"].items():
            if name in frame["vessels"]:
                assert within(vessel, frame), (case, zone, name)
            else:
                assert not overlap(vessel, frame), (case, zone, name)
        assert not any(overlap(frame, other) for other in frames if other is not frame), (case, zone)
        assert plan["gas"] is None or not overlap(plan["gas"], frame), (case, zone)
        drawing = {"x": 0.0, "y": plan["top"], "w": plan["width"], "h": plan["height"] - plan["top"]}
        assert within(frame, drawing), (case, zone)
    drawn = [(frame["zone"]["name"], vessel) for frame in frames for vessel in frame["vessels"]]
    present = [(zone, name) for zone, names in inside.items() for name in names if name in plan["vessels"]]
    assert sorted(drawn) == sorted(present), case


def test_a_long_label_stays_within_a_narrow_frame(browser: Browser, server: Server) -> None:
    graph = zoned("bench", {"refrigerator_of_the_cell_culture": ("reservoir",)})
    with visiting(browser, server.url) as visit:
        label, frame = visit.live().evaluate(
            f"""async graph => {{ const plan = await ({LAY_OUT})(graph);
              const {{ zoneFrame }} = await import('/static/js/schematic/symbols.js');
              const node = zoneFrame(plan.zones[0]); document.querySelector('#schematic').append(node);
              return ['.zone-label', '.zone-box'].map(part => {{ const box = node.querySelector(part).getBBox();
                return {{ x: box.x, y: box.y, w: box.width, h: box.height }}; }}); }}""",
            graph,
        )
    assert within(label, frame)


@pytest.mark.parametrize("name", SIZES)
def test_the_functions_that_the_rig_lacks_are_listed(browser: Browser, incubator: Server, name: str) -> None:
    with visiting(browser, incubator.url, size=SIZES[name]) as visit:
        page = visit.live()
        lacking = [row for row in capabilities(page) if not row["available"]]
        assert {row["function"] for row in lacking} >= {"temperature_control", "gas_control", "electrophysiology"}
        card = page.get_by_test_id("functions")
        rows = card.locator("li")
        expect(rows).to_have_count(len(lacking))
        expect(rows.first).to_be_hidden()
        card.locator("summary").click()
        for row in lacking:
            shown = card.locator(f'[data-function="{row["function"]}"]')
            expect(shown).to_be_visible()
            expect(shown.locator("strong")).to_have_text(f"No {row['title']}")
            expect(shown).to_contain_text(row["without"][1:])
            for need in row["lacks"]:
                expect(shown).to_contain_text(need)
        expect(card).to_contain_text("pH is not regulated")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.screenshot(path=RESULTS / f"functions-{name}.png")
        assert visit.complaints == []


def test_a_rig_that_lacks_nothing_has_no_list_of_functions(browser: Browser, incubator: Server) -> None:
    with visiting(browser, incubator.url) as visit:
        page = visit.live()
        card = page.get_by_test_id("functions")
        expect(card).to_be_visible()
        everything = [row | {"available": True, "lacks": []} for row in capabilities(page)]
        page.evaluate(
            """async rows => { document.getElementById("functions").remove();
              (await import("/static/js/cards/functions.js")).start({ capabilities: rows }); }""",
            everything,
        )
        expect(card).to_be_hidden()


@pytest.mark.parametrize("width", [1360, 1400, 1440, 1600, 1601, 1920, 1024, 390])
def test_the_columns_of_the_ratings_do_not_run_into_each_other(browser: Browser, server: Server, width: int) -> None:
    with visiting(browser, server.url, size=(width, 1000)) as visit:
        page = visit.live()
        rows = page.evaluate(
            """() => [...document.querySelector('.rating').rows].map(row => [...row.cells]
              .filter(cell => cell.textContent).map(cell => {
                const range = document.createRange(); range.selectNodeContents(cell);
                const box = range.getBoundingClientRect(); return [box.left, box.right]; }))"""
        )
        assert [len(row) for row in rows] == [3, 4, 4]
        for row in rows:
            gaps = [after[0] - before[1] for before, after in itertools.pairwise(row)]
            assert min(gaps) >= 5.0, row


def test_parameters_have_plain_names_and_printed_units_that_can_be_sent(browser: Browser, server: Server) -> None:
    with visiting(browser, server.url) as visit:
        page = visit.live()
        page.get_by_test_id("protocol-select").select_option("recycle")
        field = page.locator('label[for="param-min_batch"]')
        expect(field.locator(".param-name")).to_have_text("min batch")
        expect(page.get_by_test_id("param-min_batch")).to_have_value("0 µL")
        expect(field.locator(".param-help")).to_contain_text("0 µL to 35 mL")
        words = page.locator("#params").text_content() or ""
        assert "_" not in words
        assert "uL" not in words
        with page.expect_response("**/api/runs") as answer:
            page.get_by_test_id("start-run").click()
        assert answer.value.ok
        assert answer.value.json()["params"]["min_batch_ul"] == 0.0
