"""A morning of the month's recipe in the whole simulated stack: the same bookings in YAML and in Python."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.front.month import FILES, month

MONDAY = datetime(2026, 3, 30, 6, 50, tzinfo=UTC)
"""08:50 in Berlin, on the day after the change of the clocks."""


def test_a_morning_has_the_same_bookings_in_yaml_and_in_python(tmp_path: Path) -> None:
    yaml, python = (month(file, tmp_path / file, begin=MONDAY, days=0.8 / 24.0, changes=1, assays=1) for file in FILES)
    assert yaml.answer["run_state"] == python.answer["run_state"] == "complete"
    assert [line for _, line, _, _ in yaml.booked] == ["draw", "discard", "feed", "return"]
    assert yaml.booked == python.booked
    assert yaml.changes == python.changes
    assert yaml.turns == python.turns
    assert [turn[:16] for turn in sorted(yaml.turns)] == ["2026-03-30T06:55", "2026-03-30T07:00"]
    assert (yaml.photos, len(yaml.assays)) == (python.photos, len(python.assays)) == (1, 1)
    assert yaml.assays == python.assays
    assert yaml.changes[0]["replaced"] == pytest.approx(20_000.0, rel=0.05)
    balance = yaml.answer["mass_balance_error_ml"]
    assert abs(balance) <= yaml.answer["mass_balance_uncertainty_ml"]
