"""The share of the circulating medium that came from a bottle, by what was moved: it carries LDH away."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from controller.core.clock import Clock
from controller.estimator.rig_medium import RigMedium
from controller.journal.journal import Journal
from protocols.media_state import AMMONIA, BOTTLE, SPENT, MediaState
from protocols.medium_ageing import DOUBT
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


def test_the_doubt_about_the_age_of_a_bottle_is_none_about_its_label(medium: RigMedium) -> None:
    """What assays taught of the label stays as much as it was, however old the bottle has become."""
    state = medium.begin()
    taught = state.mean.copy()
    taught[BOTTLE + AMMONIA] = 10.0
    state = replace(state, mean=taught)
    ul = 1e3 * (state.spent_ul + state.loop_ul)
    fresh, old = medium.poured(state, "feed", ul), medium.poured(state, "feed", ul, 0.6)
    lost_mm = 0.4 * RIG.media["fresh"].glutamine_mm
    here = SPENT + AMMONIA
    assert fresh.mean[here] > 0.09, "the label is 0.1 mM off"
    assert old.mean[here] == pytest.approx(fresh.mean[here] + lost_mm, abs=0.01)
    assert old.sd(here) == pytest.approx(math.hypot(fresh.sd(here), DOUBT * lost_mm), rel=0.1)


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
