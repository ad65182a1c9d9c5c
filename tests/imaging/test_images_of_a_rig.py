"""Images of a simulated rig over its whole stack: in the journal, in the estimate of viability, in the report."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from choroid.report.images import growth_over
from choroid.report.report import report
from choroid.simulation.simulate import EPOCH, simulate
from controller.core.clock import Clock
from controller.figures.image_record import image_records
from controller.imaging.growth import growth_of
from controller.journal.journal import Journal
from controller.journal.reader import JournalReader
from controller.journal.terms import Entry
from controller.rig.loading import load_rig
from controller.vitals.image_signs import ImageSigns
from drivers.registry import MODELS
from tests.execution.test_tissue_record import journal_in
from tests.imaging.test_capture import BENCH, _rig
from tests.imaging.test_time_lapse import FEATURES, NAME, _answer

CAMERA = """
cameras:
  scope:
    model: simulated
    chamber: chamber
    pixel: 16 um
    every: 20 min
    min_free: 0 GB
    settings: {width: 256, height: 256, bubble: 0, out_of_focus: 0}
"""
pytestmark = pytest.mark.needs_module("skimage", "imaging")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("images")
    path = folder / "rig.yaml"
    path.write_text(BENCH.read_text() + CAMERA)
    load_rig(path, models=MODELS)
    return path, folder / "data", simulate(path, protocol="exchange", days=1.2 / 24, data=folder / "data")


def _rows(data: Path, kind: str) -> list[Entry]:
    with closing(JournalReader(data / "journal.db")) as journal:
        return list(journal.entries(kinds=(kind,)))


def test_scheduled_images_reach_the_estimate(simulated: tuple[Path, Path, dict[str, Any]]) -> None:
    _, data, _ = simulated
    taken = _rows(data, "image.taken")
    assert len(taken) == 4
    (look,) = _rows(data, "tissue.look")
    seen = [row.body["features"]["diameter_mm"] for row in taken]
    assert look.body["look"]["volume"]["value"] == pytest.approx(seen[2] ** 3 * 3.14159 / 6, rel=1e-3)
    assert "scope 16" in look.body["instruments"]["volume"]


def test_the_report_has_the_first_and_the_last_image_and_the_curve(
    simulated: tuple[Path, Path, dict[str, Any]], tmp_path: Path
) -> None:
    rig, simulated_data, _ = simulated
    data = Path(shutil.copytree(simulated_data, tmp_path / "data"))
    page = tmp_path / "report.html"
    answer = report(rig, data, now=EPOCH.timestamp() + 4500.0, html_path=page)
    (camera,) = answer["images"]
    assert (camera["taken"], camera["usable"], camera["unusable"]) == (4, 4, {})
    assert camera["first"]["utc"] < camera["last"]["utc"]
    assert json.loads(json.dumps(answer)) == answer
    section = page.read_text().partition('<section id="images">')[2].partition("</section>")[0]
    images = re.findall(r'<img src="data:image/webp;base64,[\w+/=]{500,200000}" alt="([^"]+)"', section)
    assert [alt.startswith("Brightfield image of chamber") for alt in images] == [True, True]
    assert section.count("<polygon") == 2
    assert section.count("<circle") == 4
    assert '<a href="#images">' in page.read_text()
    HTMLParser().feed(section)
    for file in (data / "images" / "scope").glob("*.webp"):
        file.unlink()
    report(rig, data, now=EPOCH.timestamp() + 4500.0, html_path=page)
    assert "the file of this image is gone" in page.read_text()


def _row(seq: int, day: float, area: float, **changed: Any) -> Entry:
    utc = f"2026-03-{1 + int(day):02}T{int(day % 1 * 24):02}:00:00.000+00:00"
    body = {"camera": "scope", "chamber": "chamber", **_answer(features=FEATURES | {"area_mm2": area}, taken=utc)}
    return Entry(seq, 0.0, utc, "image.taken", None, body | changed, "")


def test_growth_over_a_period_is_that_of_its_usable_images(tmp_path: Path) -> None:
    rows = [_row(k, k / 4, 2.0 * 1.04 ** (k / 4)) for k in range(12)]
    rows[5] = _row(5, 1.25, 0.3, defects=["bubble"])
    (record,) = image_records(rows, tmp_path)
    assert (record.taken, dict(record.spoilt)) == (12, {"bubble": 1})
    growth = growth_over(record)
    assert growth is not None
    assert growth["per_day"] == pytest.approx(0.04, abs=1e-6)
    assert growth_of([0.0, 0.1, 0.2], [1.0, 1.1, 1.2]) is None


def test_growth_over_a_period_is_of_the_tissue_that_is_there_at_its_end(tmp_path: Path) -> None:
    """As on the page: a large organoid that was replaced by a small one has not shrunk."""
    rows = [_row(k, k / 4, 8.0 if k < 6 else 2.0 * 1.04 ** (k / 4)) for k in range(14)]
    placed = Entry(99, 0.0, "2026-03-02T11:00:00.000+00:00", "tissue.placed", None, {"chamber": "chamber"}, "")
    elsewhere = Entry(99, 0.0, "2026-03-04T00:00:00.000+00:00", "tissue.moved", None, {"target": "dish"}, "")
    (record,) = image_records([*rows[:6], placed, *rows[6:], elsewhere], tmp_path)
    growth = growth_over(record)
    assert growth is not None
    assert growth["per_day"] == pytest.approx(0.04, abs=1e-6)
    assert growth["images"] == 8
    assert record.taken == 14


def test_an_image_that_cannot_be_read_does_not_end_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    folder = tmp_path / "images" / "scope"
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(b"RIFF")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    (record,) = image_records([_row(0, 0.0, 2.0)], tmp_path)
    assert record.first is not None
    assert record.first.content == b""


async def test_an_image_is_evidence_once_also_after_a_restart(tmp_path: Path) -> None:
    with journal_in(tmp_path) as (journal, clock):
        _shown_once(journal, clock)


def _shown_once(journal: Journal, clock: Clock) -> None:
    def made() -> ImageSigns:
        return ImageSigns(_rig(), journal, clock)

    def shoot(area: float, **changed: Any) -> None:
        features = FEATURES | {"area_mm2": area}
        journal.append(
            "image.taken", {"camera": "scope", **_answer(features=features, **changed), "taken": clock.utc_text()}
        )

    images = made()
    assert (images.volume(), images.instrument) == (None, ())
    shoot(2.0)
    shoot(9.0, defects=["bubble"])
    found = images.volume()
    assert found is not None
    assert found.value == pytest.approx(2.0**1.5 * 0.7523, rel=1e-3)
    assert found.sd / found.value == pytest.approx(0.045)
    assert images.volume() is None
    assert made().volume() is not None, "the hour was not journalled yet, so its evidence is not lost"
    journal.append("tissue.look", {"hour": 1, "look": {}})
    again = made()
    assert again.volume() is None
    assert again.instrument == images.instrument == ("scope 16",)
    shoot(2.1, growth={"per_day": 0.02, "low": 0.01, "high": 0.03, "images": 9, "span_d": 3.0})
    assert again.volume() is not None
    growth = again.growth()
    assert growth is not None
    assert (growth.value, growth.low, growth.high) == pytest.approx((1.02**1.5 - 1, 1.01**1.5 - 1, 1.03**1.5 - 1))


async def test_two_cameras_count_together_once_both_have_a_new_image(tmp_path: Path) -> None:
    with journal_in(tmp_path) as (journal, clock):
        _shown_together(journal, clock)


def _shown_together(journal: Journal, clock: Clock) -> None:
    scope = _rig().cameras["scope"]
    images = ImageSigns(_rig().model_copy(update={"cameras": {"scope": scope, "other": scope}}), journal, clock)

    def shoot(camera: str) -> None:
        journal.append("image.taken", {"camera": camera, **_answer(features=FEATURES), "taken": clock.utc_text()})

    shoot("scope")
    first = images.volume()
    shoot("other")
    assert images.volume() is None, "scope has shown nothing new"
    shoot("scope")
    both = images.volume()
    assert first is not None
    assert both is not None
    assert both.value == pytest.approx(2 * first.value)
    assert images.instrument == ("other 16", "scope 16")


async def test_a_rarer_camera_counts_after_a_restart_too(tmp_path: Path) -> None:
    """Otherwise the volume is that of one camera for a while, and its scale is taken again twice."""
    with journal_in(tmp_path) as (journal, clock):
        _shown_rarely(journal, clock)


def _shown_rarely(journal: Journal, clock: Clock) -> None:
    scope = _rig().cameras["scope"]
    rare = scope.model_copy(update={"every_s": 86_400.0})
    rig = _rig().model_copy(update={"cameras": {"scope": scope, "rare": rare}})
    images = ImageSigns(rig, journal, clock)
    for camera in ("rare", *["scope"] * 40):
        journal.append("image.taken", {"camera": camera, **_answer(features=FEATURES), "taken": clock.utc_text()})
    found, again = images.volume(), ImageSigns(rig, journal, clock)
    assert found is not None
    assert again.instrument == images.instrument == ("rare 16", "scope 16")
    assert again.volume() == found, "the hour was not journalled yet"
