"""The committed wire code is what the compiler makes of nerves.proto."""

from __future__ import annotations

import pytest

from tests.proto import NAMES, WIRE, generate


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    return generate()


@pytest.mark.parametrize("name", NAMES)
def test_the_generated_code_is_up_to_date(generated: dict[str, str], name: str) -> None:
    assert (WIRE / name).read_text(encoding="utf-8") == generated[name], "run `make proto` and commit the result"
