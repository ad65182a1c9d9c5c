"""Ledger, estimator, assays and upkeep of rigs without a kidney, with several chambers, with several hearts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.estimator.assays import AssayError, Assays
from controller.estimator.estimator import Estimator, estimator_of
from controller.journal.journal import Journal
from controller.ledger.ledger import Ledger
from controller.ledger.witnesses import Weight
from controller.rig.description import Rig, required
from controller.upkeep.upkeep import Upkeep
from tests.composed_rigs import two_plates
from tests.execution.world import EPOCH

pytestmark = pytest.mark.virtual_time
DAY_S = 86_400.0


class Bench:
    """A rig's journal and ledger in virtual time."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self.rig = rig
        self.clock = Clock(follow_system=False, epoch=EPOCH)
        self.journal = Journal(folder / "journal.db", self.clock, durable=False)
        self.alarms: list[tuple[str, str, str]] = []
        self.ledger = self.opened()

    def opened(self) -> Ledger:
        """Return the ledger as a new process has it."""
        return Ledger(self.rig, self.journal, self.clock, alarm=lambda *alarm: self.alarms.append(alarm))

    def estimator(self, rig: Rig | None = None) -> Estimator:
        found = estimator_of(
            rig or self.rig, ledger=self.ledger, journal=self.journal, clock=self.clock, store=StateStore()
        )
        return required(found, "a loop")


@contextmanager
def bench(folder: Path, rig: Rig) -> Iterator[Bench]:
    made = Bench(rig, folder)
    try:
        yield made
    finally:
        made.journal.close()


async def test_without_a_kidney_every_vessel_has_its_volume(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as plates:
        volumes = plates.ledger.volumes()
        assert {name: volume.ul for name, volume in volumes.items()} == {
            "bottle": 200_000.0,
            "left": 12_000.0,
            "right": 12_000.0,
        }


async def test_only_the_loop_of_perfused_chambers_evaporates(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as plates:
        await asyncio.sleep(10 * DAY_S)
        volumes = plates.ledger.volumes()
        assert volumes["bottle"].ul == pytest.approx(199_000.0)
        assert volumes["left"].ul == 12_000.0


async def test_a_vessel_on_a_balance_is_corrected_without_a_kidney(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as plates:
        await asyncio.sleep(DAY_S)
        plates.ledger.weighed(Weight(198.0, 0.1), "bottle")
        held = plates.ledger.volumes()["bottle"]
        assert held.ul == pytest.approx(198_000.0, abs=10.0)
        assert held.sd_ul < 500.0
        assert plates.opened().volumes()["bottle"].ul == pytest.approx(held.ul)
        assert not plates.alarms
        plates.ledger.weighed(Weight(150.0, 0.1), "bottle")
        ((kind, source, detail),) = plates.alarms
        assert (kind, source) == ("balance_drift", "bottle")
        assert "“bottle”" in detail


async def test_the_circulating_pool_is_the_loop_with_all_its_chambers(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as plates:
        estimator = plates.estimator()
        assert estimator.state.loop_ul == 224_000.0
        assert [estimator.where(name) for name in plates.rig.vessels] == ["loop", "loop", "loop"]
        one = plates.rig.model_copy(update={"tissue": {"left": plates.rig.tissue["left"]}})
        single = required(
            estimator_of(one, ledger=plates.ledger, journal=plates.journal, clock=plates.clock, store=StateStore()),
            "a loop",
        )
        assert estimator.state.rate_umol_d == pytest.approx(single.state.rate_umol_d * 10 / 6)  # ten organoids for six


async def test_an_assay_names_a_chamber_and_no_spent_vessel(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as plates:
        estimator = plates.estimator()
        assays = Assays(plates.rig, estimator=estimator, journal=plates.journal, clock=plates.clock)
        await asyncio.sleep(DAY_S)
        found = assays.enter("glucose", "20 mM", vessel="right", taken=plates.clock.utc_text(), user="ada", sure=True)
        assert found["vessel"] == "right"
        assert assays.medium()["spent"] is None
        with pytest.raises(AssayError, match="no vessel is called “spent”"):
            assays.enter("glucose", "20 mM", vessel="spent", taken=plates.clock.utc_text(), user="ada")


async def test_without_a_loop_an_assay_is_refused_with_the_reason(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as plates:
        assays = Assays(plates.rig, estimator=None, journal=plates.journal, clock=plates.clock)
        with pytest.raises(AssayError, match="no heart of this rig draws from a loop"):
            assays.enter("glucose", "20 mM", vessel="left", taken=plates.clock.utc_text(), user="ada")
        with pytest.raises(AssayError, match="no circulating medium"):
            assays.medium()


async def test_the_tubing_and_the_loop_of_a_rig_without_kidney_are_looked_after(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as plates:
        await asyncio.sleep(60 * DAY_S)
        upkeep = Upkeep(
            plates.rig, journal=plates.journal, clock=plates.clock, data=tmp_path, volumes=plates.ledger.volumes
        )
        assert list(upkeep.tubing) == ["pump.pump"]
        assert upkeep.standings["pump.pump"].heart
        assert upkeep.pumps == {}
        assert ("level_due", "bottle") in upkeep.causes
