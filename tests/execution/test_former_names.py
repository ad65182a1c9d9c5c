"""Requests and journals of earlier releases: a run that was started or recorded under former names goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.recipes.file import read_recipe
from protocols.language import Lab
from protocols.parameters import Param, ParamError
from protocols.registry import Recipe
from tests.execution.protocols_for_tests import recipe
from tests.execution.world import Controller, World

DRAWN_UL = 4_000.0


def drawing(key: str, name: str) -> dict[str, Recipe]:
    """Return a catalogue with a protocol of two draws; `name` is that of its parameter, `key` that in the protocol."""

    async def draws(lab: Lab, params: Mapping[str, float]) -> None:
        await lab.kidney.draw(params[key])
        await lab.sleep(60.0)
        await lab.kidney.draw(params[key])

    return {"draws": recipe(draws, (Param(name, "uL", 0.0, 0.0, 9_000.0, "a volume"),))}


@pytest.mark.virtual_time
async def test_an_open_run_of_an_old_journal_resumes_under_the_present_names(tmp_path: Path) -> None:
    """Its parameters are on record under former keys; the protocol of this release uses the present ones."""
    world = World()
    first = Controller(world, tmp_path / "j.db", catalogue=drawing("least_ul", "least"))  # wording: former name
    run = await first.runs.start("draws", {"least": DRAWN_UL}, "anna", "a test")
    await first.until(lambda: first.journal.last("step.done", run=run) is not None)
    started = first.journal.last("run.start", run=run)
    assert started is not None
    assert started.body["params"] == {"least_ul": DRAWN_UL}  # wording: former name
    await first.gone()
    second = Controller(world, tmp_path / "j.db", catalogue=drawing("min_batch_ul", "min_batch"))
    await second.runs.recover()
    await second.until(lambda: second.runs.get(run).state.ended)
    assert second.runs.get(run).state is RunState.COMPLETE, second.runs.get(run).messages
    assert second.runs.get(run).params == {"min_batch_ul": DRAWN_UL}
    assert world.pumps["reglo.draw"].moved_ul == pytest.approx(2 * DRAWN_UL, rel=0.03)
    await second.gone()


@pytest.mark.virtual_time
async def test_an_old_request_starts_a_run_on_record_under_the_present_names(tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "j.db")
    request = {"batch": "4 mL", "least": "4 mL", "cycles": "1"}
    with pytest.raises(ParamError, match="“least” is the former name of “min_batch”, and both are given"):
        await controller.runs.start("recycle", {**request, "min_batch": "4 mL"}, "anna", "both names")
    assert controller.runs.list() == []
    run = await controller.runs.start("recycle", request, "anna", "a script of an earlier release")
    assert controller.runs.get(run).params["min_batch_ul"] == DRAWN_UL
    await controller.until(lambda: controller.journal.last("step", run=run) is not None)
    await controller.runs.abort(run, "anna", "seen")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_run_of_a_laboratorys_old_recipe_resumes(tmp_path: Path) -> None:
    """The file keeps its text; predefined values and attributes in it have their former names."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "recipe: 1\nname: mine\ntitle: Of a laboratory\nparameters:\n"
        "  volume: {default: 2 mL, least: 1 mL, most: 4 mL, help: medium}\nsteps:\n"
        '  - kidney.draw: "max(volume, least_dose)"\n'  # wording: former name
        "  - wait: 1 min\n"
        '  - kidney.draw: "max(2 mL, least_dose)"\n',  # wording: former name
        encoding="utf-8",
    )
    world = World()
    first = Controller(world, tmp_path / "j.db", catalogue={"mine": read_recipe(path)})
    run = await first.runs.start("mine", {"volume": "3 mL"}, "anna", "a test")
    await first.until(lambda: first.journal.last("step.done", run=run) is not None)
    await first.gone()
    second = Controller(world, tmp_path / "j.db", catalogue={"mine": read_recipe(path)})
    await second.runs.recover()
    await second.until(lambda: second.runs.get(run).state.ended)
    assert second.runs.get(run).state is RunState.COMPLETE, second.runs.get(run).messages
    assert world.pumps["reglo.draw"].moved_ul == pytest.approx(5_000.0, rel=0.03)
    await second.gone()
