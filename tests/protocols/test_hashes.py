"""The hash of a protocol: it changes with the course of the protocol, and with nothing else."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from controller.recipes.catalogue import of_file
from protocols import language
from protocols.registry import PROTOCOLS
from tests.protocols.in_process import load

MINE = """recipe: 1
name: mine
title: A recipe of a laboratory
parameters:
  volume: {default: 2 mL, min: 1 mL, max: 4 mL, help: fresh medium}
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(MINE, encoding="utf-8")
    (tmp_path / "other.yaml").write_text(OTHER, encoding="utf-8")
    (tmp_path / "mine.py").write_text(PYTHON, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", ["mine.yaml", "other.yaml", "mine.py"])
def test_an_edited_file_has_another_hash(folder: Path, name: str) -> None:
    read = load if name.endswith(".py") else of_file
    before = read(folder / name).source_sha256
    path = folder / name
    path.write_text(
        path.read_text(encoding="utf-8").replace("2 mL", "3 mL").replace("1 min", "2 min").replace("2000", "3000")
    )
    assert read(path).source_sha256 != before


def test_a_called_recipe_that_was_edited_changes_the_hash(folder: Path) -> None:
    before = of_file(folder / "mine.yaml").source_sha256
    (folder / "other.yaml").write_text(OTHER.replace("1 min", "2 min"), encoding="utf-8")
    assert of_file(folder / "mine.yaml").source_sha256 != before


def test_comments_and_titles_are_no_part_of_a_hash_and_steps_are(folder: Path) -> None:
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
    for old, new in (("default: 2 mL", "default: 3 mL"), ("as: fed", "as: given"), ("max: 4 mL", "max: 5 mL")):
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
