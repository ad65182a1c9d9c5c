"""Each assay, image and finding of a person is evidence of the tissue exactly once, whenever a restart comes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controller.test_score_isolation import WELL, WildBench

MINUTE_H = 1.0 / 60.0


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[WildBench]:
    found = WildBench(tmp_path)
    found.set_media(None)
    yield found
    found.journal.close()


def lived(bench: WildBench, until_h: float) -> None:
    """Let minutes pass."""
    while bench.clock.hours < until_h - 1e-9:
        bench.clock.hours += MINUTE_H
        bench.signs.restore_some()
        bench.signs.score(bench.now(WELL), None, "")


def shown(bench: WildBench, name: str) -> list[float]:
    """Return the values of a signal in the rows of the hours."""
    looks: list[dict[str, Any]] = [row.body["look"] for row in bench.journal.entries(kinds=("tissue.look",))]
    return [look[name]["value"] for look in looks if name in look]


def image() -> dict[str, float]:
    return {"area_mm2": 3.0, "area_sd_mm2": 0.1, "per_day": 0.01, "low": 0.0, "high": 0.02}


@pytest.mark.parametrize("restart_h", [0.99, 1.01, 1.5, 2.5], ids=["before the turn", "after it", "later", "told"])
@pytest.mark.parametrize(
    ("row", "signal"),
    [({"ldh": 12.0, "sd": 0.5}, "ldh"), (image(), "volume"), ({"note": {"ldh": 1.2}}, "ldh")],
    ids=["assay", "image", "finding"],
)
def test_a_result_of_the_last_minute_of_an_hour_is_evidence_once(
    bench: WildBench, row: dict[str, Any], signal: str, restart_h: float
) -> None:
    lived(bench, 0.983)
    bench.clock.hours = 0.985
    bench.write(row)
    bench.clock.hours = 0.99
    lived(bench, restart_h)
    bench.signs = bench.begun()
    lived(bench, 4.1)
    assert len(shown(bench, signal)) == 1


def test_a_late_sample_by_another_method_does_not_begin_the_scale_again(bench: WildBench) -> None:
    lived(bench, 0.5)
    bench.write({"ldh": 8.0, "sd": 0.5})
    lived(bench, 26.1)
    bench.write({"ldh": 80.0, "sd": 4.0, "taken_h": 1.0, "method": "cedex"})  # no evidence of the present
    lived(bench, 27.1)
    bench.signs = bench.begun()
    lived(bench, 29.1)
    rows = list(bench.journal.entries(kinds=("tissue.look",)))
    assert shown(bench, "ldh") == [8.0]
    assert [row.body["hour"] for row in rows if "ldh" in row.body["look"].get("rescaled", ())] == []
