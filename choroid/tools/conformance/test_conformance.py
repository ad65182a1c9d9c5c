"""Every installed driver, each property: run with `pytest --pyargs choroid.tools.conformance`."""

from __future__ import annotations

import pytest

from choroid.tools.conformance.benches import all_benches
from choroid.tools.conformance.table import in_virtual_time
from drivers.conformance.bench import Bench
from drivers.conformance.examine import examine
from drivers.conformance.properties import PROPERTIES


@pytest.mark.parametrize("bench", all_benches(), ids=str)
@pytest.mark.parametrize("name", PROPERTIES)
def test_conformance(bench: Bench, name: str) -> None:
    """The driver holds the property; a property that says nothing of it is skipped with its reason."""
    (verdict,) = examine(bench, in_virtual_time, {name: PROPERTIES[name]})
    if verdict.outcome == "n/a":
        pytest.skip(verdict.told)
    if verdict.outcome == "fail":
        pytest.fail(f"{bench.model}: {verdict.told}")
