"""Read the boards of a hub: their rankings, never a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from grid.boards.board import Board
from grid.boards.loading import BoardError, boards_of
from grid.errors import GridError
from grid.grading.ladder import Ladder
from grid.grading.store import BoardStore, HubDatabase
from grid.page.models import BaselineModel, RankingModel, RankModel

MAX_ROWS = 50


def rankings(data: Path, names: Mapping[str, str], hub: HubDatabase) -> list[RankingModel]:
    """Return every board with its ranking in the present rotation.

    Args:
        data: The hub's folder.
        names: Names of the members by identity.
        hub: Its database, which is only read.

    Raises:
        GridError: A file of a board is malformed.
    """
    try:
        boards = boards_of(data).values()
    except BoardError as error:
        raise GridError(str(error)) from None
    store = BoardStore(data, hub=hub)
    graded = store if store.has_table("rotation") else None
    return [_ranking(board, graded, names) for board in boards]


def _ranking(board: Board, store: BoardStore | None, names: Mapping[str, str]) -> RankingModel:
    rotation = None if store is None else store.rotation_number(board.key)
    found = RankingModel(
        key=board.key,
        title=board.title,
        metric=board.metric.name,
        unit=board.metric.unit,
        rotation=rotation,
        baselines=[],
        rows=[],
    )
    if store is None or rotation is None:
        return found
    baselines = store.baselines(board.key, rotation) or {}
    ladder = Ladder(board.ladder_step)
    found.baselines = [
        BaselineModel(name=name, score=ladder.rounded(fmean(scores))) for name, scores in baselines.items()
    ]
    for place, row in enumerate(store.rows(board.key, rotation)[:MAX_ROWS], start=1):
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
