"""A run that loops over steps without time is held before it fills the journal, and other work of the loop goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.steps.budget import MIN_S, StepBudget
from protocols import blocks
from protocols.language import Lab
from protocols.program import BURST
from tests.execution.protocols_for_tests import CATALOGUE
from tests.execution.test_recipes import recipe_of, to_an_end
from tests.execution.world import Controller, World


def test_steps_in_their_own_time_are_never_too_many() -> None:
    budget = StepBudget()
    assert not any(budget.spend(n * 1.01 * MIN_S / BURST) for n in range(3 * BURST + 3))


def test_steps_without_time_are_too_many_and_may_go_on_after_a_person_has_looked() -> None:
    budget = StepBudget()
    assert [bool(budget.spend(5.0)) for _ in range(BURST + 1)] == [False] * BURST + [True]
    assert budget.spend(5.0) == ""


@pytest.mark.parametrize(
    "steps",
    [
        "{while: x < 3, steps: [set: {x: x + 1}]}",
        "{while: n < 3, count: n, steps: [note: a]}",
        "{while: loop.volume > 1 mL, steps: [kidney.draw: 1 mL]}",
        "{while: true, steps: [wait: 1 min]}",
        "{while: true, every: 5 min, steps: [note: a]}",
        "{while: true, steps: [{call: {recipe: rinse}}]}",
        "{times: 3, steps: [note: a]}",
    ],
)
def test_a_repeat_that_may_end_or_pauses_is_accepted(steps: str, tmp_path: Path) -> None:
    recipe_of(tmp_path, f"steps:\n  - set: {{x: 1, n: 0}}\n  - repeat: {steps}\n")


@pytest.mark.virtual_time
async def test_a_condition_that_stays_true_asks_instead_of_going_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BURST", 20)
    body = "steps:\n  - repeat: {while: loop.volume > 1 mL, steps: [wait: 1 min]}\n  - gut.feed: 2 mL\n"
    world = World()
    controller = Controller(world, tmp_path / "j.db", rehearsing=False)
    run = await controller.runs.start(recipe_of(tmp_path, body), {}, "anna", "a test")
    assert await to_an_end(controller, run) is RunState.HELD
    assert "“loop.volume > 1 mL” is still true after 20 turns" in controller.runs.get(run).messages[-1]
    assert world.pumps["dose_fresh.pump"].moved_ul == 0.0
    await controller.gone()


@pytest.mark.virtual_time
async def test_an_endless_loop_of_notes_is_held(tmp_path: Path) -> None:
    async def endless(lab: Lab, params: Mapping[str, float]) -> None:
        while True:
            try:
                await lab.note("tick", {})
            except Exception:  # noqa: S112  (as a careless protocol does)
                continue

    recipe = replace(CATALOGUE["everything"], name="endless", function=endless)
    controller = Controller(World(), tmp_path / "j.db", rehearsing=False)
    run = await controller.runs.start(recipe, {}, "anna", "a test")
    assert await to_an_end(controller, run) is RunState.HELD
    assert f"{BURST} steps in 0 s. Likely cause" in controller.runs.get(run).messages[-1]
    assert len(list(controller.journal.entries(run=run, kinds=("note.tick",)))) == BURST
    await controller.runs.abort(run, "anna", "enough")
    await controller.until(lambda: controller.runs.get(run).state is RunState.ABORTED, 60.0)
    await controller.gone()
