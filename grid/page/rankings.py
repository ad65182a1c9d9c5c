"""Read the boards of a hub: their rankings, never a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from grid.boards.board import Board
from grid.boards.loading import boards_of
from grid.grading.ladder import Ladder
from grid.grading.store import FILE, BoardStore
from grid.page.models import BaselineModel, RankingModel, RankModel

MAX_ROWS = 50


def rankings(data: Path, names: Mapping[str, str]) -> list[RankingModel]:
    """Return every board with its ranking in the present rotation.

    Args:
        data: The hub's folder.
        names: Names of the members by identity.
    """
    boards = boards_of(data).values()
    if not (data / FILE).exists():
        return [_ranking(board, None, names) for board in boards]
    store = BoardStore(data, readonly=True)
    try:
        return [_ranking(board, store, names) for board in boards]
    finally:
        store.close()


def _ranking(board: Board, store: BoardStore | None, names: Mapping[str, str]) -> RankingModel:
    rotation = None if store is None else store.rotation(board.key)
    found = RankingModel(
        key=board.key,
        title=board.title,
        metric=board.metric.name,
        unit=board.metric.unit,
        rotation=None if rotation is None else rotation.number,
        baselines=[],
        rows=[],
    )
    if store is None or rotation is None:
        return found
    baselines = store.baselines(board.key, rotation.number) or {}
    ladder = Ladder(board.ladder_step)
    found.baselines = [
        BaselineModel(name=name, score=ladder.rounded(fmean(scores))) for name, scores in baselines.items()
    ]
    for place, row in enumerate(store.rows(board.key, rotation.number)[:MAX_ROWS], start=1):
        graded = row.state == "graded"
        found.rows.append(
            RankModel(
                rank=place if graded else None,
                name=row.name,
                member=names.get(row.member, row.member[:8]),
                state=row.state,
                score=row.published if graded else None,
                reason=row.reason,
            )
        )
    return found
