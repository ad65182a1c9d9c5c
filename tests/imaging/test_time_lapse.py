"""The time-lapse: growth of one tissue, outlines, restart, and previews over the API."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.imaging.imaging import TAKEN
from controller.imaging.time_lapse import MAX_FRAMES, ImageFrame, TimeLapse, thinned
from controller.journal.terms import Entry
from dashboards.auth import Role
from tests.dashboards.world import world
from tests.imaging.test_capture import GOOD, Bench, _request, images

FEATURES = GOOD | {
    "area_sd_mm2": 0.05, "feret_mm": 1.7, "solidity": 0.97, "core_opacity": 1.2, "entropy_bits": 3.1,
}  # fmt: skip
NAME = "20260504T090000000Z.webp"


def _answer(**changed: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "unkept": "",
        "preview": f"scope/{NAME}",
        "defects": [],
        "features": FEATURES,
        "growth": None,
    }
    return known | {"outline": "100,100 900,100 500,900"} | changed


@images
def test_the_outline_encloses_the_area_that_is_reported(tmp_path: Path) -> None:
    from choroid.cameras.simulated import SimulatedTaker

    answer = SimulatedTaker().take(_request(tmp_path) | {"earlier": [(-2.0, 1.6), (-1.0, 1.8)]})
    x, y = np.array([[float(each) for each in point.split(",")] for point in answer["outline"].split()]).T
    area = abs(float(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))) / 2e6 * (256 * 16e-3) ** 2
    assert area == pytest.approx(answer["features"]["area_mm2"], rel=0.02)
    assert len(x) <= 64
    assert answer["growth"]["images"] == 3
    assert answer["growth"]["low"] < answer["growth"]["per_day"] < answer["growth"]["high"]


@pytest.mark.virtual_time
async def test_growth_is_that_of_the_tissue_which_is_there_now(tmp_path: Path) -> None:
    asked: list[Mapping[str, Any]] = []

    def answer(request: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return _answer()

    bench = Bench(tmp_path, answer)
    await bench.pass_time(2 * 3600 + 120)
    assert [len(request["earlier"]) for request in asked] == [0, 1, 2]
    assert asked[2]["earlier"][0] == (pytest.approx(-2 / 24, abs=1e-3), GOOD["area_mm2"])
    chamber = next(iter(bench.record.cultures))
    bench.record.remove(chamber, user="ada", reason="split")
    bench.record.place(chamber, count=1, diameter_mm=1.0, age_d=40.0, user="ada", reason="another one")
    await bench.pass_time(3600)
    assert asked[-1]["earlier"] == []


def test_what_is_kept_of_a_long_time_lapse_is_bounded() -> None:
    lapse = TimeLapse(["scope"])
    for k in range(MAX_FRAMES + 10):
        lapse.add("scope", ImageFrame.of_row(_answer(taken=f"2026-05-04T09:00:00.{k:03}+00:00"), ""))
    frames = lapse.frames("scope")
    assert len(frames) == MAX_FRAMES
    assert frames[0].utc.endswith("010+00:00")
    some = thinned(frames, 7)
    assert (len(some), some[0], some[-1]) == (7, frames[0], frames[-1])


def test_growth_of_a_camera_that_looks_every_minute_spans_a_week() -> None:
    begin = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)
    rows = []
    lapse = TimeLapse(["scope"])
    for k in range(0, 8 * 1440, 4):
        body = {"camera": "scope", **_answer(taken=(begin + timedelta(minutes=k)).isoformat())}
        rows.append(Entry(k, 0.0, body["taken"], "image.taken", None, body, ""))
        lapse.add("scope", ImageFrame.of_row(body, ""))
    now_s = (begin + timedelta(days=8)).timestamp()
    again = TimeLapse(["scope"])
    again.restore(reversed(rows), now_s)
    for each in (lapse, again):
        days = [day for day, _ in each.areas("scope", now_s, 0.0)]
        assert days == sorted(days)
        assert len(days) <= 200
        assert days[0] < -6.5
        assert len(each.frames("scope")) == MAX_FRAMES
    assert again.newest("scope") == lapse.newest("scope")


async def test_a_viewer_sees_images_and_no_other_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda _: _answer())
    bench.journal.append(TAKEN, {"camera": "scope", **_answer()})
    bench.imaging = bench.made()
    folder = tmp_path / "images" / "scope"
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(b"RIFF....WEBPVP8 ")
    (tmp_path / "secret.webp").write_bytes(b"secret")
    (folder / "20260504T090000001Z.webp").symlink_to(tmp_path / "secret.webp")
    async with world() as here:
        async with here.http(Role.VIEWER) as viewer:
            assert (await viewer.get("/api/images")).json() == {"cameras": []}, "a rig without cameras"
            assert (await viewer.get("/api/images/scope")).status_code == 404
        here.controller.rig, here.controller.imaging = bench.rig, bench.imaging
        async with here.http() as unknown:
            assert (await unknown.get("/api/images")).status_code == 401
            assert (await unknown.get(f"/api/images/scope/{NAME}")).status_code == 401
        async with here.http(Role.VIEWER) as viewer:
            (camera,) = (await viewer.get("/api/images")).json()["cameras"]
            assert (camera["camera"], camera["frames"], camera["problem"]) == ("scope", 1, "")
            assert camera["newest"]["features"]["diameter_mm"] == 1.6
            frames = (await viewer.get("/api/images/scope")).json()["frames"]
            assert [frame["verdict"] for frame in frames] == ["usable"]
            found = await viewer.get(camera["newest"]["src"])
            assert found.content == b"RIFF....WEBPVP8 "
            assert found.headers["content-type"] == "image/webp"
            assert "immutable" in found.headers["cache-control"]
            for other in (
                "20260504T090000001Z.webp",  # a link to a file outside
                "20260504T090000002Z.webp",
                "..%2F..%2Fsecret.webp",
                f"..%2Fscope%2F{NAME}",
                "journal.db",
                f"{NAME}%00",
            ):
                assert (await viewer.get(f"/api/images/scope/{other}")).status_code == 404, other
            assert (await viewer.get(f"/api/images/..%2F../{NAME}")).status_code == 404
