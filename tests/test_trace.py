"""`make trace` notices what is missing (J1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import trace

STATED = """# Behaviours

Intro, as in test_A1_x.

**Actuation.** A1 first. A2 second, as A1 does
it.

**Judges.** J1 last.
"""


def test_the_ids_are_read_from_the_page() -> None:
    text = STATED.replace(", as A1 does\nit", "")
    assert trace.behaviours(text) == {"Actuation": ["A1", "A2"], "Judges": ["J1"]}


def test_an_id_that_is_stated_twice_is_an_error_and_so_is_a_page_without_any() -> None:
    with pytest.raises(ValueError, match="A1 twice"):
        trace.behaviours(STATED)
    with pytest.raises(ValueError, match="no behaviour"):
        trace.behaviours("# Behaviours\n")


def test_J1_an_id_without_a_test_and_a_test_of_an_unknown_id_are_gaps(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_one.py").write_text(
        "def test_A1_it_holds() -> None: ...\n\nasync def test_Z9_D2_both() -> None: ...\n"
    )
    found = trace.proofs(folder)
    assert found == {
        "A1": ["tests/test_one.py::test_A1_it_holds"],
        "Z9": ["tests/test_one.py::test_Z9_D2_both"],
        "D2": ["tests/test_one.py::test_Z9_D2_both"],
    }
    assert trace.gaps(["A1", "D2"], found) == [
        "Z9: tests/test_one.py::test_Z9_D2_both carries it, and docs/behaviours.md does not state it"
    ]
    assert trace.gaps(["A1", "D2", "Z9", "U4"], found) == ["U4: no test carries it"]
