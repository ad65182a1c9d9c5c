"""Ledger, estimator, assays and upkeep of rigs without a kidney, with several chambers, with several hearts."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.core.state import StateStore
from controller.estimator.assays import AssayError, Assays
from controller.estimator.estimator import Estimator, estimator_of
from controller.ledger.terms import PUSHED_REL_SD, Nominal
from controller.rig.description import Rig, required
from controller.upkeep.upkeep import Upkeep
from tests.composed_rigs import dishes, single_pass, straw, two_hearts, two_plates
from tests.execution.ledger_bench import LedgerBench

pytestmark = pytest.mark.virtual_time
DAY_S = 86_400.0


class Bench(LedgerBench):
    """With the estimator and the upkeep of the rig."""

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


async def test_what_open_plates_lose_is_missing_in_the_loop_or_in_the_waste(tmp_path: Path) -> None:
    for rig, name in ((two_plates(), "bottle"), (single_pass(), "waste")):
        (tmp_path / name).mkdir()
        opened = {"surface_cm2": 20.0}
        vessels = {
            each: vessel.model_copy(update=opened) if vessel.kind == "chamber" else vessel
            for each, vessel in rig.vessels.items()
        }
        chambers = len(rig.tissue)
        with bench(tmp_path / name, rig.model_copy(update={"vessels": vessels})) as made:
            before = made.ledger.volumes()
            await asyncio.sleep(DAY_S)
            lost = {each: before[each].ul - volume.ul for each, volume in made.ledger.volumes().items()}
            tubing_ul = 100.0 if name == "bottle" else 0.0
            assert {each: ul for each, ul in lost.items() if ul} == {name: pytest.approx(chambers * 300.0 + tubing_ul)}


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
        estimate = await estimator.estimate()
        assert estimate.spent_values is None
        assert math.isfinite(estimate.loop.lactate_mm.value)
        with pytest.raises(ValueError, match="no kidney"):
            _ = estimate.spent


async def test_an_assay_names_a_chamber_and_no_spent_vessel(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as plates:
        estimator = plates.estimator()
        assays = Assays(
            plates.rig, estimator=estimator, ledger=plates.ledger, journal=plates.journal, clock=plates.clock
        )
        await asyncio.sleep(DAY_S)
        found = assays.enter("glucose", "20 mM", vessel="right", taken=plates.clock.utc_text(), user="ada", sure=True)
        assert found["vessel"] == "right"
        assert assays.medium()["spent"] is None
        with pytest.raises(AssayError, match="no vessel is called “spent”"):
            assays.enter("glucose", "20 mM", vessel="spent", taken=plates.clock.utc_text(), user="ada")


async def test_without_a_loop_an_assay_is_refused_with_the_reason(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as plates:
        assays = Assays(plates.rig, estimator=None, ledger=plates.ledger, journal=plates.journal, clock=plates.clock)
        with pytest.raises(AssayError, match="no heart of this rig draws from a loop"):
            assays.enter("glucose", "20 mM", vessel="left", taken=plates.clock.utc_text(), user="ada")
        with pytest.raises(AssayError, match="no circulating medium"):
            assays.medium()


async def test_the_tubing_and_the_loop_of_a_rig_without_kidney_are_looked_after(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as plates:

        def judged() -> Upkeep:
            ledger = plates.ledger
            return Upkeep(plates.rig, journal=plates.journal, clock=plates.clock, data=tmp_path, volumes=ledger.volumes)

        assert ("level_due", "bottle") not in judged().causes
        await asyncio.sleep(60 * DAY_S)
        upkeep = judged()
        assert list(upkeep.tubing) == ["pump.pump"]
        assert upkeep.standings["pump.pump"].heart
        assert upkeep.pumps == {}
        assert ("level_due", "bottle") in upkeep.causes


async def test_hearts_of_one_loop_feed_one_pool(tmp_path: Path) -> None:
    with bench(tmp_path, two_hearts()) as made:
        assert made.estimator().state.loop_ul == 124_000.0
        upkeep = Upkeep(made.rig, journal=made.journal, clock=made.clock, data=tmp_path)
        assert [standing.heart for standing in upkeep.standings.values()] == [True, True]


async def test_dishes_have_volumes_and_an_uncertain_loss_but_no_estimator(tmp_path: Path) -> None:
    with bench(tmp_path, dishes(3)) as made:
        assert (
            estimator_of(made.rig, ledger=made.ledger, journal=made.journal, clock=made.clock, store=StateStore())
            is None
        )
        await asyncio.sleep(5 * DAY_S)
        held = made.ledger.volumes()["dish2"]
        assert held.ul == pytest.approx(12_000.0 - 5 * 20 * 15.0), "12 mL that are 6 mm deep have a surface of 20 cm²"
        assert held.sd_ul == pytest.approx(0.7 * 1500.0, rel=0.01)
        made.ledger.reconcile("dish2", 12_000.0, 100.0, user="ada", reason="half of the medium exchanged")
        assert made.ledger.volumes()["dish2"].sd_ul == pytest.approx(100.0)
        assert made.opened().volumes()["dish2"].ul == pytest.approx(12_000.0)
        upkeep = Upkeep(made.rig, journal=made.journal, clock=made.clock, data=tmp_path, volumes=made.ledger.volumes)
        assert upkeep.to_json() == []


async def test_what_overflows_a_chamber_enters_the_waste(tmp_path: Path) -> None:
    with bench(tmp_path, single_pass()) as made:
        made.ledger.moved("feed", 30_000.0, 300.0, "pump")
        volumes = made.ledger.volumes()
        assert {name: round(volume.ul) for name, volume in volumes.items()} == {
            "bottle": 170_000,
            "chip": 12_000,
            "waste": 30_000,
        }
        assert volumes["chip"].sd_ul == pytest.approx(60.0)  # as it was filled: the outlet keeps it
        assert volumes["waste"].sd_ul == pytest.approx(300.0)
        shares = {name: made.ledger.whereabouts.mixtures[name].by_batch for name in ("chip", "waste")}
        assert shares["chip"]["bottle at the start"] == pytest.approx(30 / 42)
        assert shares["waste"] == pytest.approx(shares["chip"])
        assert made.ledger.whereabouts.flows_ul["bottle at the start"]["feed"] == pytest.approx(30_000.0)


async def test_a_chamber_below_its_outlet_fills_first(tmp_path: Path) -> None:
    with bench(tmp_path, single_pass()) as made:
        made.ledger.reconcile("chip", 4_000.0, 100.0, user="ada", reason="sampled")
        made.ledger.moved("feed", 10_000.0, 100.0, "pump")
        volumes = made.ledger.volumes()
        assert volumes["chip"].ul == pytest.approx(12_000.0)
        assert volumes["waste"].ul == pytest.approx(2_000.0)


async def test_medium_that_comes_back_changes_no_volume(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as made:
        before = made.ledger.volumes()
        made.ledger.moved("feed", 50_000.0, 500.0, "pump")
        assert {name: volume.ul for name, volume in made.ledger.volumes().items()} == pytest.approx(
            {name: volume.ul for name, volume in before.items()}
        )
        assert "split" not in made.ledger.whereabouts.mixtures
        assert (
            made.ledger.whereabouts.batch_json("left at the start", dict.fromkeys(before, 1.0))["now_ul"]["bottle"] > 0
        )


async def test_a_line_into_a_junction_divides_by_resistance(tmp_path: Path) -> None:
    rig = two_plates()
    narrow = rig.lines["to_left"].model_copy(update={"bore_mm": rig.lines["to_right"].bore_mm / 2**0.25})
    rig = rig.model_copy(update={"lines": rig.lines | {"to_left": narrow}})
    with bench(tmp_path, rig) as made:
        for name in ("left", "right"):
            made.ledger.reconcile(name, 2_000.0, 50.0, user="ada", reason="sampled")
        made.ledger.moved("feed", 3_000.0, 30.0, "pump")
        volumes = made.ledger.volumes()
        assert volumes["left"].ul == pytest.approx(3_000.0)
        assert volumes["right"].ul == pytest.approx(4_000.0)
        assert volumes["bottle"].ul == pytest.approx(197_000.0)


async def test_a_straw_keeps_the_level_and_takes_air_beyond_it(tmp_path: Path) -> None:
    with bench(tmp_path, straw()) as made:
        for _ in range(48):
            made.ledger.moved("feed", 500.0, 15.0, "pump", nominal=Nominal(500.0, 0.05, 5.0, "factory"))
            made.ledger.moved("extract", 1_000.0, 15.0, "pump", nominal=Nominal(1_000.0, 0.05, 5.0, "factory"))
        extract, volumes = made.rig.lines["extract"], made.ledger.volumes()
        tube_ul = (
            math.pi / 4.0 * extract.bore_mm**2 * extract.length_m * 1000.0
        )  # air has pushed out what it held, once
        assert volumes["vial"].ul == pytest.approx(14_000.0)
        assert volumes["vial"].sd_ul == pytest.approx(280.0)  # two per cent: no error adds up in it
        assert volumes["waste"].ul == pytest.approx(24_000.0 + tube_ul, abs=0.1)
        fed_sd_ul = 24_000.0 * 0.05  # what the feeding pump may have given
        assert volumes["waste"].sd_ul == pytest.approx(math.hypot(fed_sd_ul, PUSHED_REL_SD * tube_ul), rel=0.1)
        assert volumes["bottle"].ul == pytest.approx(176_000.0)
        assert made.opened().volumes()["waste"].ul == pytest.approx(24_000.0 + tube_ul, abs=0.1)
        assert made.ledger.gain("extractor.pump") is None  # air tells nothing of a pump


async def test_a_straw_below_the_level_draws_as_asked(tmp_path: Path) -> None:
    with bench(tmp_path, straw()) as made:
        made.ledger.reconcile("vial", 20_000.0, 100.0, user="ada", reason="filled up")
        made.ledger.moved("extract", 1_000.0, 15.0, "pump")
        assert made.ledger.volumes()["vial"].ul == pytest.approx(19_000.0)
