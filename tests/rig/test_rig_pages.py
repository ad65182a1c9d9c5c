"""The pages of the shipped rigs are those of their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rigs import make_pages


@pytest.mark.parametrize("rig", make_pages.RIGS, ids=lambda path: path.stem)
def test_a_page_is_current(rig: Path) -> None:
    path = make_pages.PAGES / f"{rig.stem}.md"
    told = "a rig has changed. Next: python -m tests.rigs.make_pages"
    assert path.read_text(encoding="utf-8") == make_pages.page_of(rig), told
    assert path.with_suffix(".png").stat().st_size > 10_000, "Next: python -m tests.rigs.make_pages --drawings"


def test_the_list_names_every_rig_and_there_is_no_page_without_one() -> None:
    assert (make_pages.PAGES / "README.md").read_text(encoding="utf-8") == make_pages.index()
    assert {path.stem for path in make_pages.PAGES.iterdir()} == {"README", *(rig.stem for rig in make_pages.RIGS)}
