"""Changes of tissue against the hazard table, and their effect on the estimate of the medium."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from controller.core.state import StateStore
from controller.estimator.estimator import Estimator
from controller.hazards.table import hazards_of
from controller.ledger.ledger import Ledger
from controller.process.tissue_changes import TissueChanges, TissueUnsafe
from controller.rig.description import Rig, TissueSpec
from controller.tissue.record import TissueRecord
from protocols import media_filter, media_state
from protocols.media_state import MediaState
from protocols.soft_sensor import Composition
from tests.composed_rigs import two_plates
from tests.execution.test_tissue_record import journal_in

pytestmark = pytest.mark.virtual_time
ADA: dict[str, Any] = {"user": "ada", "role": "operator", "reason": "split for imaging"}
UNSAFE = "tissue_unsafe"


def with_tissue(rig: Rig, **tissue: TissueSpec) -> Rig:
    return rig.model_copy(update={"tissue": tissue})


async def test_tissue_that_the_rig_cannot_feed_is_refused_unless_it_is_there_already(tmp_path: Path) -> None:
    rig = two_plates()
    with journal_in(tmp_path) as (journal, clock):
        changes = TissueChanges(rig, journal, clock)
        record = changes.record
        changes.remove("right", **ADA)
        assert changes.causes == {}
        with pytest.raises(TissueUnsafe, match=r"does not protect tissue in right: .*[Nn]ext: choose another chamber"):
            changes.place("right", count=3000, diameter_mm=3.0, age_d=30.0, **ADA)
        assert "right" not in record.cultures
        assert list(journal.entries(kinds=("tissue.placed",))) == []
        changes.place("right", count=3000, diameter_mm=3.0, age_d=30.0, sure=True, **ADA)
        ((kind, source),) = changes.causes
        assert (kind, source) == (UNSAFE, rig.name)
        assert changes.causes == TissueChanges(rig, journal, clock).causes, "as after a restart"
        changes.remove("right", count=2999, **ADA)
        assert changes.causes == {}
        (row,) = journal.entries(kinds=("tissue.placed",))
        assert (row.body["user"], row.body["role"]) == ("ada", "operator")


async def test_a_move_to_an_equal_chamber_changes_no_hazard_and_nothing_of_the_estimate(tmp_path: Path) -> None:
    rig = two_plates()
    with journal_in(tmp_path) as (journal, clock):
        changes = TissueChanges(rig, journal, clock)
        record = changes.record
        estimator = estimator_on(rig, journal, clock, record)
        changes.remove("right", **ADA)
        before = estimator.state
        assert changes.move("left", "right", **ADA).came_from == "left"
        assert changes.causes == {}
        assert estimator.state.mean.tolist() == pytest.approx(before.mean.tolist())
        assert hazards_of(with_tissue(rig, **record.specs)) != ()


def estimator_on(rig: Rig, journal: object, clock: object, record: TissueRecord) -> Estimator:
    ledger = Ledger(rig, journal, clock)  # type: ignore[arg-type]
    return Estimator(rig, ledger=ledger, journal=journal, clock=clock, store=StateStore(), tissue=record)  # type: ignore[arg-type]


async def test_the_estimate_follows_tissue_that_comes_and_leaves_also_after_a_restart(tmp_path: Path) -> None:
    rig = two_plates()
    with journal_in(tmp_path) as (journal, clock):
        record = TissueRecord(rig, journal, clock)
        estimator = estimator_on(rig, journal, clock, record)
        at_first = estimator.state.rate_umol_d
        await asyncio.sleep(3600.0)
        left = rig.tissue["left"].count
        volume = {name: of.count * of.diameter_mm**3 for name, of in rig.tissue.items()}
        before = estimator.now().rate_umol_d  # the tissue has grown for an hour
        record.remove("left", **ADA)
        share = volume["right"] / sum(volume.values())
        assert estimator.state.rate_umol_d == pytest.approx(share * before, rel=1e-6)
        await asyncio.sleep(3600.0)
        before = estimator.now().rate_umol_d
        record.place("left", count=left, diameter_mm=rig.tissue["left"].diameter_mm, age_d=1.0, **ADA)
        assert estimator.state.rate_umol_d == pytest.approx(before + (1.0 - share) * at_first, rel=1e-6)
        await asyncio.sleep(3600.0)
        again = estimator_on(rig, journal, clock, TissueRecord(rig, journal, clock))
        assert again.now().mean.tolist() == pytest.approx(estimator.now().mean.tolist(), rel=1e-6, abs=1e-9)
        assert again.now().covariance.tolist() == [
            pytest.approx(row, rel=1e-3, abs=1e-6) for row in estimator.now().covariance.tolist()
        ]


def prior(tissue_mm3: float) -> MediaState:
    fresh = Composition(21.0, 0.0, 0.02, 27.5, 1.25, 285.0)
    return media_state.begin(
        fresh,
        fresh,
        loop_ul=40_000.0,
        spent_ul=3_000.0,
        tissue_mm3=tissue_mm3,
        water_ul_d=(0.0, 10.0),
        buffer=(3.0, 1.0),
    )


def test_tissue_into_an_empty_rig_is_as_uncertain_as_at_the_beginning() -> None:
    changed, began = media_state.tissue_changed(prior(0.0), 0.0, 131.0), prior(131.0)
    assert changed.mean.tolist() == pytest.approx(began.mean.tolist())
    assert changed.sd(media_state.MAKES_LACTATE) == pytest.approx(began.sd(media_state.MAKES_LACTATE))


def test_half_of_the_tissue_leaves_half_of_the_rates_with_a_larger_relative_uncertainty() -> None:
    began = prior(131.0)
    half, none = (media_state.tissue_changed(began, 131.0, left) for left in (65.5, 0.0))
    assert half.rate_umol_d == pytest.approx(0.5 * began.rate_umol_d)
    lactate = media_state.MAKES_LACTATE
    assert half.sd(lactate) / half.rate_umol_d > began.sd(lactate) / began.rate_umol_d
    assert (none.rate_umol_d, none.sd(lactate)) == (0.0, 0.0)
    lived = media_filter.elapsed(none, 86_400.0, water_ul_d=0.0)
    assert lived.interval("loop", "lactate_mm").value == pytest.approx(0.0, abs=1e-3)
