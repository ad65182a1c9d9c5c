"""The committed wire code of the nerves is what the compiler makes of nerves.proto."""

from __future__ import annotations

import pytest

from tests.proto import NERVES, generate


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    return generate(NERVES)


@pytest.mark.parametrize("name", NERVES.names)
def test_the_generated_code_is_up_to_date(generated: dict[str, str], name: str) -> None:
    assert (NERVES.wire / name).read_text(encoding="utf-8") == generated[name], "run `make proto` and commit the result"
