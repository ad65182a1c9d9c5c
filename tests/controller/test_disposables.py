"""Disposables of the rig file: the warning before the last day, and the alarm after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.hazards.loading import load_checked_rig
from controller.rig.description import Rig
from controller.rig.problems import RigError
from controller.upkeep.upkeep import disposable_causes
from drivers.registry import MODELS

TEXT = (Path(__file__).resolve().parents[2] / "examples/rigs/monitored_plates.yaml").read_text(encoding="utf-8")
ENTRY = "lot: PL-0417"


def rig_of(folder: Path, entry: str, zone: str = "UTC") -> Rig:
    assert ENTRY in TEXT
    path = folder / "rig.yaml"
    path.write_text(f"time_zone: {zone}\n{TEXT.replace(ENTRY, entry)}", encoding="utf-8")
    return load_checked_rig(path, models=MODELS)


@pytest.mark.parametrize(
    ("entry", "utc", "kind"),
    [
        ("opened: 2026-01-01, life: 30 d", "2026-01-27T12:00:00+00:00", None),
        ("opened: 2026-01-01, life: 30 d", "2026-01-28T00:00:00+00:00", "disposable_due"),
        ("opened: 2026-01-01, life: 30 d", "2026-01-31T23:59:00+00:00", "disposable_due"),
        ("opened: 2026-01-01, life: 30 d", "2026-02-01T00:00:00+00:00", "disposable_over"),
        ("opened: 2026-01-01, life: 30 d, expires: 2026-01-10", "2026-01-11T00:00:00+00:00", "disposable_over"),
        ("expires: 2026-01-10", "2026-01-10T12:00:00+00:00", "disposable_due"),
        ("lot: A1", "2036-01-10T12:00:00+00:00", None),
    ],
)
def test_the_last_day_is_the_earlier_of_life_and_label(tmp_path: Path, entry: str, utc: str, kind: str | None) -> None:
    causes = disposable_causes(rig_of(tmp_path, entry), utc)
    assert set(causes) == (set() if kind is None else {(kind, "plates")})


def test_the_day_is_that_of_the_laboratory(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, "lot: A7, expires: 2026-01-10", "Asia/Tokyo")
    assert set(disposable_causes(rig, "2026-01-10T14:59:00+00:00")) == {("disposable_due", "plates")}
    ((key, text),) = disposable_causes(rig, "2026-01-10T15:00:00+00:00").items()
    assert key == ("disposable_over", "plates")
    assert "96-well plate with lid, lot A7" in text
    assert "2026-01-10" in text


@pytest.mark.parametrize(
    ("entry", "says"),
    [("life: 30 d", "add opened"), ("at: nowhere", "no part “nowhere”"), ("life: 30", "day"), ("opened: soon", "date")],
)
def test_a_mistake_is_named(tmp_path: Path, entry: str, says: str) -> None:
    with pytest.raises(RigError) as caught:
        rig_of(tmp_path, entry)
    assert any(says in f"{problem.what} {problem.fix}" for problem in caught.value.problems), caught.value.problems
