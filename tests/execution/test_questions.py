"""Typed questions of a run: validation, record, replay after a restart, use in expressions, and who may go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.core.run_states import IllegalTransition, RunState
from controller.recipes.answers import AnswerRefused
from controller.runs.runner import RunnerError
from tests.execution.test_recipes import notes, recipe_of, to_an_end
from tests.execution.world import Controller, World

ASKS = """steps:
  - ask_operator:
      message: Measure the lactate of the loop
      answer: number
      unit: mM
      min: 0 mM
      max: 50 mM
      as: lactate
  - ask_operator: {message: How does the medium look, answer: choice, choices: [clear, cloudy], as: look}
  - ask_operator: {message: "Remarks on {lactate}, {look}", answer: text, default: none, as: remark}
  - if:
      condition: lactate > 10 mM and look == 'cloudy'
      then:
        - gut.feed: lactate / 10 mM * 1 mL
  - note: {kind: seen, values: {lactate: lactate, look: look, remark: remark}}
"""


async def asking(tmp_path: Path, body: str = ASKS) -> tuple[World, Controller, str]:
    world = World()
    controller = Controller(world, tmp_path / "j.db")
    run = await controller.runs.start(recipe_of(tmp_path, body), {}, "anna", "a test")
    assert await to_an_end(controller, run) is RunState.HELD
    return world, controller, run


@pytest.mark.virtual_time
async def test_answers_are_validated_recorded_and_used(tmp_path: Path) -> None:
    world, controller, run = await asking(tmp_path)
    question = controller.runs.get(run).question
    assert question is not None
    assert question.answer is not None
    assert (question.n, question.message) == (1, "Measure the lactate of the loop")
    assert question.answer.wants == "a number in mM, 0 to 50"
    for wrong, why in (
        ("12", "“12” has no unit. Next: answer a number in mM, 0 to 50, with its unit, such as “25 mM”"),
        ("12 mL", "not in mM"),
        ("51 mM", "51 mM is out of range. Likely cause: a slip of unit or digit. Next: answer a number in mM, 0 to 50"),
        ("-1 mM", "out of range"),
        ("nan mM", "not a quantity"),
        ("", "not a quantity"),
    ):
        with pytest.raises(AnswerRefused) as refused:
            await controller.runs.answer(run, wrong, "ben", "")
        assert why in str(refused.value)
        assert controller.runs.get(run).state is RunState.HELD
    with pytest.raises(RunnerError, match="waits for an answer to step 1: Measure the lactate"):
        await controller.runs.resume(run, "ben", "go on")
    await controller.runs.answer(run, "12000 uM", "ben", "by hand", step=1)
    assert await to_an_end(controller, run) is RunState.HELD
    (row,) = controller.journal.entries(run=run, kinds=("step.answered",))
    assert row.body == {"n": 1, "value": 12.0, "text": "12 mM", "user": "ben", "reason": "by hand"}
    with pytest.raises(RunnerError, match="asks step 2, not step 1"):
        await controller.runs.answer(run, "12 mM", "cleo", "", step=1)
    with pytest.raises(AnswerRefused, match="“dark” is no answer here"):
        await controller.runs.answer(run, "dark", "ben", "")
    await controller.runs.answer(run, " cloudy ", "ben", "")
    assert await to_an_end(controller, run) is RunState.HELD
    asked = controller.runs.get(run).question
    assert asked is not None
    assert asked.message == "Remarks on 12 mM, cloudy"
    for wrong in ("", "x" * 501, "a\x00b"):
        with pytest.raises(AnswerRefused):
            await controller.runs.answer(run, wrong, "ben", "")
    await controller.runs.answer(run, "a little late", "ben", "")
    assert await to_an_end(controller, run) is RunState.COMPLETE
    (seen,) = notes(controller, "seen")
    assert {key: seen[key] for key in ("lactate", "look", "remark")} == {
        "lactate": 12.0,
        "look": "cloudy",
        "remark": "a little late",
    }
    assert world.pumps["dose_fresh.pump"].moved_ul == pytest.approx(1200.0)
    with pytest.raises(IllegalTransition):
        await controller.runs.answer(run, "12 mM", "ben", "")
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize("answered_before", [False, True])
async def test_E4_a_restart_keeps_the_question_and_the_answer(answered_before: bool, tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    recipe_of(folder, ASKS)
    world = World()
    first = Controller(world, tmp_path / "j.db", catalogue={}, recipes=folder)
    run = await first.runs.start("mine", {}, "anna", "a test")
    assert await to_an_end(first, run) is RunState.HELD
    if answered_before:
        await first.runs.answer(run, "12 mM", "ben", "")
        assert await to_an_end(first, run) is RunState.HELD
    await first.gone()
    second = Controller(world, tmp_path / "j.db", catalogue={}, recipes=folder)
    await second.runs.recover()
    await asyncio.sleep(60.0)
    question = second.runs.get(run).question
    assert question is not None
    assert question.n == (2 if answered_before else 1)
    with pytest.raises(RunnerError, match="waits for an answer"):
        await second.runs.resume(run, "ben", "go on")
    for answer in ("12 mM", "cloudy", "fine")[1 if answered_before else 0 :]:
        await second.runs.answer(run, answer, "ben", "")
        await to_an_end(second, run)
    assert second.runs.get(run).state is RunState.COMPLETE
    assert notes(second, "seen")[0]["lactate"] == 12.0
    assert len(list(second.journal.entries(run=run, kinds=("step.answered",)))) == 3
    await second.gone()


@pytest.mark.virtual_time
async def test_an_answer_does_not_resume_what_another_branch_is_held_for(tmp_path: Path) -> None:
    """A person who answers a question has not judged the dose that is in doubt."""
    body = """steps:
  - together:
      feeding:
        - gut.feed: 2 mL
      asking:
        - wait: 20 s
        - ask_operator: {message: "Volume?", answer: number, unit: mL, min: 1 mL, max: 2 mL, as: volume}
"""
    world = World()
    controller = Controller(world, tmp_path / "j.db")
    run = await controller.runs.start(recipe_of(tmp_path, body), {}, "anna", "a test")
    pump = world.pumps["dose_fresh.pump"]
    await controller.until(lambda: pump.flow_ul_min > 0.0, 60.0)
    world.balance_works = False
    await asyncio.sleep(4.0)
    pump.lose_power()
    assert await to_an_end(controller, run) is RunState.HELD
    view = controller.runs.get(run)
    assert view.question is not None, view.messages
    assert any("Volume?" not in message for message in view.messages)
    await controller.runs.answer(run, "1.5 mL", "ben", "")
    view = controller.runs.get(run)
    assert (view.state, view.question) == (RunState.HELD, None)
    await controller.runs.resume(run, "ben", "the pump answers again")
    assert await to_an_end(controller, run) is RunState.COMPLETE
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_question_without_answer_is_resumed_as_before(tmp_path: Path) -> None:
    _, controller, run = await asking(tmp_path, "steps:\n  - ask_operator: Look at the loop\n")
    question = controller.runs.get(run).question
    assert question is not None
    assert question.answer is None
    with pytest.raises(AnswerRefused, match="does not ask for an answer"):
        await controller.runs.answer(run, "yes", "ben", "")
    (step,) = controller.journal.entries(run=run, kinds=("step",))
    assert step.body["args"] == {"message": "Look at the loop"}
    await controller.runs.resume(run, "ben", "")
    assert await to_an_end(controller, run) is RunState.COMPLETE
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_paused_run_is_not_resumed_by_an_answer(tmp_path: Path) -> None:
    """A pause that comes while the question is about to hold the run stays until a person resumes."""
    recipe = recipe_of(tmp_path, "steps:\n  - wait: 10 s\n" + ASKS.partition("steps:\n")[2])
    controller = Controller(World(), tmp_path / "j.db")
    run = await controller.runs.start(recipe, {}, "anna", "a test")
    await asyncio.sleep(5.0)
    await controller.runs.pause(run, "ben", "lunch")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD, 60.0)
    assert controller.runs.get(run).question is None
    with pytest.raises(AnswerRefused, match="does not ask"):
        await controller.runs.answer(run, "12 mM", "ben", "")
    await controller.runs.resume(run, "ben", "back")
    assert await to_an_end(controller, run) is RunState.HELD
    assert controller.runs.get(run).question is not None
    await controller.gone()
