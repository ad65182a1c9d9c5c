"""Assays of LDH as evidence of the tissue: each once, in its time, against the culture's own first one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.tissue.record import PLACED
from controller.vitals.ldh_signs import LATE_H, VALID_H, LdhSigns
from tests.execution.world import EPOCH


class FixedClock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.hours = 0.0

    def utc(self) -> datetime:
        return EPOCH + timedelta(hours=self.hours)

    def utc_us(self) -> int:
        return int(self.utc().timestamp() * 1e6)

    def utc_text(self) -> str:
        return str(self.utc().isoformat())

    def now_s(self) -> float:
        return self.hours * 3600.0


class Bench:
    """A journal with assays, and what follows from them."""

    def __init__(self, path: Path) -> None:
        self.clock = FixedClock()
        clock = cast(Clock, self.clock)
        self.journal = Journal(path, clock, durable=False)
        self.signs = self.begun()

    def begun(self) -> LdhSigns:
        return LdhSigns(self.journal, cast(Clock, self.clock))

    def assay(self, value: float, taken_h: float, **more: Any) -> None:
        taken = (EPOCH + timedelta(hours=taken_h)).isoformat()
        row = {"analyte": "ldh", "where": "loop", "vessel": "loop", "taken_utc": taken, "value": value}
        self.journal.append("assay", {**row, "sd": 0.08 * value, "unit": "U/L", "used": True, "method": "", **more})

    def value(self) -> float | None:
        found = self.signs.value()
        return None if found is None else found.value


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    found = Bench(tmp_path / "journal.db")
    yield found
    found.journal.close()


def test_each_result_is_evidence_once_also_after_a_restart(bench: Bench) -> None:
    assert (bench.value(), bench.signs.assayed, bench.signs.seen().age_h) == (None, False, None)
    bench.assay(8.0, 0.0)
    assert (bench.value(), bench.value()) == (8.0, None)
    assert bench.begun().value() is not None, "its hour was not over, so no row has it"
    bench.journal.append("tissue.look", {"hour": 0, "look": {}, "instruments": {}})
    assert bench.begun().value() is None


def test_a_late_result_is_no_evidence_of_the_present_but_a_baseline(bench: Bench) -> None:
    bench.clock.hours = LATE_H + 1.0
    bench.assay(8.0, 0.0)
    assert bench.value() is None
    bench.assay(16.0, LATE_H)
    assert bench.value() == 16.0
    seen = bench.signs.seen()
    assert seen.ratio is not None
    assert seen.ratio.value == pytest.approx(2.0)
    assert seen.age_h == pytest.approx(1.0)
    bench.clock.hours = LATE_H + VALID_H + 0.1
    assert bench.signs.seen().ratio is None


def test_an_older_sample_that_is_entered_later_does_not_replace_a_newer_one(bench: Bench) -> None:
    bench.clock.hours = 10.0
    bench.assay(8.0, 1.0)
    bench.assay(12.0, 9.0)
    assert bench.value() == 12.0
    bench.assay(30.0, 5.0)
    assert bench.value() is None


@pytest.mark.parametrize("other", [{"where": "spent"}, {"used": False}, {"analyte": "lactate"}])
def test_other_assays_are_not_taken_for_it(bench: Bench, other: dict[str, Any]) -> None:
    bench.assay(8.0, 0.0, **other)
    assert (bench.value(), bench.signs.assayed) == (None, False)


def test_another_method_has_another_scale(bench: Bench) -> None:
    bench.assay(8.0, 0.0)
    bench.signs.value()
    assert bench.signs.method == ""
    bench.assay(80.0, 1.0, method="cedex")
    bench.clock.hours = 2.0
    assert bench.value() == 80.0
    assert bench.signs.method == "cedex"
    assert bench.signs.seen().ratio is None


def test_other_tissue_has_its_own_baseline(bench: Bench) -> None:
    bench.assay(8.0, 0.0)
    bench.journal.append(PLACED, {})
    assert bench.signs.seen().age_h is None
    bench.assay(20.0, 0.5)
    bench.clock.hours = 1.0
    assert bench.signs.seen().ratio is None
