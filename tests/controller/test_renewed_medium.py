"""The share of the circulating medium that came from a bottle, by what was moved: it carries LDH away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from controller.core.clock import Clock
from controller.estimator.rig_medium import RigMedium
from controller.journal.journal import Journal
from protocols.media_state import MediaState
from protocols.soft_sensor import Where
from tests.controller.test_evidence_once import lived
from tests.controller.test_ldh_signs import FixedClock
from tests.controller.test_score_isolation import WildBench
from tests.execution.world import RIG

UNMIXED: dict[Where, float] = {"loop": 1.0, "spent": 1.0}


@pytest.fixture
def medium(tmp_path: Path) -> Iterator[RigMedium]:
    journal = Journal(tmp_path / "journal.db", cast(Clock, FixedClock()), durable=False)
    yield RigMedium(RIG, journal, None)
    journal.close()


def test_fresh_medium_dilutes_through_the_spent_vessel_and_recycled_medium_does_not(medium: RigMedium) -> None:
    state = medium.begin()
    loop_ul = state.loop_ul

    def moved(tracer: dict[Where, float], state: MediaState, *moves: tuple[str, float]) -> tuple[float, MediaState]:
        for line, ul in moves:
            tracer = dict(medium.mixed(tracer, state, line, ul))
            state = medium.poured(state, line, ul)
        return tracer["loop"], state

    empty = medium.poured(state, "discard", state.spent_ul)
    third_ul = loop_ul / 3.0
    recycled, _ = moved(UNMIXED, empty, ("draw", third_ul), ("return", third_ul))
    exchanged, _ = moved(
        UNMIXED, empty, ("draw", third_ul), ("discard", third_ul), ("feed", third_ul), ("return", third_ul)
    )
    assert recycled == pytest.approx(1.0)
    assert exchanged == pytest.approx(2.0 / 3.0, rel=0.02)


def test_the_row_of_an_hour_names_the_share_that_was_renewed(tmp_path: Path) -> None:
    bench = WildBench(tmp_path)
    bench.set_media(None)
    lived(bench, 0.3)
    bench.undiluted = 0.75
    lived(bench, 0.6)
    bench.undiluted = 0.5
    lived(bench, 2.1)
    looks = [row.body["look"].get("renewed", 0.0) for row in bench.journal.entries(kinds=("tissue.look",))]
    bench.journal.close()
    assert looks == [0.5, 0.0]
