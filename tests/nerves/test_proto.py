"""The committed wire code, of server and client, is what the compiler makes of nerves.proto."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proto import NERVES, generate


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    return generate(NERVES)


@pytest.mark.parametrize("wire", NERVES.wires, ids=["server", "client"])
@pytest.mark.parametrize("name", NERVES.names)
def test_the_generated_code_is_up_to_date(generated: dict[str, str], name: str, wire: Path) -> None:
    assert (wire / name).read_text(encoding="utf-8") == generated[name], "run `make proto` and commit the result"
