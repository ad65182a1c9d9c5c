"""Scheduled images: files that other programs read, quota, disk, cameras that hang, schedule, restart."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.core.state import StateStore
from controller.imaging.engine import InlineEngine, WorkerEngine
from controller.imaging.imaging import Imaging, request_of
from controller.rig.array_rules import cameras_see_chambers
from controller.rig.camera import CameraSpec
from controller.rig.description import Rig
from controller.rig.loading import effective_hash, load_rig
from controller.tissue.record import TissueRecord
from sim.virtual_time import run_scaled
from tests.execution.test_tissue_record import journal_in

BENCH = Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml"
CAMERA = CameraSpec.model_validate(
    {"model": "simulated", "chamber": "chamber", "pixel": "16 um", "every": "1 h",
     "settings": {"width": 256, "height": 256, "bubble": 0.0, "out_of_focus": 0.0}}
)  # fmt: skip
SCENE = {"diameter_mm": 1.6, "viability": 0.9, "dead_fraction": 0.1, "form": 1}
images = pytest.mark.needs_module("skimage", "imaging")


def _rig(camera: CameraSpec = CAMERA) -> Rig:
    rig = load_rig(BENCH)
    chamber = next(iter(rig.tissue))
    return rig.model_copy(update={"cameras": {"scope": camera.model_copy(update={"chamber": chamber})}})


def _request(folder: Path, **changed: float) -> dict[str, Any]:
    rig = _rig()
    asked = request_of(rig, "scope", rig.cameras["scope"], "2026-03-01T12:00:00.250+00:00", folder, rig.tissue)
    return asked | {"scene": SCENE} | changed


@images
def test_an_image_is_ome_tiff_with_its_metadata_and_a_preview(tmp_path: Path) -> None:
    import tifffile
    from PIL import Image

    from choroid.cameras.simulated import SimulatedTaker

    answer = SimulatedTaker().take(_request(tmp_path))
    assert answer["defects"] == []
    assert answer["features"]["diameter_mm"] == pytest.approx(1.6, rel=0.03)
    with tifffile.TiffFile(tmp_path / answer["file"]) as file:
        assert file.asarray().shape == (256, 256)
        assert file.asarray().dtype == np.uint16
        ome = file.ome_metadata or ""
    for part in (
        'PhysicalSizeX="16.0"',
        'ExposureTime="0.02"',
        "2026-03-01T12:00:00.250",
        _rig().name,
        "simulated camera",
    ):
        assert part in ome, part
    with Image.open(tmp_path / answer["preview"]) as preview:
        assert preview.size == (256, 256)
    assert sorted(path.suffix for path in (tmp_path / "scope").iterdir()) == [".tif", ".webp"]


@images
@pytest.mark.parametrize("limits", [{"quota_bytes": 100.0}, {"min_free_bytes": 1e18}])
def test_an_image_without_room_is_measured_and_not_kept(tmp_path: Path, limits: dict[str, float]) -> None:
    from choroid.cameras.simulated import SimulatedTaker

    answer = SimulatedTaker().take(_request(tmp_path, **limits))
    assert "Next:" in answer["unkept"]
    assert "file" not in answer
    assert answer["features"]["area_mm2"] > 0
    assert list((tmp_path / "scope").iterdir()) == []


@images
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    from choroid.cameras.simulated import SimulatedTaker

    (tmp_path / "scope").write_text("a stray file")
    assert "cannot be kept" in SimulatedTaker().take(_request(tmp_path))["unkept"]


@images
async def test_the_process_of_the_cameras_answers_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.imaging.engine.END_WITHIN_S", 30.0)  # it is nice: a busy machine lets it wait
    engine = WorkerEngine((sys.executable, "-m", "choroid.cameras.simulated"))
    first = await engine.take(_request(tmp_path))
    assert first["defects"] == []
    process = engine._process
    assert process is not None
    await engine.close()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("program", "what"),
    [
        ("import time; time.sleep(100)", "does not answer"),
        ("raise SystemExit(3)", "has ended"),
        ("print('x')", "has ended"),
    ],
)
async def test_a_process_that_hangs_or_dies_costs_one_image(tmp_path: Path, program: str, what: str) -> None:
    engine = WorkerEngine((sys.executable, "-c", program), reply_s=0.5 if "sleep" in program else 30.0)
    assert what in (await engine.take(_request(tmp_path)))["error"]
    assert engine._process is None
    await engine.close()


def test_a_demo_that_runs_fast_waits_for_its_camera_in_real_time(tmp_path: Path) -> None:
    slow = "import sys, time; sys.stdin.readline(); time.sleep(0.5); print('{}', flush=True)"

    async def take() -> dict[str, Any]:
        engine = WorkerEngine((sys.executable, "-c", slow), reply_s=30.0, pace=lambda: 120.0)
        answer = await engine.take(_request(tmp_path))
        await engine.close()
        return answer

    assert run_scaled(take(), speed=120.0) == {}


class Bench:
    """A rig with a camera whose answers the test decides."""

    def __init__(self, folder: Path, answer: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        self.opened = journal_in(folder)
        self.journal, self.clock = self.opened.__enter__()
        self.store = StateStore()
        self.tasks: list[asyncio.Task[Any]] = []
        self.asked = 0
        self._answer = answer
        self._folder = folder
        self.rig = _rig()
        self.record = TissueRecord(self.rig, self.journal, self.clock)
        self.imaging = self.made()

    def made(self) -> Imaging:
        def take(request: Mapping[str, Any]) -> dict[str, Any]:
            self.asked += 1
            return self._answer(request)

        return Imaging(
            self.rig, engine=InlineEngine(take), store=self.store, journal=self.journal, clock=self.clock,
            data=self._folder, tissue=self.record, start=self._start,
        )  # fmt: skip

    def _start(self, name: str, work: Coroutine[Any, Any, object]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    async def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds / 60)):
            self.imaging.update(self.clock.now_s())
            await asyncio.sleep(60)
        await asyncio.gather(*self.tasks)


GOOD = {"area_mm2": 2.0, "diameter_mm": 1.6, "circularity": 0.9, "rim_width_um": 20.0, "opacity": 0.4}


@pytest.mark.virtual_time
async def test_images_come_on_schedule_become_readings_and_the_schedule_survives_a_restart(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda _: {"unkept": "", "preview": "scope/a.webp", "defects": [], "features": GOOD})
    await bench.pass_time(3 * 3600)
    assert bench.asked == 3
    assert bench.store.readings["scope.area"].value == 2.0
    assert bench.store.readings["scope.area"].unit == "mm²"
    assert bench.imaging.causes == {}
    bench.imaging = bench.made()
    newest = bench.imaging.time_lapse.newest("scope")
    assert newest is not None
    assert (newest.preview, newest.verdict) == ("a.webp", "usable")
    before = bench.asked
    await bench.pass_time(600)
    assert bench.asked == before + 1, "due an hour after the last one, which is now"


@pytest.mark.virtual_time
async def test_a_spoilt_image_is_taken_again_and_changes_no_reading(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda _: {"unkept": "", "defects": ["bubble"], "features": GOOD})
    await bench.pass_time(1800)
    assert bench.asked == 3
    assert bench.store.readings == {}


@pytest.mark.virtual_time
async def test_a_lost_camera_and_a_full_disk_raise_alarms_until_they_end(tmp_path: Path) -> None:
    answers: list[dict[str, Any]] = [{"error": "no camera"}, {"unkept": "full", "defects": [], "features": GOOD}]
    bench = Bench(tmp_path, lambda _: answers[0])
    await bench.pass_time(60)
    assert bench.imaging.causes == {("camera_lost", "scope"): "no camera"}
    answers.pop(0)
    await bench.pass_time(900)
    assert bench.imaging.causes == {("images_unkept", "scope"): "full"}
    bench.imaging.causes[("camera_lost", "scope")] = "no camera. Next: look"
    assert bench.imaging.problem("scope") == "Full. No camera. Next: look."
    answers[0] = {"unkept": "", "file": "f", "defects": [], "features": GOOD}
    await bench.pass_time(3600)
    assert bench.imaging.causes == {}


def test_a_camera_of_no_chamber_is_a_finding_and_a_rig_without_cameras_keeps_its_hash() -> None:
    rig = _rig()
    assert list(cameras_see_chambers(rig)) == []
    lost = rig.model_copy(update={"cameras": {"scope": CAMERA.model_copy(update={"chamber": "waste"})}})
    (finding,) = cameras_see_chambers(lost)
    assert finding.place == ("cameras", "scope", "chamber")
    assert effective_hash(rig) != effective_hash(load_rig(BENCH))
    assert effective_hash(rig.model_copy(update={"cameras": {}})) == effective_hash(load_rig(BENCH))
