"""A bottle of another lot, and a booking that the estimate cannot follow."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from controller.estimator.estimator import AGAIN_S, EstimateBehind
from controller.estimator.rig_medium import RigMedium
from controller.ledger.batches import Batch
from controller.rig.description import Rig
from protocols.media_state import BOTTLE, DECAY, GROWTH, STABLE_RATE, MediaState
from tests.execution.test_assays import bench, enter, the_estimator
from tests.execution.world import Controller

BOTTLE_OF = slice(BOTTLE, GROWTH)


def load(controller: Controller, lot: str) -> None:
    batch = Batch(lot, "fresh", controller.clock.utc_text(), "reservoir")
    controller.ledger.load(batch, 400_000.0, 2_000.0, replaces=True, user="anna", reason="a new bottle")


def same(one: MediaState, other: MediaState) -> bool:
    return np.allclose(one.mean, other.mean) and np.allclose(one.covariance, other.covariance)


@pytest.mark.virtual_time
async def test_what_assays_taught_of_a_label_is_not_believed_of_another_lot(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    enter(controller, "ammonia", "0.2 mM", hours=0.9, sure=True)
    learnt = the_estimator(controller).state
    assert np.abs(learnt.mean[BOTTLE_OF]).max() > 1.0, "the label of the first bottle is wrong"
    load(controller, "A")
    after = the_estimator(controller).state
    assert np.array_equal(after.mean[BOTTLE_OF], np.zeros(6))
    assert np.array_equal(after.covariance[BOTTLE_OF, BOTTLE_OF], np.eye(6))
    assert np.allclose(after.mean[:BOTTLE], learnt.mean[:BOTTLE], atol=0.01), "what is in the loop stays what it is"
    assert after.assayed == (0,) * 6, "its first assays test the label"
    await asyncio.sleep(3600.0)
    enter(controller, "lactate", "0.5 mM", hours=1.9)
    load(controller, "A")
    assert max(the_estimator(controller).state.assayed) == 1, "the same lot: nothing new"
    load(controller, "B")
    assert max(the_estimator(controller).state.assayed) == 0
    await controller.gone()
    again = Controller(controller.world, tmp_path / "j.db")
    assert same(the_estimator(again).now(), the_estimator(controller).now()), "a restart replays it"
    await again.gone()


@pytest.mark.virtual_time
async def test_a_booking_that_the_estimate_cannot_follow_is_booked_and_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    controller = await bench(tmp_path / "j.db")
    estimator = the_estimator(controller)

    def fails(*_: object) -> MediaState:
        raise ZeroDivisionError("a defect of the estimate")

    with monkeypatch.context() as patch:
        patch.setattr(estimator._medium, "loaded", fails)
        load(controller, "A")
        load(controller, "B")
        with pytest.raises(ZeroDivisionError):
            _ = estimator.state
        undiluted = estimator.undiluted
        controller.ledger.moved("feed", 6_000.0, 30.0, "balance")
        controller.ledger.moved("return", 6_000.0, 30.0, "balance")
        assert estimator.undiluted < undiluted, "what dilutes the loop is counted meanwhile"
    assert [row.body["lot"] for row in controller.journal.entries(kinds=("ledger.loaded",))] == ["A", "B"]
    assert controller.ledger.volumes()["reservoir"].ul == pytest.approx(394_000.0)
    assert caplog.text.count("cannot follow a booking") == 1
    with pytest.raises(EstimateBehind, match="ZeroDivisionError"):
        _ = estimator.state
    await asyncio.sleep(AGAIN_S)
    assert same(estimator.now(), estimator.at(controller.clock.utc())), "it replays the journal"
    await controller.gone()


@pytest.mark.virtual_time
async def test_an_estimate_that_cannot_follow_the_journal_keeps_no_controller_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    controller = await bench(tmp_path / "j.db")
    load(controller, "A")
    await controller.gone()

    def fails(*_: object) -> MediaState:
        raise ZeroDivisionError("a defect of the estimate")

    with monkeypatch.context() as patch:
        patch.setattr(RigMedium, "loaded", fails)
        again = Controller(controller.world, tmp_path / "j.db")
        with pytest.raises(ZeroDivisionError):
            _ = the_estimator(again).state
        assert "cannot follow the journal" in caplog.text
    await asyncio.sleep(AGAIN_S)
    assert same(the_estimator(again).now(), the_estimator(again).at(again.clock.utc()))
    await again.gone()


def with_stable_glutamine(rig: Rig, stable: bool) -> Rig:
    fresh = rig.media["fresh"].model_copy(update={"stable_glutamine": stable})
    return rig.model_copy(update={"media": {**rig.media, "fresh": fresh}})


@pytest.mark.virtual_time
async def test_glutamine_that_the_rig_file_now_calls_stable_decays_so_from_the_next_start(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    await the_estimator(controller).estimate()
    decay = the_estimator(controller).state.mean[DECAY]
    await controller.gone()
    world = controller.world
    for stable, share in ((True, STABLE_RATE), (True, STABLE_RATE), (False, 1.0)):
        world.rig = with_stable_glutamine(world.rig, stable)
        again = Controller(world, tmp_path / "j.db")
        assert the_estimator(again).state.mean[DECAY] == pytest.approx(share * decay, rel=0.05)
        await the_estimator(again).estimate()
        await again.gone()
