"""The electrode map: cells lie as the electrodes do, y up."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.needs("node")
SCRIPT = Path(__file__).with_name("place_electrodes.mjs")


def placed(
    x: Sequence[float | None], y: Sequence[float | None], source: int = 0, step: tuple[int, int] = (1, 0)
) -> Any:
    told = json.dumps({"x": x, "y": y, "from": source, "step": step})
    done = subprocess.run(["node", str(SCRIPT)], input=told, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_electrodes_lie_in_rows_and_columns_with_the_largest_y_above_and_keys_follow_them() -> None:
    x, y = [0.0, 200.0, 3.0, 201.0, 900.0], [0.0, 4.0, 200.0, 200.0, 200.0]  # by hand, and a chip further right
    found = placed(x, y, source=2)
    assert found == {"places": [[1, 0], [1, 1], [0, 0], [0, 1], [0, 2]], "to": 3}
    assert placed(x, y, source=0, step=(0, -1))["to"] == 2, "up"
    assert placed(x, y, source=4)["to"] == 4, "the last of its row"


def test_electrodes_whose_places_are_not_known_are_in_a_square_in_the_order_of_their_numbers() -> None:
    unknown = [None] * 5
    assert placed(unknown, unknown)["places"] == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]]
    some = [0.0, 200.0, 400.0, None, None]
    assert placed(some, [0.0, 0.0, 0.0, None, None])["places"] == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]]
