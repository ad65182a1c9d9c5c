"""A size of next to nothing is refused at its line, and none makes the check fail (Q5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.rig.document import read_document
from controller.rig.quantities import SMALLEST, QuantityError, parse_quantity
from tests.hazards.files import BENCH, problems, problems_of_data


@pytest.mark.parametrize("bore", ["1e-100 mm", "1e-12 mm"])
def test_Q5_a_bore_of_next_to_nothing_divides_nothing(tmp_path: Path, bore: str) -> None:
    def spoil(data: dict[str, Any]) -> None:
        data["lines"]["heart"]["bore"] = bore

    found = problems_of_data(tmp_path, spoil)
    assert [problem.key for problem in found] == ["lines.heart.bore"]
    assert "billionth" in found[0].what


def quantities(data: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the place and the unit of each quantity of a rig file."""
    for key, value in data.items() if isinstance(data, dict) else ():
        yield from quantities(value, (*place, key))
        number, _, unit = value.partition(" ") if isinstance(value, str) else ("", "", "")
        if unit and number.replace(".", "").isdigit():
            yield (*place, key), unit


def test_Q5_no_size_however_small_makes_the_check_fail(tmp_path: Path) -> None:
    data = json.loads(json.dumps(read_document(BENCH).data))
    places = list(quantities(data))
    assert len(places) > 60
    for place, unit in places:
        spoilt = json.loads(json.dumps(data))
        part = spoilt
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = f"{2 * SMALLEST:g} {unit}"
        file = tmp_path / "rig.yaml"
        file.write_text(json.dumps(spoilt), encoding="utf-8")
        problems(file)  # whatever it says


def test_the_smallest_size_is_that_in_the_wanted_unit() -> None:
    assert parse_quantity("0 mm", "mm") == 0.0
    assert parse_quantity("2e-9 mm", "mm") == 2e-9
    with pytest.raises(QuantityError, match="billionth of 1 mm"):
        parse_quantity("1e-10 mm", "mm")
