"""`python -m tests.wording` finds banned words and lets their number only shrink (J1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import wording


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("class Doorman:", ["Doorman"]),
        ("def _beside(path): ...", ["beside"]),
        ("MOST_UL_MIN = 1", ["MOST_UL_MIN"]),
        ("at least 5, at most 7, the mostly", []),
        ("least_ul = counter.most_common() or flow_most", ["least_ul", "most"]),
        ("the person is told, and Nobody else", ["is told", "Nobody"]),
        ("a surface, an interface, warehouse, seaside, years", []),
    ],
)
def test_whole_words_are_found_in_code_and_prose(line: str, words: list[str]) -> None:
    """Underscores bound words; parts of longer words do not count."""
    assert [hit.word for hit in wording.hits("a.py", line)] == words


def test_J1_a_file_above_its_number_fails_with_line_word_and_alternative() -> None:
    """The message names what to write instead."""
    found = {"a.py": list(wording.hits("a.py", "fine\nso long\n"))}
    assert wording.judge(found, {}) == [
        "a.py: 1 banned words, 0 allowed:",
        "  a.py:2: “so long”: write while, as long as, maximum duration",
    ]
    assert wording.judge(found, {"a.py": 1}) == []


def test_J1_a_file_below_its_number_must_lower_it() -> None:
    """A gain is kept."""
    assert wording.judge({}, {"a.py": 2}) == [
        "a.py: 0 banned words, the table says 2. Run: python -m tests.wording --write"
    ]


def test_the_table_never_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may move with its words; the sum may not grow."""
    monkeypatch.setattr(wording, "TABLE", tmp_path / "wording.json")
    found = {"b.py": list(wording.hits("b.py", "so long, nobody"))}
    assert wording.write(found, {"a.py": 1}) == 1
    assert not wording.TABLE.exists()
    assert wording.write(found, {"a.py": 2}) == 0
    assert wording.TABLE.read_text(encoding="utf-8") == '{\n"b.py": 2\n}\n'
