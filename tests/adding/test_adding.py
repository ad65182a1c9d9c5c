"""docs/adding.md is true: what its recipes write by hand suffices, and what is added works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adding.recipes import PAGE, Tree, recipe

FILES = {"A figure of firing": 3}
"""Recipe → maximum number of files that a person writes or changes."""


@pytest.mark.parametrize(("title", "most"), FILES.items())
def test_a_recipe_touches_few_files(title: str, most: int) -> None:
    assert len(recipe(title).files) <= most


def test_every_recipe_of_the_page_is_followed() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(FILES)


def test_a_figure_of_firing_is_added(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.follow(recipe("A figure of firing"))
    tree.run("pytest", "tests/adding/checks/metric.py", "tests/nerves/metrics/test_window.py")
