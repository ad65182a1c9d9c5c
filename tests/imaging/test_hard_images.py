"""Images that are hard to judge, of a generator without any of the simulated camera's code; the history of a culture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from controller.imaging.history import judged_by_history
from controller.imaging.time_lapse import ImageFrame
from tests.imaging.test_capture import Bench
from tests.imaging.test_time_lapse import FEATURES, _answer

if TYPE_CHECKING:
    from verification.bench.hard_images import HardImage

images = pytest.mark.needs_module("skimage", "imaging")


@images
@pytest.mark.parametrize("condition", ["cloud", "two clouds", "condensation", "precipitate", "cloud and debris"])
def test_a_cloudy_background_is_not_taken_for_the_organoid(condition: str) -> None:
    from verification.bench.hard_imaging import hard_judged

    for seed in range(4):
        found = hard_judged(condition, seed)
        assert not found.accepted or (found.iou > 0.9 and abs(found.area_error) < 0.08), (condition, seed, found)


@images
@pytest.mark.parametrize(
    "condition", ["cloud only", "debris only", "clump only", "precipitate only", "condensation only"]
)
def test_what_is_there_without_an_organoid_is_no_tissue(condition: str) -> None:
    from controller.imaging.quality import analyse
    from verification.bench.hard_images import hard_image

    for seed in range(1, 4):
        image = hard_image(condition, seed)
        seen = analyse(image.grey, image.bits, image.pixel_um)
        assert seen.defects, (condition, seed)
        assert set(seen.defects) <= {"empty", "no_tissue", "cut_off", "bubble"}, (condition, seed, seen.defects)


@images
def test_two_organoids_are_counted_and_told_apart_by_what_is_known_of_one() -> None:
    from controller.imaging.quality import Known, analyse
    from verification.bench.hard_images import hard_image

    image = hard_image("several", 4)
    seen = analyse(image.grey, image.bits, image.pixel_um)
    assert (seen.objects, seen.defects) == (2, ("several_objects",))
    (smaller,) = seen.left_out
    known = Known(smaller, None)
    again = analyse(image.grey, image.bits, image.pixel_um, known=known)
    assert again.usable
    assert again.features is not None
    assert again.features.area_mm2 == pytest.approx(smaller, rel=1e-6)
    assert len(again.left_out) == 1
    assert analyse(image.grey, image.bits, image.pixel_um, expected=2).usable


@pytest.mark.long
@images
def test_the_judge_notices_a_truth_that_is_wrong() -> None:
    from verification.bench.hard_imaging import hard_figures, hard_judged

    def shifted(image: HardImage) -> HardImage:
        return replace(image, mask=np.roll(image.mask, 60, axis=1))

    def exchanged(image: HardImage) -> HardImage:
        return replace(image, usable=not image.usable)

    def larger(image: HardImage) -> HardImage:
        return replace(image, mask=image.mask | np.roll(image.mask, 6, axis=0))

    right, moved, swapped, grown = (
        hard_figures([hard_judged("plain", seed, *spoil) for seed in range(3)])
        for spoil in ((), (shifted,), (exchanged,), (larger,))
    )
    low, refused, error = (
        "accepted with IoU below 0.5 (goal 1 %)",
        "unusable refused (goal 95 %)",
        "area_error_p95_pct (goal 3)",
    )
    assert right[low].startswith("0.0 % (0 of 3;")
    assert right[error] < 3.0
    assert moved[low].startswith("100.0 % (3 of 3;")
    assert swapped[refused].startswith("0.0 % (0 of 3;")
    assert grown[error] > 3.0


def _frame(minute: int, **changed: Any) -> ImageFrame:
    features = FEATURES | {key: changed.pop(key) for key in ("area_mm2", "circularity") if key in changed}
    taken = f"2026-05-{4 + minute // 1440:02}T{minute // 60 % 24:02}:{minute % 60:02}:00.000+00:00"
    return ImageFrame.of_row(_answer(features=features, objects=1, place_mm=[2.0, 2.0], taken=taken, **changed), "")


def test_an_area_that_halves_in_an_hour_is_refused_with_its_reason() -> None:
    frames = [_frame(60 * k) for k in range(6)]
    judged = judged_by_history(frames, _frame(360, area_mm2=1.0), 0.0)
    assert judged.defects == ("unlike_before",)
    assert "50 % smaller" in judged.note
    assert judged_by_history(frames, _frame(360, area_mm2=2.2), 0.0).defects == ()
    assert judged_by_history(frames, _frame(360, circularity=0.5), 0.0).defects == ("unlike_before",)
    assert "1.9 mm away" in judged_by_history(frames, replace(_frame(360), place_mm=(3.9, 2.0)), 0.0).note
    assert judged_by_history(frames[:4], replace(_frame(360), place_mm=(3.9, 2.0)), 0.0).defects == ()


def test_after_days_without_an_image_more_change_is_believed() -> None:
    frames = [_frame(60 * k) for k in range(6)]
    assert judged_by_history(frames, _frame(4 * 1440, area_mm2=3.5), 0.0).defects == ()


def test_a_spoilt_image_and_the_first_one_of_a_culture_are_left_as_they_are() -> None:
    frames = [_frame(60 * k) for k in range(6)]
    spoilt = _frame(360, area_mm2=1.0, defects=["bubble"])
    assert judged_by_history(frames, spoilt, 0.0).defects == ("bubble",)
    assert judged_by_history([], _frame(0, area_mm2=1.0), 0.0).defects == ()
    placed_s = _frame(359).at_s
    assert judged_by_history(frames, _frame(360, area_mm2=1.0), placed_s).defects == (), "another culture"


@pytest.mark.virtual_time
async def test_a_true_change_is_accepted_after_four_images_that_agree_and_says_so(tmp_path: Path) -> None:
    areas = [2.0] * 3 + [1.0] * 5
    asked: list[Mapping[str, Any]] = []

    def answer(request: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(request)
        area = areas[min(len(asked) - 1, len(areas) - 1)]
        return _answer(features=FEATURES | {"area_mm2": area}, objects=1, place_mm=[2.0, 2.0])

    bench = Bench(tmp_path, answer)
    await bench.pass_time(6 * 3600)
    frames = bench.imaging.time_lapse.frames("scope")
    assert [frame.verdict for frame in frames][:7] == ["usable"] * 3 + ["unlike before"] * 3 + ["usable"]
    assert [frame.changed for frame in frames][:8] == [False] * 6 + [True, False]
    assert "4 images in a row agree" in frames[6].note
    assert frames[7].note == ""
    assert asked[7]["known"] == {"area_mm2": 1.0, "place_mm": (2.0, 2.0)}
    assert all(area == 1.0 for _, area in asked[-1]["earlier"]), "growth begins again"
    bench.imaging = bench.made()
    again = bench.imaging.time_lapse.frames("scope")
    assert [frame.changed for frame in again] == [frame.changed for frame in frames]


@pytest.mark.virtual_time
async def test_what_was_left_out_is_said(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda _: _answer(objects=2, left_out_mm2=[0.45], place_mm=[2.0, 2.0]))
    await bench.pass_time(120)
    (frame,) = bench.imaging.time_lapse.frames("scope")
    assert frame.usable
    assert frame.note == "Not measured: 1 other object with the outline of tissue (0.45 mm²)."
