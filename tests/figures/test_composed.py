"""Figures of rigs that lack organs: an absent organ has none, and the medium that the rig does have is judged."""

from __future__ import annotations

import pytest

from controller.core.state import Volume
from controller.figures.organs import organs, series_of
from controller.rig.description import Rig
from tests.composed_rigs import dishes, single_pass, two_hearts, two_plates
from tests.figures.bench import by_key, dose, sources, value


def named(rig: Rig) -> list[str]:
    return [organ.name for organ in organs(sources(rig=rig))]


def test_an_absent_organ_has_no_figures() -> None:
    assert named(two_plates()) == ["heart", "liver", "skin"]  # its loop has pH probes, one of which reads temperature
    assert named(two_hearts()) == ["heart.one", "heart.two", "liver"]
    assert named(single_pass()) == ["heart"]
    assert named(dishes()) == ["skin"]  # its thermometer


def test_every_series_that_is_shown_is_one_of_the_rig() -> None:
    for rig in (two_plates(), two_hearts(), single_pass(), dishes()):
        for points in series_of(rig).values():
            for point in points:
                assert point.partition(".")[0] in {*rig.devices, "nerves"}


def test_ammonia_that_is_removed_needs_a_kidney() -> None:
    (liver,) = [organ for organ in organs(sources(rig=two_plates())) if organ.name == "liver"]
    assert "ammonia_removed" not in {figure.key for figure in liver.figures}


def test_the_bottle_of_a_single_pass_runs_out() -> None:
    given = [dose("feed", 24_000.0, at_h=float(hour)) for hour in range(4)]
    volumes = {"bottle": Volume(100_000.0, 500.0), "chip": Volume(12_000.0, 60.0), "waste": Volume(0.0, 1.0)}
    (heart,) = organs(sources(rig=single_pass(), transfers=given, volumes=volumes))
    found = by_key(list(heart.figures))
    assert value(found["bottle_left"]) == pytest.approx(100.0)
    assert value(found["bottle_run_out"]) == pytest.approx(100.0 / 96.0)
