"""docs/adding.md is true: what its recipes write by hand suffices, and what is added works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.adding.recipes import PAGE, Tree, recipe

FILES = {
    "A figure of firing": 3,
    "A driver in the tree": 4,
    "A subsystem": 2,
    "An alarm": 2,
    "A card of the page": 4,
    "A board of the grid": 3,
    "A verb of protocols": 3,
}
"""Recipe → maximum number of files that a person writes or changes."""

OF_EVERY_DRIVER = (
    "tests/drivers/test_registry.py",
    "tests/drivers/test_probe_health.py",
    "tests/sim/test_lab.py",
    "tests/sim/faults/test_every_model.py",
    "tests/sim/plant/test_faults_and_sensors.py",
    "tests/tools/test_pages.py",
    "tests/tools/test_probe.py",
    "tests/tools/test_read_only.py",
)
"""Tests that are parametrised over all drivers, or that compare the lists of them."""


@pytest.mark.parametrize(("title", "most"), FILES.items())
def test_a_recipe_touches_few_files(title: str, most: int) -> None:
    assert len(recipe(title).files) <= most


def test_every_recipe_of_the_page_is_followed() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(FILES)


@pytest.mark.long
def test_a_figure_of_firing_is_added(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.follow(recipe("A figure of firing"))
    tree.run("pytest", "tests/adding/checks/metric.py", "tests/nerves/metrics/test_window.py")


@pytest.mark.long
def test_a_driver_is_added(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.follow(recipe("A driver in the tree"))
    listed = json.loads(tree.run("choroid", "device", "list", "--json"))["devices"]
    assert "acme-therm" in [each["id"] for each in listed]
    tree.run("pytest", "tests/adding/checks/driver.py", *OF_EVERY_DRIVER, "-k", "acme or catalogue or every")


@pytest.mark.long
def test_a_subsystem_is_added_and_no_file_is_edited(tmp_path: Path) -> None:
    assert not [edit.path for edit in recipe("A subsystem").edits if edit.old]
    tree = Tree(tmp_path)
    tree.follow(recipe("A subsystem"))
    tree.run("pytest", "tests/controller/test_parts.py")


@pytest.mark.long
def test_an_alarm_is_added(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.follow(recipe("An alarm"))
    tree.run("pytest", "tests/adding/checks/alarm.py", "tests/controller/test_alarms.py")


@pytest.mark.long
def test_a_card_of_the_page_is_added(tmp_path: Path) -> None:
    """Its recipe shows it in Chromium; here are the tests that compare the page's files, its types and its routes."""
    tree = Tree(tmp_path)
    tree.follow(recipe("A card of the page"))
    tree.run("pytest", "tests/dashboards/test_static.py", "tests/dashboards/test_page_types.py", "-k", "not stands_out")


@pytest.mark.long
def test_a_board_of_the_grid_is_added(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.follow(recipe("A board of the grid"))
    tree.run("pytest", "tests/grid/grading/test_boards.py", "-k", "busiest or list_of_the_boards")


@pytest.mark.long
def test_a_verb_of_protocols_is_added(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.follow(recipe("A verb of protocols"))
    tree.run("pytest", "tests/adding/checks/verb.py", "tests/test_unused.py")
