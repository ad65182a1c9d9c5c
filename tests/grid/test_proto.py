"""The committed wire code of the grid is what the compiler makes of grid.proto."""

from __future__ import annotations

import pytest

from tests.proto import GRID, generate


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    return generate(GRID)


@pytest.mark.parametrize("name", GRID.names)
def test_the_generated_code_is_up_to_date(generated: dict[str, str], name: str) -> None:
    assert (GRID.wire / name).read_text(encoding="utf-8") == generated[name], "run `make proto` and commit the result"
