"""Dialysis through the whole stack: decided, pumped, booked and estimated, and the same bytes twice."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from choroid.simulation.simulate import simulate

RIG = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench_dialysis.yaml"
USED = """  used:
    glucose: 14 mM
    lactate: 9.5 mM
    ammonia: 0.3 mM
    bicarbonate: 18 mM
    glutamine: 1 mM
    osmolality: 285 mOsm/kg
"""


ONE = {"cycles": "1", "batch": "9 mL"}


def rig(folder: Path, lactate: str) -> Path:
    """The dialysis rig with a loop that has been lived in, and a quick dialyser."""
    used = USED.replace("9.5 mM", lactate)
    text = RIG.read_text(encoding="utf-8").replace("vessels:\n", f"{used}\nvessels:\n", 1)
    for vessel in ("loop", "chamber", "spent"):
        begin = text.index(f"  {vessel}:", text.index("vessels:"))
        text = text[:begin] + text[begin:].replace("contains: fresh", "contains: used", 1)
    text = text.replace("dialysate_flow: 0.5 mL/min", "dialysate_flow: 3 mL/min").replace("koa: 0.6", "koa: 3.6")
    path = folder / "rig.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def notes(data: Path, kind: str) -> list[dict[str, Any]]:
    with contextlib.closing(sqlite3.connect(data / "journal.db")) as journal, journal:
        return [json.loads(body) for (body,) in journal.execute("select body from entries where kind = ?", (kind,))]


def ran(
    folder: Path,
    params: dict[str, str],
    *,
    protocol: str = "recycle",
    days: float = 0.035,
    lactate: str = "9.5 mM",
) -> dict[str, Any]:
    folder.mkdir()
    return simulate(
        rig(folder, lactate), protocol=protocol, params=params, days=days, seed=3, data=folder, progress=False
    )


def test_a_batch_is_dialysed_by_its_price_and_everything_adds_up(tmp_path: Path) -> None:
    first = ran(tmp_path / "first", ONE, lactate="10.5 mM")
    assert first["violations"] == []
    assert first["run_state"] == "complete"
    assert first["actions"] == {"dialyse": 1}
    (note,), (grade,) = notes(tmp_path / "first", "note.recycle"), notes(tmp_path / "first", "note.grade")
    assert grade["version"] == "choroid-2"
    assert len(grade["rules_sha256"]) == 64
    assert note["dialysate_ul"] == pytest.approx(1000.0 * first["dialysate_ml"], abs=1.0)
    assert note["dialysate_ul"] > 4_000.0
    assert note["decision"]["chosen"]["eur"] <= min(
        other["eur"] for other in note["decision"]["others"] if "refused" not in other
    )
    assert "dilute" in note["decision"]["reason"]
    # What the dialyser took: the loop is better than it was, both on the plant and by the estimate.
    assert first["true_loop"]["lactate_mm"] < 9.5
    assert first["vessels"]["basal"]["true_ml"] == pytest.approx(4000.0 - first["dialysate_ml"], rel=0.1)
    assert ran(tmp_path / "second", ONE, lactate="10.5 mM")["journal_sha256"] == first["journal_sha256"]


def test_a_small_share_of_fresh_medium_is_cheaper_where_the_loop_is_just_within_the_limit(tmp_path: Path) -> None:
    """What limits there is insulin, which a dialyser does not return."""
    found = ran(tmp_path / "data", ONE)
    assert (found["violations"], found["actions"]) == ([], {"dilute": 1})
    (note,) = notes(tmp_path / "data", "note.recycle")
    assert note["decision"]["chosen"]["chance"] <= 0.02
    assert note["fresh_ul"] < 1_000.0


def test_a_recipe_file_dialyses_and_grades_before_and_after(tmp_path: Path) -> None:
    found = ran(tmp_path / "data", {"batch": "15 mL", "volumes": "1"}, protocol="dialyse", days=0.06)
    assert found["violations"] == []
    assert found["run_state"] == "complete"
    (note,) = notes(tmp_path / "data", "note.dialysed")
    assert note["basal"] == pytest.approx(1000.0 * found["dialysate_ml"], abs=1.0)
    _, before, after = (row["estimate"]["spent"] for row in notes(tmp_path / "data", "note.grade"))
    for name in ("lactate_mm", "ammonia_mm"):
        assert after[name]["high"] < before[name]["low"]
    # More than a third of the loop was drawn, and about half of its lactate left it.
    assert found["true_loop"]["lactate_mm"] < 8.6
    assert found["true_loop"]["ammonia_mm"] < 0.28


def test_a_dose_that_would_last_too_long_is_given_in_portions(tmp_path: Path) -> None:
    """25 mL at 0.5 mL/min are 50 min; the gate lets no dose last longer than half an hour, at its slowest."""
    found = simulate(
        RIG,
        protocol="dialyse",
        params={"volumes": "2.2"},
        days=0.06,
        seed=3,
        data=tmp_path,
        progress=False,
    )
    assert found["run_state"] == "complete"
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db")) as journal, journal:
        rows = [json.loads(body) for (body,) in journal.execute("select body from entries where kind = 'moved'")]
        steps = [json.loads(body) for (body,) in journal.execute("select body from entries where kind = 'step'")]
    (asked,) = [step["args"]["volume_ul"] for step in steps if step["verb"] == "kidney.dialyse"]
    doses = [row for row in rows if row["line"] == "dialyse"]
    assert [row["end"] for row in doses] == ["portion", "portion", "done"]
    assert sum(row["asked_ul"] for row in doses) == pytest.approx(asked, rel=1e-6)
    assert asked > 24_000.0
