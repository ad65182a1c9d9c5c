"""The balance error's doubt is that of what was moved and weighed, not of how full the bottles were in the beginning (F1)."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import numpy as np
import pytest

from controller.journal.journal import Journal
from controller.ledger.batches import Batch
from controller.ledger.ledger import Ledger
from controller.ledger.reconcile import K, Unknowns, surplus
from controller.ledger.terms import FILL_REL_SD
from controller.ledger.witnesses import DENSITY_REL_SD, Weight
from controller.rig.description import Rig
from sim.lab import SimulatedLab
from tests.execution.test_drift import MASS_SD_G, Rounds, icc, rounds, thirty_days
from tests.execution.test_ledger import opened
from tests.execution.test_ledger_whole_stack import drawing
from tests.execution.test_whole_stack import controlled
from tests.execution.world import RIG, StepClock, World

SEEDS = 120


class Doubtful(Rounds):
    """Rounds in which all that the ledger is unsure of is off by as much as it says: fill, density, balance."""

    def __init__(self, path: Path, seed: int) -> None:
        super().__init__(path, seed)
        self.spent_ul *= 1.0 + self.random.gauss(0.0, FILL_REL_SD)
        self.density = 1.0 + self.random.gauss(0.0, DENSITY_REL_SD)

    def weight(self) -> float:
        return self.spent_ul * self.density / 1000.0 + self.random.gauss(0.0, MASS_SD_G)


def three_turns(bench: Rounds) -> None:
    for _ in range(3):
        bench.turn()


def test_F1_the_balance_error_is_as_doubtful_as_it_says(tmp_path: Path) -> None:
    """Over many rigs on which nothing leaks: errors as wide as stated, next to none beyond the bound, none of it wide."""
    found = [rounds(tmp_path, seed, three_turns, Doubtful).ledger.unexplained() for seed in range(SEEDS)]
    sigmas = [each.ul / each.sd_ul for each in found]
    assert math.sqrt(sum(sigma**2 for sigma in sigmas) / SEEDS) == pytest.approx(1.0, abs=0.25)
    assert sum(abs(sigma) > K for sigma in sigmas) <= 0.02 * SEEDS
    assert all(each.sd_ul < 100.0 for each in found), "three turns move 100 mL"


def test_F1_what_has_been_learned_of_the_density_pulls_the_books_nowhere(tmp_path: Path) -> None:
    """Four hundred doses in, weighings before and after a dose still mean the same: what is left is chance."""
    found = [rounds(tmp_path, seed, thirty_days, Doubtful).ledger.unexplained() for seed in range(16)]
    mean_ul = sum(each.ul for each in found) / len(found)
    sd_ul = math.sqrt(sum(each.sd_ul**2 for each in found) / len(found))
    assert abs(mean_ul) < 2.5 * sd_ul / math.sqrt(len(found))
    assert all(abs(each.ul) < K * each.sd_ul for each in found)


def rig_with(stock_ul: float) -> Rig:
    vessel = RIG.vessels["reservoir"].model_copy(update={"volume_ul": stock_ul})
    return RIG.model_copy(update={"vessels": {**RIG.vessels, "reservoir": vessel}})


@pytest.mark.virtual_time
async def test_F1_how_full_the_stock_was_has_no_part_in_it(tmp_path: Path) -> None:
    seen = []
    for stock_ul in (50_000.0, 500_000.0):
        clock = StepClock(World())
        journal = Journal(tmp_path / f"{stock_ul}.db", clock, durable=False)
        ledger = Ledger(rig_with(stock_ul), journal, clock)
        assert ledger.unexplained().sd_ul == pytest.approx(0.0, abs=0.01), "nothing was moved yet"
        assert ledger.volumes()["reservoir"].sd_ul == pytest.approx(FILL_REL_SD * stock_ul)
        await asyncio.sleep(7 * 86_400)
        assert ledger.unexplained().sd_ul == pytest.approx(0.0, abs=0.01), "what evaporates is booked, doubt and all"
        ledger.moved("feed", 4_000.0, 40.0, "pump")
        ledger.weighed(Weight(6.95, 0.015))
        seen.append(ledger.unexplained())
        journal.close()
    (few, many) = seen
    assert few.ul == pytest.approx(many.ul)
    assert few.sd_ul == pytest.approx(many.sd_ul, rel=1e-3)
    assert few.sd_ul > 40.0, "the dose's own doubt is in it"


@pytest.mark.virtual_time
async def test_F4_what_leaks_is_beyond_the_bound_and_stays_so_after_a_restart(tmp_path: Path) -> None:
    world = World()
    ledger, journal = opened(tmp_path / "j.db", world)
    ledger.weighed(Weight(3.02, 0.015))
    quiet = ledger.unexplained()
    assert 0.0 < quiet.ul < K * quiet.sd_ul
    ledger.weighed(Weight(3.6, 0.015))
    found = ledger.unexplained()
    assert found.ul == pytest.approx(600.0, abs=15.0)
    assert found.ul > K * found.sd_ul, "the doubt that is kept of the vessel must not hide it"
    assert ledger.volumes()["spent"].sd_ul > 190.0
    journal.close()
    again, journal = opened(tmp_path / "j.db", world)
    assert again.unexplained().ul == pytest.approx(found.ul, abs=0.1)
    assert again.unexplained().sd_ul == pytest.approx(found.sd_ul, rel=0.01)
    journal.close()


@pytest.mark.virtual_time
async def test_F1_what_a_person_sets_or_loads_with_a_reason_is_no_balance_error(tmp_path: Path) -> None:
    world = World()
    ledger, journal = opened(tmp_path / "j.db", world)
    ledger.moved("draw", 5_000.0, 30.0, "balance", nominal=icc(5_000.0), weight=Weight(8.0, 0.015))
    before = ledger.unexplained()
    ledger.reconcile("loop", 20_000.0, 200.0, user="anna", reason="poured off for a colleague")
    bottle = Batch("NB-7", "fresh", "2026-01-01T00:00:00.000Z", "reservoir")
    ledger.load(bottle, 400_000.0, 4_000.0, replaces=True, user="anna", reason="another bottle")
    ledger.load(bottle, 20_000.0, 500.0, replaces=False, user="anna", reason="topped up")
    after = ledger.unexplained()
    assert after.ul == pytest.approx(before.ul)
    assert after.sd_ul == pytest.approx(before.sd_ul, abs=0.1)
    assert ledger.totals.reconciled_ul == pytest.approx(-15_000.0, abs=300.0)
    journal.close()
    again, journal = opened(tmp_path / "j.db", world)
    assert again.unexplained().ul == pytest.approx(after.ul, abs=0.1)
    journal.close()


@pytest.mark.virtual_time
async def test_F1_a_level_that_is_read_is_held_against_all_that_was_moved(tmp_path: Path) -> None:
    """Of the loop nothing but the pumps is known: what a reading of it corrects is as doubtful as the doses were."""
    ledger, journal = opened(tmp_path / "j.db", World())
    ledger.moved("draw", 10_000.0, 100.0, "pump")
    ledger.moved("discard", 10_000.0, 100.0, "pump")
    ledger.level("loop", 30_150.0, 50.0, user="anna", reason="round")
    found = ledger.unexplained()
    assert 0.0 < found.ul < K * found.sd_ul
    assert 50.0 < found.sd_ul < 250.0
    journal.close()


@pytest.mark.parametrize("least", [0.0, 0.5, 1.5, 3.0])
def test_what_is_only_seen_beyond_an_edge_scatters_more(least: float) -> None:
    rng = np.random.default_rng(1)
    seen = 2.0 * rng.standard_normal(2_000_000)
    seen = seen[np.abs(seen) > 2.0 * least]
    assert 4.0 + surplus(2.0, 2.0 * least) == pytest.approx(float(np.mean(seen**2)), rel=0.02)


def test_what_is_kept_is_corrected_by_nothing_and_followed_all_the_same() -> None:
    """Compare with a plain unknown of the same error: its estimate stays, and the difference has the correct uncertainty."""
    unknowns = Unknowns()
    unknowns.add("vessel", 10.0, 4.0)
    unknowns.add("booked", 0.0, 0.0, kept=True)
    unknowns.add_to("booked", {"vessel": 1.0}, 10.0)
    unknowns.measured({"vessel": 1.0}, 13.0, 1.0)
    assert unknowns.mean("vessel") == pytest.approx(12.4)
    assert unknowns.mean("booked") == 10.0
    assert unknowns.variance("booked") == 4.0
    # The correction is 4/5 of a difference that scatters by 4 + 1.
    difference = unknowns.residual({"vessel": 1.0, "booked": -1.0}, 0.0, 0.0)
    assert difference.sd**2 == pytest.approx(0.8**2 * 5.0)
    assert unknowns.copy().mean("booked") == 10.0


@pytest.mark.virtual_time
async def test_F1_on_the_whole_stack_it_is_microlitres(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=5)
    async with controlled(lab, tmp_path) as controller:
        await drawing(controller, 3)
        found = controller.ledger.unexplained()
        assert abs(found.ul) <= K * found.sd_ul
        assert found.sd_ul < 60.0, "the stocks' fill alone is known to 2,500"
    await lab.close()
