"""The pages on the Python API: the reference is current."""

from __future__ import annotations

import choroid
from tests.api.make_page import GROUPS, PAGE, page


def test_the_reference_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs` and commit docs/api.md"


def test_the_reference_has_every_public_name() -> None:
    homes = [home for group in GROUPS.values() for home in group]
    assert sorted(homes) == sorted(set(choroid._HOMES.values()))
