"""A test that fails must not leave its journal open and so fail the next one too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.execution.world import OPENED


@pytest.fixture(autouse=True)
def _journals_are_closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()
