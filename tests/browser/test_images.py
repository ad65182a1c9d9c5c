"""The images card in Chromium: outline over the image, figures, verdict, time-lapse, a telephone."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Route, expect

from controller.rig.camera import CameraSpec
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from tests.browser.pages import RESULTS
from tests.browser.stage import SIZES, staged
from tests.dashboards.fake_rig import BENCH

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")
FEATURES = {
    "area_mm2": 2.01, "area_sd_mm2": 0.04, "diameter_mm": 1.6, "feret_mm": 1.7, "circularity": 0.93, "solidity": 0.98,
    "rim_width_um": 18.0, "opacity": 0.42, "core_opacity": 1.3, "entropy_bits": 3.2,
}  # fmt: skip
GROWTH = {"per_day": 0.031, "low": 0.022, "high": 0.041, "images": 12, "span_d": 3.0}
BOX = "node => { const b = node.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2, b.width, b.height]; }"
WATCH = """image => { window.seen = []; new MutationObserver(() => window.seen.push(image.getAttribute("src")))
    .observe(image, { attributeFilter: ["src"] }); }"""
"""Notes every image from now on: how fast the time-lapse plays is not for a busy machine to judge."""
SQUARE = "250,250 750,250 750,750 250,750"


def frame(number: int, *, verdict: str = "usable", **changed: Any) -> dict[str, Any]:
    known = {"utc": f"2026-05-04T0{number}:00:00.000Z", "src": f"/api/images/scope/2026050{number}.webp"}
    features = FEATURES | {"diameter_mm": 1.5 + number / 10}
    return known | {
        "usable": verdict == "usable", "verdict": verdict, "features": features, "growth": GROWTH, "outline": SQUARE,
        "objects": 1, "note": "",
    } | changed  # fmt: skip


NOTE = "Not measured: 1 other object with the outline of tissue (0.45 mm²)."
FRAMES = [frame(1), frame(2, src=None), frame(3), frame(4, verdict="out of focus", growth=None, objects=2, note=NOTE)]


def picture() -> bytes:
    image = Image.new("L", (320, 240), 200)
    ImageDraw.Draw(image).ellipse((80, 60, 240, 180), fill=60)
    kept = BytesIO()
    image.save(kept, "WEBP")
    return kept.getvalue()


def watched() -> Rig:
    """A rig with a camera."""
    camera = CameraSpec.model_validate({"model": "simulated", "chamber": "chamber", "pixel": "2 um"})
    return load_rig(BENCH).model_copy(update={"cameras": {"scope": camera}})


def api(problem: str = "", *, gone: str = "") -> Callable[[Route, str], bool]:
    """The answers of the API; the file of the image `gone` is not there."""
    content = picture()

    def answer(route: Route, path: str) -> bool:
        if path == "api/images":
            camera = {
                "camera": "scope",
                "chamber": "chamber",
                "every_s": 3600.0,
                "newest": FRAMES[-1],
                "usable": FRAMES[2],
            }
            route.fulfill(json={"cameras": [camera | {"frames": 4, "problem": problem}]})
        elif path == "api/images/scope":
            route.fulfill(json={"camera": "scope", "chamber": "chamber", "frames": FRAMES})
        elif gone and path == gone.removeprefix("/"):
            route.fulfill(status=404, json={"error": {"what": "no such image", "where": "", "cause": "", "action": ""}})
        elif path.startswith("api/images/scope/"):
            route.fulfill(body=content, content_type="image/webp")
        else:
            return False
        return True

    return answer


@pytest.mark.parametrize("size", SIZES)
def test_the_newest_image_its_verdict_and_the_time_lapse(browser: Browser, size: str) -> None:
    with staged(browser, watched(), size=SIZES[size], api=api("the disk is full")) as visit:
        card = visit.page.get_by_test_id("images")
        image, slider = card.locator("img"), card.get_by_role("slider")
        expect(image).to_have_attribute("src", FRAMES[-1]["src"])
        assert "out of focus, diameter 1.90 mm" in (image.get_attribute("alt") or "")
        expect(card).to_contain_text("Out of focus")
        expect(card).to_contain_text("this image is spoilt")
        expect(card).to_contain_text(NOTE)
        expect(card).to_contain_text("the disk is full")
        assert image.evaluate("node => node.decode().then(() => node.naturalWidth)") == 320
        drawn, shown = (card.locator(each).evaluate(BOX) for each in ("polygon", "img"))
        assert drawn[:2] == pytest.approx(shown[:2], abs=1.5), "the same centre"
        assert drawn[2:] == pytest.approx([side / 2 for side in shown[2:]], abs=12), "the outline's line has a width"
        assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

        slider.focus()
        slider.press("ArrowLeft")
        expect(card).to_contain_text("+3.1 (+2.2 to +4.1) % a day")
        expect(card).to_contain_text("2.01 ± 0.04 mm²")
        slider.press("ArrowLeft")
        expect(card).to_contain_text("This image was not kept")
        expect(image).to_be_hidden()

        slider.press("End")
        button = card.get_by_role("button", name="Play the time-lapse of scope")
        image.evaluate(WATCH)
        button.click()
        expect(slider).to_have_value("3")
        expect(button).to_have_text("Play")
        expect(image).to_have_attribute("src", FRAMES[-1]["src"])
        assert visit.page.evaluate("window.seen") == [each["src"] for each in FRAMES if each["src"]]
        assert visit.complaints == []


def test_several_cameras_are_told_apart_and_a_long_path_stays_in_the_card(browser: Browser) -> None:
    rig = watched()
    rig = rig.model_copy(update={"cameras": {"scope": rig.cameras["scope"], "top_view": rig.cameras["scope"]}})
    one = api(f"It is full. Next: move images out of /data/{'a-long-name-' * 6}/images, or raise `quota`.")
    with staged(browser, rig, api=lambda route, path: one(route, path.replace("top_view", "scope"))) as visit:
        card = visit.page.get_by_test_id("images")
        first, second = card.locator("[data-camera=scope]"), card.locator("[data-camera=top_view]")
        expect(first).to_contain_text("chamber (scope)")
        expect(first).to_contain_text("or raise “quota”.")
        expect(second).to_be_visible()
        within = """node => { const style = getComputedStyle(node), box = node.getBoundingClientRect();
          const right = box.right - parseFloat(style.paddingRight) - parseFloat(style.borderRightWidth);
          return [...node.querySelectorAll("img, dd, .frame-problem")].every(n =>
            n.getBoundingClientRect().right <= right + 1 && n.scrollWidth <= n.clientWidth + 1); }"""
        assert card.evaluate(within)


def test_an_image_whose_file_is_gone_is_told_and_has_no_outline(browser: Browser) -> None:
    with staged(browser, watched(), api=api(gone=FRAMES[-1]["src"])) as visit:
        card = visit.page.get_by_test_id("images")
        expect(card).to_contain_text("No data: the file of this image is gone or cannot be read.")
        expect(card.locator("img")).to_be_hidden()
        expect(card.locator("polygon")).to_have_attribute("points", "")
        expect(card).to_contain_text("2.01 ± 0.04 mm²")
        slider = card.get_by_role("slider")
        slider.press("ArrowLeft")
        slider.press("ArrowLeft")
        expect(card).to_contain_text("This image was not kept.")
        slider.press("ArrowLeft")
        expect(card.locator("img")).to_be_visible()
        expect(card.locator("polygon")).to_have_attribute("points", SQUARE)


def test_a_time_lapse_that_is_stopped_and_played_again_shows_each_frame_once(browser: Browser) -> None:
    with staged(browser, watched(), api=api()) as visit:
        card = visit.page.get_by_test_id("images")
        expect(card.locator("img")).to_have_attribute("src", FRAMES[-1]["src"])
        three = "node => { window.steps = []; node.click(); node.click(); node.click(); }"
        note = """node => { const value = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
          Object.defineProperty(node, "value", { get() { return value.get.call(this); },
            set(to) { window.steps?.push(Number(to)); value.set.call(this, to); } }); }"""
        card.get_by_role("slider").evaluate(note)
        button = card.get_by_role("button", name="Play the time-lapse of scope")
        button.evaluate(three)
        expect(card.get_by_role("slider")).to_have_value("3")
        expect(button).to_have_text("Play")
        assert visit.page.evaluate("window.steps") == [0, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ("", "The first image is due soon."),
        ("No driver of cameras is called scop. Next: choose among http.", "No image yet: see below."),
    ],
)
def test_a_camera_without_an_image_says_why_and_promises_none_that_cannot_come(
    browser: Browser, problem: str, said: str
) -> None:
    camera = {"camera": "scope", "chamber": "chamber", "every_s": 3600.0, "newest": None, "usable": None}

    def answer(route: Route, path: str) -> bool:
        known = {
            "api/images": {"cameras": [camera | {"frames": 0, "problem": problem}]},
            "api/images/scope": {"camera": "scope", "chamber": "chamber", "frames": []},
        }
        if path in known:
            route.fulfill(json=known[path])
        return path in known

    with staged(browser, watched(), api=answer) as visit:
        card = visit.page.get_by_test_id("images")
        expect(card).to_contain_text(said)
        expect(card).to_contain_text(problem)
        assert ("due soon" in card.inner_text()) == (not problem)
        assert visit.complaints == []


def test_a_rig_without_cameras_has_no_images_card(browser: Browser) -> None:
    with staged(browser, load_rig(BENCH)) as visit:
        expect(visit.page.get_by_test_id("images")).to_be_hidden()
        assert not [url for url in visit.asked if "api/images" in url]


RETREAT = {
    "seq": 4, "utc": "2026-05-04T08:00:00.000Z", "run": "run-4", "exchanged_ml_d": 20.0,
    "text": "viability fell by 0.12 (90 % interval 0.04 to 0.2) within 24 h while medium was returned. Next: look at the"
    " tissue; an assay of LDH would show whether it is a loss; start `recycle` again when it is well",
}  # fmt: skip
LEDGER = {
    "fresh_ml": 312.4, "drawn_ml": 1.0, "given_back_ml": 1.0, "recycled_ml": 1201.2, "discarded_ml": 300.1, "glucose_ml": 3.1,
    "base_ml": 2.2, "evaporated_ml": 12.2, "mass_balance_error_ml": -0.12, "mass_balance_uncertainty_ml": 0.31, "days": 23.4,
    "scheduled_ml": 468.0, "saved_fraction": 0.33, "bound_ml": 241.5, "bound_ratio": 1.29, "vessels": [],
}  # fmt: skip
ALARM = {
    "id": "device_lost:ph_spent", "kind": "device_lost", "source": "ph_spent", "priority": "high", "times": 1,
    "state": "unacknowledged", "detail": "no reply", "response": "check", "respond_within": "5 min",
    "consequence": "data is lost", "acknowledged_by": "", "raised_utc": "2026-05-04T09:00:00.000Z",
}  # fmt: skip


@pytest.mark.parametrize("size", [(1440, 900), (1360, 768), (390, 844)])
def test_the_drawing_stays_readable_next_to_all_that_may_be_told_at_once(
    browser: Browser, size: tuple[int, int]
) -> None:
    """Images, an alarm, a retreat, three lines of a second request and the bound: the page is scrolled."""
    seen = api("The disk is full. Next: free some space.")

    def answer(route: Route, path: str) -> bool:
        if path == "api/decisions":
            route.fulfill(json={"decisions": [], "retreat": RETREAT})
            return True
        return seen(route, path)

    with staged(browser, watched(), size=size, api=answer, ledger=LEDGER, alarms=[ALARM]) as visit:
        page = visit.page
        expect(page.get_by_test_id("retreat")).to_contain_text("No recycling now")
        expect(page.get_by_test_id("images")).to_contain_text("The disk is full.")
        page.evaluate(
            """() => { const other = document.querySelector("#retreat").cloneNode(true); other.id = "other";
              document.querySelector("#retreat").after(other); }"""
        )
        expect(page.get_by_test_id("bound")).to_have_text("Mass-balance bound241.5\u00a0mL, used\u00a01.29\u00a0×")
        RESULTS.mkdir(exist_ok=True)
        page.screenshot(path=RESULTS / f"told-at-once-{size[0]}.png", full_page=True)
        drawing = page.locator("#schematic").bounding_box()
        assert drawing is not None
        assert drawing["height"] >= 220
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        cut = "all => all.filter(n => n.scrollWidth > n.clientWidth + 1).map(n => n.id || n.className)"
        assert page.locator(".card, .request, .frame-facts, .books").evaluate_all(cut) == []
        assert visit.complaints == []
