"""Age and review in the rig file: read, and told clearly when they make no sense."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from textwrap import indent

import pytest

from controller.rig.loading import load_rig
from controller.rig.problems import RigError

BENCH = Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml"
AGE = "    age: 60 d\n"


def with_organoid(folder: Path, lines: str) -> Path:
    path = folder / "rig.yaml"
    text = BENCH.read_text(encoding="utf-8")
    assert AGE in text
    path.write_text(text.replace(AGE, AGE + indent(lines, "  ")), encoding="utf-8")
    return path


def test_a_review_is_read(tmp_path: Path) -> None:
    lines = "  age_on: 2026-05-01\n  capacity: advanced\n  review: {on: 2026-05-20, by: Ethics board, valid: 90 d}\n"
    organoid = load_rig(with_organoid(tmp_path, lines)).tissue["chamber"]
    assert (organoid.age_on, organoid.capacity) == (date(2026, 5, 1), "advanced")
    assert organoid.review is not None
    assert (organoid.review.on, organoid.review.by, organoid.review.valid_d) == (date(2026, 5, 20), "Ethics board", 90)
    plain = load_rig(BENCH).tissue["chamber"]
    assert (plain.age_on, plain.capacity, plain.review) == (None, "ordinary", None)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("  review: {by: Ethics board}\n", "“on” is missing"),
        ("  review: {on: 2026-05-20}\n", "“by” is missing"),
        ("  review: {on: 2026-05-20, by: Ethics board, valid: 3 years}\n", "out of range"),
        ("  review: {on: 2026-05-20, by: Ethics board, valid: 90}\n", "no unit"),
        ("  review: {on: May, by: Ethics board}\n", "is not a date. Write year, month and day: 2026-05-31"),
        ("  review: {on: 2026-05-20, by: E}\n", "too short"),
        ("  review: {on: 2026-05-20, by: Ethics board, valide: 90 d}\n", "unknown key “valide”"),
        ("  age_on: yesterday\n", "is not a date"),
        ("  capacity: clever\n", "is not known here"),
    ],
)
def test_a_review_that_makes_no_sense_is_told_with_line_and_fix(tmp_path: Path, lines: str, words: str) -> None:
    path = with_organoid(tmp_path, lines)
    with pytest.raises(RigError) as caught:
        load_rig(path)
    said = "\n".join(map(str, caught.value.problems))
    assert words in said
    line = next(n for n, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if AGE.strip() in text) + 1
    assert all(problem.line == line for problem in caught.value.problems), said
