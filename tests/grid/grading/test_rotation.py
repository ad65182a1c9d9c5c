"""X7: hidden seeds are committed to beforehand and can be checked afterwards."""

from __future__ import annotations

from dataclasses import replace

from grid.boards.loading import parse_board
from grid.grading.rotation import DAY_S, HIDDEN_FROM, Rotation, is_committed, is_over
from tests.grid.boards.test_loading import TEXT

ROTATION = Rotation("toy@2", 1, b"s" * 32, 1000.0)


def test_X7_seeds_follow_from_the_secret_alone() -> None:
    assert ROTATION.seeds(3) == Rotation("toy@2", 1, b"s" * 32, 5.0).seeds(3)
    assert len(set(ROTATION.seeds(100))) == 100
    assert min(ROTATION.seeds(100)) >= HIDDEN_FROM
    assert ROTATION.seeds(5)[:3] == ROTATION.seeds(3)


def test_X7_another_secret_board_or_number_breaks_the_commitment() -> None:
    commitment = ROTATION.commitment
    assert is_committed(ROTATION, commitment)
    for other in (replace(ROTATION, secret=b"t" * 32), replace(ROTATION, board="toy@3"), replace(ROTATION, number=2)):
        assert not is_committed(other, commitment)
        assert not set(other.seeds(10)) & set(ROTATION.seeds(10))


def test_X7_a_rotation_ends_by_age_or_by_use() -> None:
    board = parse_board(TEXT.encode(), "toy.yaml")
    begun = ROTATION.began_s
    assert not is_over(board, ROTATION, submissions=9, now_s=begun + 7 * DAY_S - 1)
    assert is_over(board, ROTATION, submissions=10, now_s=begun)
    assert is_over(board, ROTATION, submissions=0, now_s=begun + 7 * DAY_S)
