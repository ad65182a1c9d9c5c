"""The page of any rig without a running laboratory: the files of the page, the rig's description, and a made-up state.

`python -m tests.browser.stage FOLDER RIG...` writes a picture of the page of each rig file, and of its schematic.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Route

from controller.rig.description import Rig
from controller.rig.families import points_of
from controller.rig.loading import load_rig
from controller.rig.schematic import hearts
from dashboards.views import rig_view
from tests.browser.pages import Visit, chromium

STATIC = Path(__file__).resolve().parents[2] / "dashboards" / "static"
HERE = "http://rig.test/"
SIZES = {"desk": (1440, 900), "phone": (390, 844)}
USUAL = {
    "degC": 37.0, "pH": 7.36, "%": 90.4, "kPa": 6.4, "g": 31.2, "uL/min": 1980.0, "mL/min": 46.6, "ppm": 50_000.0, "1": 0.0,
    "uS/cm": 14_900.0, "mV": 180.0, "mM": 4.2, "position": 3.0,
}  # fmt: skip
"""Made-up readings by unit."""
FEED = """state => { window.WebSocket = class { constructor() { setTimeout(() => this.send(true), 0);
    setInterval(() => this.send(false), 500); } close() {}
  send(whole) { this.onmessage?.({ data: JSON.stringify(whole ? { ...state, whole } : { at_s: state.at_s }) }); } }; }"""
"""Instead of the live feed: the state once, and then that it has not changed."""


def rig_answer(rig: Rig) -> dict[str, Any]:
    """What the API answers about a rig."""
    return rig_view(rig, user="demo", role="operator").model_dump()


def state_of(rig: Rig, **changes: Any) -> dict[str, Any]:
    """A made-up state of a rig in which every pump of a heart runs; `changes` replace parts of it."""
    readings, actuators = {}, {}
    usual = {heart["pump"]: heart["flow_ul_min"] for heart in hearts(rig)}
    for point, kind in points_of(rig).items():
        if kind.kind == "sensor":
            reading = {"value": USUAL.get(kind.unit, 1.0), "unit": kind.unit, "quality": "good", "stable": True}
            readings[point] = reading | {"at_s": 1000.0, "detail": ""}
        else:
            flow = usual.get(point, 0.0)
            status = {"kind": "pump", "on": flow > 0.0, "flow_ul_min": flow, "delivered_ul": 0.0}
            common: dict[str, Any] = {
                "commanded": None,
                "basal": {},
                "guarantee": "device",
                "at_s": 1000.0,
                "lease_until_s": None,
            }
            actuators[point] = {"status": status, "fault": "", **common}
    return {
        "at_s": 1000.0, "utc": "2026-05-04T09:16:40.000Z", "readings": readings, "actuators": actuators, "links": {},
        "volumes": {name: {"ul": of.volume_ul, "sd_ul": 20.0} for name, of in rig.vessels.items()}, "trips": [],
        "emergency": None, "run": None, "alarms": [],
        "suppressed": [],
        "speed": 60.0, "nerves": None, "spikes": [],
        "health": {"ok": True, "reasons": []}, "grade": None, "scores": None, **changes,
    }  # fmt: skip


@contextmanager
def staged(
    browser: Browser,
    rig: Rig,
    *,
    size: tuple[int, int] = SIZES["desk"],
    scheme: str = "dark",
    api: Callable[[Route, str], bool] = lambda route, path: False,
    **changes: Any,
) -> Iterator[Visit]:
    """A visit to the page of `rig`; `api` may answer a request first, `changes` replace parts of the state."""
    answers = {
        "api/rig": rig_answer(rig), "api/protocols": {"protocols": []}, "api/audit": {"entries": []},
        "api/decisions": {"decisions": [], "retreat": None}, "api/assays": {"assays": [], "wanted": []},
        "api/images": {"cameras": []}, "api/records": {"rig_id": "00000000-0000-4000-8000-000000000000", "discarded": []},
        "api/alarms": {"alarms": [], "suppressed": []},
    }  # fmt: skip

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix(HERE).partition("?")[0]
        if api(route, path):
            return
        if path == "":
            route.fulfill(path=STATIC / "index.html")
        elif path.startswith("static/"):
            route.fulfill(path=STATIC / path.removeprefix("static/"))
        elif path == "api/history":
            route.fulfill(json={"point": "", "unit": "", "begin_utc_s": 0.0, "end_utc_s": 0.0, "rows": []})
        elif path in answers:
            route.fulfill(json=answers[path])
        elif path.startswith("api/"):
            route.fulfill(status=204)  # a card without content
        else:
            route.fulfill(status=404, json={"error": {"what": path, "where": "", "cause": "", "action": ""}})

    def prepare(page: Page) -> None:
        page.route(f"{HERE}**", answer)
        page.add_init_script(f"({FEED})({json.dumps(state_of(rig, **changes))})")

    visit = Visit(browser, HERE, size=size, scheme=scheme, prepare=prepare)
    try:
        visit.page.locator('#link[data-status="live"]').wait_for()
        yield visit
    finally:
        visit.leave()


def picture(browser: Browser, rig: Rig, folder: Path, name: str, size: str = "desk", **changes: Any) -> None:
    """Write a picture of the page of a rig, and of its schematic alone in its own size."""
    folder.mkdir(parents=True, exist_ok=True)
    with staged(browser, rig, size=SIZES[size], **changes) as visit:
        visit.page.wait_for_timeout(900)  # levels and flows have faded in
        visit.page.screenshot(path=folder / f"{name}-{size}.png")
        if size == "desk":
            schematic(visit.page).screenshot(path=folder / f"{name}-schematic.png")


def schematic(page: Page) -> Any:
    """The schematic in its own size, over everything else."""
    page.add_style_tag(
        content="""#schematic { position: fixed; inset: 0 auto auto 0; z-index: 99; max-height: none;
          background: var(--card); } body, main { overflow: visible; }"""
    )
    box = page.evaluate(
        """() => { const svg = document.querySelector('#schematic'), box = svg.viewBox.baseVal;
          svg.style.width = `${box.width}px`; svg.style.height = `${box.height}px`; return [box.width, box.height]; }"""
    )
    page.set_viewport_size({"width": max(1360, int(box[0]) + 20), "height": max(700, int(box[1]) + 20)})
    return page.locator("#schematic")


def main() -> None:
    """Write the pictures that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("rigs", type=Path, nargs="+")
    chosen = parser.parse_args()
    with chromium() as browser:
        for path in chosen.rigs:
            picture(browser, load_rig(path), chosen.folder, path.stem)


if __name__ == "__main__":
    main()
