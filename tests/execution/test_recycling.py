"""The shipped protocols on the bench: every grade's treatment, determinism, and what a lab's own protocol does."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.core.run_states import RunState
from protocols.registry import PROTOCOLS
from sim.virtual_time import run_virtual
from tests.execution.world import BENCH, Controller, World
from tests.protocols.in_process import load

EXAMPLE = BENCH.parents[1] / "protocols" / "gentle_exchange.py"
CATALOGUE = {**PROTOCOLS, "gentle-exchange": load(EXAMPLE)}


async def _ran(world: World, path: Path, protocol: str, **params: str) -> Controller:
    controller = Controller(world, path, catalogue=CATALOGUE)
    run = await controller.runs.start(protocol, params, "anna", "a test")
    await controller.until(lambda: controller.runs.get(run).state in (RunState.COMPLETE, RunState.HELD), 1e6)
    return controller


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("ph_spent", "letter", "min_discarded_ul"),
    [(7.33, "A", 0.0), (7.18, "B", 0.0), (7.02, "C", 8_500.0), (6.7, "D", 17_500.0)],
)
async def test_each_grade_is_treated_as_it_should(
    ph_spent: float, letter: str, min_discarded_ul: float, tmp_path: Path
) -> None:
    world = World()
    world.readings["ph_spent.ph"] = ("pH", ph_spent)
    controller = await _ran(world, tmp_path / "j.db", "recycle", cycles="1", min_batch="18 mL")
    grade, note = controller.journal.last("note.grade"), controller.journal.last("note.recycle")
    assert grade is not None
    assert note is not None
    assert grade.body["grade"] == note.body["grade"] == letter
    assert note.body["discarded_ul"] >= min_discarded_ul
    if letter == "B":
        assert note.body["base_ul"] >= 500.0
    world.advance()
    assert world.volumes["loop"] == pytest.approx(40_000, abs=700)
    assert world.volumes["spent"] == pytest.approx(3_000, abs=700)
    # Every microlitre of the cycle is in its note, and agrees with the vessels.
    gained = note.body["drawn_ul"] + note.body["fresh_ul"] + note.body["glucose_ul"] + note.body["base_ul"]
    lost = note.body["discarded_ul"] + note.body["given_back_ul"]
    assert gained - lost == pytest.approx(world.volumes["spent"] - 3_000, abs=60)
    assert note.body["fresh_ul"] == pytest.approx(500_000 - world.volumes["reservoir"], abs=60)
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_missing_probe_caps_the_batch_at_c(tmp_path: Path) -> None:
    world = World()
    del world.readings["do_loop.oxygen"]
    controller = await _ran(world, tmp_path / "j.db", "recycle", cycles="1", min_batch="18 mL")
    grade = controller.journal.last("note.grade")
    assert grade is not None
    assert grade.body["grade"] == "C"
    assert grade.body["limiting"] == "oxygen_pct"
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_failed_sterile_barrier_asks_a_person_before_anything_goes_back(tmp_path: Path) -> None:
    world = World()
    world.readings["p_filter.pressure"] = ("kPa", 95.0)
    controller = await _ran(world, tmp_path / "j.db", "recycle", cycles="1", min_batch="18 mL")
    view = controller.runs.list()[0]
    assert view.state is RunState.HELD
    assert any("sterile barrier" in message for message in view.messages)
    assert world.pumps["reglo.return"].doses == []
    world.readings["p_filter.pressure"] = ("kPa", 2.0)
    await controller.runs.resume(view.id, "anna", "a new filter")
    await controller.until(lambda: controller.runs.get(view.id).state.ended)
    note = controller.journal.last("note.recycle")
    assert note is not None
    assert note.body["grade"] == "D"
    assert note.body["discarded_ul"] > 17_500.0
    await controller.gone()


@pytest.mark.virtual_time
async def test_cycles_keep_to_their_hours_and_can_be_stopped(tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await controller.runs.start("gentle-exchange", {"every": "1 h"}, "anna", "a test")
    await controller.until(lambda: world.loop.time() > 3 * 3600 + 1500, 1e6)
    notes = list(controller.journal.entries(kinds=("note.replaced",)))
    assert [note.body["cycle"] for note in notes] == [1, 2, 3, 4]
    starts = [entry.at_s for entry in controller.journal.entries(run=run, kinds=("step.act",))][::4]
    assert [round(at_s / 3600, 2) for at_s in starts] == [0.0, 1.0, 2.0, 3.0]
    await controller.runs.stop(run, "anna", "enough")
    await controller.until(lambda: controller.runs.get(run).state is RunState.STOPPED)
    await controller.gone()


@pytest.mark.virtual_time
async def test_low_oxygen_skips_the_cycle(tmp_path: Path) -> None:
    world = World()
    world.readings["do_loop.oxygen"] = ("%", 40.0)
    controller = await _ran(world, tmp_path / "j.db", "gentle-exchange", cycles="1")
    assert controller.journal.last("note.skipped") is not None
    assert not any(pump.doses for pump in world.pumps.values())
    await controller.gone()


def test_same_run_same_bytes(tmp_path: Path) -> None:
    async def head(path: Path, gain: float) -> str:
        world = World()
        world.pumps["reglo.draw"].gain = gain
        controller = await _ran(world, path, "recycle", cycles="2", every="2 h", min_batch="18 mL")
        sha256 = controller.journal.sha256()
        assert controller.journal.verify() > 40
        await controller.gone()
        return sha256

    heads = [run_virtual(head(tmp_path / f"{number}.db", gain)) for number, gain in enumerate((1.0, 1.0, 1.01))]
    assert heads[0] == heads[1]
    assert heads[0] != heads[2]
