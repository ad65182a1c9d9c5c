"""Samples for assays leave the rig: the ledger books their volume once, and estimator and balance error know of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.estimator.assays import AssayError
from controller.estimator.estimator import Estimator
from controller.ledger.ledger import Ledger
from tests.execution.test_assays import bench, enter, the_estimator

pytestmark = pytest.mark.virtual_time


async def test_one_sample_for_several_analytes_is_booked_once(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    ledger, estimator = controller.ledger, the_estimator(controller)
    before, held_ul = ledger.volumes()["loop"], estimator.now().loop_ul
    enter(controller, "lactate", "0.4 mM", volume="0.5 mL")
    enter(controller, "glucose", "20.5 mM", volume="500 uL")
    after = ledger.volumes()["loop"]
    assert after.ul == pytest.approx(before.ul - 500.0)
    assert after.sd_ul >= before.sd_ul
    assert ledger.totals.sampled_ul == 500.0
    assert ledger.unexplained().ul == pytest.approx(0.0, abs=1e-6)
    assert estimator.now().loop_ul == pytest.approx(held_ul - 500.0)
    (row,) = controller.journal.entries(kinds=("ledger.sampled",))
    assert (row.body["vessel"], row.body["ul"], row.body["user"]) == ("loop", 500.0, "anna")
    again = Ledger(controller.world.rig, controller.journal, controller.clock)
    assert again.volumes()["loop"].ul == pytest.approx(after.ul)
    rebuilt = Estimator(
        controller.world.rig,
        ledger=again,
        journal=controller.journal,
        clock=controller.clock,
        store=controller.store,
    )
    assert rebuilt.now().loop_ul == pytest.approx(estimator.now().loop_ul)
    await controller.gone()


@pytest.mark.parametrize(
    ("volume", "says"),
    [
        ("0.5", "has no unit"),
        ("0 mL", "is impossible"),
        ("-1 mL", "is impossible"),
        ("60 mL", r"more than the 40\.00 mL that it holds"),
        ("3 kg", "kilogram"),
    ],
)
async def test_a_volume_that_cannot_be_books_nothing(volume: str, says: str, tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    rows = controller.journal.next_seq
    with pytest.raises(AssayError, match=says):
        enter(controller, "lactate", "0.4 mM", volume=volume)
    assert controller.journal.next_seq == rows
    await controller.gone()


async def test_two_volumes_for_one_sample_are_refused(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    enter(controller, "lactate", "0.4 mM", volume="0.5 mL")
    with pytest.raises(AssayError, match=r"contradicts the 0\.5 mL that are booked"):
        enter(controller, "glucose", "20.5 mM", volume="5 mL")
    assert controller.ledger.totals.sampled_ul == 500.0
    await controller.gone()


async def test_a_level_read_since_the_sample_contains_it(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    ledger, estimator = controller.ledger, the_estimator(controller)
    ledger.reconcile("loop", 38_000.0, 100.0, user="anna", reason="read")
    await asyncio.sleep(60.0)
    held_ul = estimator.now().loop_ul
    enter(controller, "lactate", "0.4 mM", volume="2 mL")
    assert ledger.volumes()["loop"].ul == pytest.approx(38_000.0, abs=1.0)
    assert estimator.now().loop_ul == pytest.approx(held_ul)
    assert ledger.totals.sampled_ul == 2000.0
    await controller.gone()


async def test_a_perfused_chamber_stays_full(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    before = controller.ledger.volumes()
    enter(controller, "lactate", "0.4 mM", vessel="chamber", volume="0.5 mL")
    after = controller.ledger.volumes()
    assert after["chamber"].ul == pytest.approx(before["chamber"].ul)
    assert after["loop"].ul == pytest.approx(before["loop"].ul - 500.0)
    await controller.gone()
