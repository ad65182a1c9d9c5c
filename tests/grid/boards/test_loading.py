"""X6: board files are strict; each mistake is reported with file, line and what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.boards.board import split_key
from grid.boards.loading import BoardError, UnknownBoard, board_hash, load_boards, newest, parse_board

TEXT = """\
board: toy
version: 2
title: A toy
about: Return the sum of the inputs.
task:
  name: toy
  params: {size: 4}
interface:
  inputs: [{name: x, shape: [4], meaning: numbers}]
  outputs: [{name: y, shape: [1], meaning: their sum}]
  memory: 3
metric: {name: score, unit: "1", min: 0.0, max: 1.0}
rotation: {episodes: 3, days: 7, submissions: 10}
controls: {names: [zero], margin: 0.1}
baselines: [nothing]
ladder_step: 0.05
quota: {submissions_per_day: 3, calls_per_minute: 2}
limits: {model_kib: 64, memory_mib: 128, call_ms: 2000, grading_s: 60, calls: 10}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(BoardError) as caught:
        parse_board(text.encode(), "toy.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_X6_a_board_is_read_and_its_hash_ignores_layout() -> None:
    board = parse_board(TEXT.encode(), "toy.yaml")
    assert board.key == "toy@2"
    assert board.interface.shapes("inputs") == {"x": (4,), "memory": (3,)}
    again = parse_board(json.dumps(board.model_dump()).encode(), "toy.json")
    assert board_hash(again) == board_hash(board)
    assert board_hash(parse_board(TEXT.replace("0.05", "0.06").encode(), "t")) != board_hash(board)


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("version: 2", "version: two", 2, "version: .*valid integer.*“?two"),
        ("version: 2", "version: 0", 2, "version: .*greater than or equal to 1"),
        ("title: A toy", "titel: A toy", 3, "titel: this key is unknown.*Did you mean “title”"),
        ("ladder_step: 0.05", "", 1, "ladder_step: this key is missing"),
        ("margin: 0.1", "margn: 0.1", 14, "controls.margn: this key is unknown.*Did you mean “margin”"),
        ("shape: [1]", "shape: [0]", 10, r"interface.outputs.0.shape.0: .*greater than or equal to 1"),
        ("name: y", "name: memory", 8, "interface: .*reserved"),
        ("board: toy", "board: Toy Board", 1, "board: .*pattern"),
        ("min: 0.0, max: 1.0", "min: 1.0, max: 0.0", 12, "metric: min must be below max"),
        ("ladder_step: 0.05", "ladder_step: 2.0", 1, "ladder_step must be below the range"),
        ("baselines: [nothing]", "baselines: []", 15, "baselines: .*at least 1"),
        ("title: A toy", "title: A toy\ntitle: Again", 4, "title: the key occurs twice .first on line 3"),
        ("title: A toy", "title: [", 5, "this is not YAML"),
        ("title: A toy", "title: &a A toy", 3, "anchors and aliases"),
        ("title: A toy", "title: !!python/object:os.system {}", 3, "title: "),
        ("days: 7", "days: .nan", 13, "rotation.days"),
    ],
)
def test_X6_each_mistake_has_its_line_and_a_remedy(old: str, new: str, line: int, says: str) -> None:
    found = problems(TEXT.replace(old, new))
    assert any(each.startswith(f"toy.yaml:{line}: ") and re.search(says, each) for each in found), found
    assert all("Next: " in each for each in found)


def test_X6_all_mistakes_are_reported_at_once() -> None:
    found = problems(TEXT.replace("version: 2", "version: 0").replace("days: 7", "days: 0").replace("title:", "tilte:"))
    assert [each.split(":")[1] for each in found] == ["1", "2", "3", "13"]  # title is missing, and tilte unknown


@given(st.binary(max_size=300))
def test_X6_rubbish_is_refused_with_problems_only(content: bytes) -> None:
    with pytest.raises(BoardError):
        parse_board(content, "rubbish")


def test_X6_two_files_of_one_version_are_refused(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(TEXT)
    with pytest.raises(BoardError, match=r"b\.yaml:1: version: another file has toy@2"):
        load_boards(tmp_path)


def test_X6_the_newest_version_is_chosen_by_number(tmp_path: Path) -> None:
    for version in (2, 9, 10):
        (tmp_path / f"{version}.yaml").write_text(TEXT.replace("version: 2", f"version: {version}"))
    boards = load_boards(tmp_path)
    assert newest(boards, "toy").version == 10
    with pytest.raises(UnknownBoard, match="Did you mean “toy”"):
        newest(boards, "toyy")


def test_X6_a_key_names_board_and_selector() -> None:
    assert split_key("decode-stimulus@best") == ("decode-stimulus", "best")
    for text in ("toy", "@best", "toy@", "../x@best"):
        with pytest.raises(ValueError, match="write BOARD"):
            split_key(text)
