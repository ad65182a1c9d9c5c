"""Runs that began under the release before go on after the update; a run whose protocol was changed does not."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from controller.recipes.catalogue import find, of_file, shipped
from protocols import earlier, language
from protocols.registry import PROTOCOLS
from protocols.results import Amount, Barrier, Calibrated, Measurement, VesselVolume
from tests.protocols.in_process import load

MINE = """recipe: 1
name: mine
title: A recipe of a laboratory
parameters:
  volume: {default: 2 mL, least: 1 mL, most: 4 mL, help: fresh medium}
steps:
  - gut.feed: {volume: volume, as: fed}   # weighed
  - call: {recipe: rinse}
  - call: other.yaml
"""
OTHER = "recipe: 1\nname: other\ntitle: Another one\nsteps:\n  - wait: 1 min\n"
PYTHON = '''"""A protocol of a laboratory."""

from protocols.language import NOTHING, Lab

NAME, TITLE, PARAMS = "mine", "A draw", ()


async def protocol(lab: Lab, params: dict) -> None:
    await lab.kidney.draw(2000.0)
'''
# As commit c0b9dcd hashed these very files.
OF_MINE = "011c0794ff35a910808adc8769688b547dbe5d101bf45dd24b30d959eaaf4d0f"
OF_OTHER = "5746baea69cfdd520027652e444d14bd7a80e5d8bb65ac763f928bd337b213e2"
OF_PYTHON = "cc22fc6b1218a11ba70740dbf02e5d0ce120e1fa38f9a11f235799b1886f2e18"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(MINE, encoding="utf-8")
    (tmp_path / "other.yaml").write_text(OTHER, encoding="utf-8")
    (tmp_path / "mine.py").write_text(PYTHON, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", shipped())
def test_a_run_of_a_shipped_protocol_goes_on(name: str) -> None:
    before, today = json.loads(earlier.HASHES.read_text(encoding="utf-8"))[name]
    assert find(name).source_sha256 == today, (
        f"{name} has another course than in earlier.json: runs of it that are under way will be held at the update. Next:"
        " if they may go on with it, write its new hash there"
    )
    assert find(name).began_as(before)


def test_a_shipped_protocol_with_another_course_does_not_go_on() -> None:
    before, today = json.loads(earlier.HASHES.read_text(encoding="utf-8"))["recycle"]
    assert earlier.of_shipped("recycle", today) == before
    assert earlier.of_shipped("recycle", "0" * 64) is None
    assert earlier.of_shipped("mine", today) is None


@pytest.mark.parametrize(("name", "before"), [("mine.yaml", OF_MINE), ("other.yaml", OF_OTHER), ("mine.py", OF_PYTHON)])
def test_a_run_of_a_laboratorys_own_file_goes_on_unless_it_was_edited(folder: Path, name: str, before: str) -> None:
    read = load if name.endswith(".py") else of_file
    assert read(folder / name).began_as(before)
    path = folder / name
    path.write_text(
        path.read_text(encoding="utf-8").replace("2 mL", "3 mL").replace("1 min", "2 min").replace("2000", "3000")
    )
    assert not read(path).began_as(before)


def test_results_on_record_are_read() -> None:
    """The steps of a run that began before are fed with what that release wrote; new names must still take these."""
    interval = {"value": 7.2, "low": 7.1, "high": 7.3}
    reading = Measurement.from_json({"point": "ph_spent.ph", "unit": "pH", "interval": interval, "detail": ""})
    assert (reading.value, reading.unit) == (7.2, "pH")
    moved: dict[str, Any] = {"ul": 5.0, "low": 4.0, "high": 6.0}
    assert Amount(**moved).peak_kpa is None
    assert Amount(**moved, peak_kpa=11.5).peak_kpa == 11.5
    barrier: dict[str, Any] = {"sterile": None, "peak_kpa": None, "detail": "no pass on record"}
    barrier |= {"least_kpa": 2.5, "most_kpa": 80.0}  # wording: former name
    assert Barrier.from_json(barrier).sterile is None
    calibrated: dict[str, Any] = {"before": 6.9, "after": 7.0, "places": 1}
    assert Calibrated(**calibrated).places == 1
    volumes: dict[str, Any] = {"ul": 40_000.0, "sd_ul": 30.0, "passes": 1.5, "age_s": 3_600.0, "insulin": 0.9}
    assert VesselVolume(**volumes).ul == 40_000.0


def test_a_called_recipe_that_was_edited_holds_the_run(folder: Path) -> None:
    (folder / "other.yaml").write_text(OTHER.replace("1 min", "2 min"), encoding="utf-8")
    assert not of_file(folder / "mine.yaml").began_as(OF_MINE)


def test_comments_and_titles_hold_no_run_and_steps_do(folder: Path) -> None:
    path = folder / "mine.yaml"
    before = of_file(path).source_sha256
    path.write_text(
        MINE.replace("# weighed", "# dosed").replace("title: A", "title: The").replace("help: fresh", "help: new")
    )
    assert of_file(path).source_sha256 == before
    asking = MINE + "  - ask_operator: look at {fed}\n"
    path.write_text(asking)
    asked = of_file(path).source_sha256
    assert asked != before
    path.write_text(asking.replace("look at", "Look at"))
    assert of_file(path).source_sha256 == asked
    for old, new in (("default: 2 mL", "default: 3 mL"), ("as: fed", "as: given"), ("most: 4 mL", "most: 5 mL")):
        path.write_text(MINE.replace(old, new))
        assert of_file(path).source_sha256 != before


def test_the_texts_of_choroid_are_no_part_of_a_hash_and_its_version_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(module: object) -> str:
        raise AssertionError(f"the text of {module} was read")

    monkeypatch.setattr(inspect, "getsource", unread)
    before = load(folder / "mine.py").source_sha256
    monkeypatch.setattr(language, "VERSION", language.VERSION + 1)
    assert load(folder / "mine.py").source_sha256 != before
    assert of_file(folder / "mine.yaml").source_sha256 not in {recipe.source_sha256 for recipe in PROTOCOLS.values()}
