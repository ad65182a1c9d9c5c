"""Python protocols on a rig: in a process of their own, with the journal of a shipped protocol, whatever they do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from controller.core.run_states import RunState
from controller.runs import python_wire
from controller.runs.python_text import MAX_TEXT_BYTES, PythonText
from controller.runs.runner import RunnerError
from protocols.registry import UnknownProtocol
from sim.virtual_time import ScaledLoop
from tests.execution.test_recipes import notes, to_an_end
from tests.execution.world import Controller, World
from tests.protocols.in_process import load

SPEED = 60.0
HEAD = """
import asyncio, os, time
from protocols.answers import AnswerForm
from protocols.language import Lab
from protocols.parameters import Param
NAME = "mine"
TITLE = "A test"
PARAMS = (Param("volume", "uL", 2_000.0, 1_000.0, 10_000.0, "how much"),)
async def protocol(lab, params):
"""
WHOLE = (
    HEAD
    + """
    before = lab.volumes()["spent"].ul
    drawn = await lab.kidney.draw(params["volume_ul"])
    ph = await lab.lung.ph()
    answer = await lab.ask("Lactate", AnswerForm(kind="number", unit="mM", internal="mM", low=0.0, high=20.0, default=3.0))
    async def feeding():
        return await lab.gut.feed(1_000.0)
    async def waiting():
        await lab.sleep(30.0)
        return (await lab.measure("ph_spent.ph")).value
    fed, seen = await lab.together(feeding(), waiting(), names=("feeding", "waiting"))
    barrier = await lab.immune.barrier()
    estimate = await lab.estimate()
    try:
        await lab.kidney.draw(-5.0)
    except Exception as error:
        refused = str(error)
    await lab.note("seen", {"drawn": drawn.ul, "ph": ph.value, "answer": answer, "fed": fed.ul, "seen": seen,
        "grown": lab.volumes()["spent"].ul - before, "barrier": barrier.sterile, "refused": refused,
        "lactate": estimate.loop.lactate_mm.value, "least": lab.kidney.draw.min_ul, "pid": os.getpid()})
"""
)


NONSENSE = """
    for fd in range(3, 12):
        try:
            os.write(fd, b"nonsense\\n")
        except OSError:
            pass
    time.sleep(99)
"""


def scaled(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=lambda: ScaledLoop(SPEED)) as runner:
        runner.run(work)


def folder_with(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "recipes"
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(text)
    return folder


def test_a_whole_protocol_runs_survives_a_restart_and_writes_the_journal_of_any_other(tmp_path: Path) -> None:
    async def work() -> None:
        folder = folder_with(tmp_path, WHOLE)
        world = World()
        first = Controller(world, tmp_path / "j.db", catalogue={}, recipes=folder)
        run = await first.runs.start("mine", {"volume": "3 mL"}, "anna", "a test")
        assert await to_an_end(first, run) is RunState.HELD
        assert first.runs.get(run).question is not None
        (start,) = first.journal.entries(kinds=("run.start",))
        assert start.body["text_sha256"] == PythonText.read(folder / "mine.py").sha256
        assert start.body["source_sha256"] == load(folder / "mine.py").source_sha256
        await first.gone()
        second = Controller(world, tmp_path / "j.db", catalogue={}, recipes=folder)
        await second.runs.recover()
        await second.runs.answer(run, "4 mM", "ben", "")
        assert await to_an_end(second, run) is RunState.COMPLETE, second.runs.get(run).messages
        (seen,) = notes(second, "seen")
        assert seen["answer"] == 4.0
        assert seen["drawn"] == pytest.approx(3000.0, rel=0.05)
        assert seen["fed"] == pytest.approx(1000.0, rel=0.05)
        assert seen["grown"] == pytest.approx(seen["drawn"] + seen["fed"], abs=5.0)
        assert seen["least"] > 0.0
        assert "draw(-5 µL)" in seen["refused"]
        assert seen["pid"] != os.getpid()
        with pytest.raises(ProcessLookupError):
            os.kill(seen["pid"], 0)
        assert world.pumps["dose_fresh.pump"].moved_ul == pytest.approx(1000.0)
        verbs = [row.body["verb"] for row in second.journal.entries(run=run, kinds=("step",))]
        assert verbs[:3] == ["kidney.draw", "measure", "ask"]
        assert {row.body["at"] for row in second.journal.entries(run=run, kinds=("step",))} >= {
            "4.feeding.1",
            "4.waiting.2",
        }
        await second.gone()

    scaled(work())


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("    while True: pass\n", "has not asked for a verb for 2 s, at mine.py:"),
        ("    time.sleep(60)\n", "has not asked for a verb for 2 s, at mine.py:"),
        ("    while True:\n        await asyncio.sleep(0)\n", "has not asked for a verb for 2 s"),
        ("    await asyncio.sleep(1e9)\n", "has not asked for a verb for 2 s"),
        ("    os._exit(0)\n", "ended by itself"),
        ("    raise SystemExit\n", "ended by itself"),
        (NONSENSE, "sends no messages"),
        ("    x = bytearray(8_000_000_000)\n", "MemoryError"),
        ("    print('x' * 100)\n    {}['gone']\n", "KeyError: 'gone' (mine.py:"),
        ("    lab.sleep(5.0)\n    await asyncio.gather(lab.sleep(5), lab.sleep(6))\n", "await one verb at a time"),
    ],
    ids=["loop", "sleep", "idle loop", "idle", "exit", "system exit", "nonsense", "memory", "error", "two verbs"],
)  # fmt: skip
def test_a_faulty_protocol_holds_its_run_and_the_control_loop_goes_on(
    body: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.runs.python_process.PATIENCE_S", 2.0)

    async def work() -> None:
        folder = folder_with(tmp_path, HEAD + "    await lab.kidney.draw(2_000.0)\n" + body)
        controller = Controller(World(), tmp_path / "j.db", catalogue={}, recipes=folder, rehearsing=False)
        run = await controller.runs.start("mine", {}, "anna", "a test")
        loop = asyncio.get_running_loop()
        worst_s, last_s = 0.0, loop.time()
        latest_s = last_s + 60.0 * SPEED
        while controller.runs.get(run).state is not RunState.HELD:
            await asyncio.sleep(0.02 * SPEED)
            worst_s, last_s = max(worst_s, loop.time() - last_s), loop.time()
            assert last_s < latest_s, controller.runs.get(run).messages
        assert worst_s / SPEED < 2.0, "the control loop stood"
        assert "the protocol stopped" in controller.runs.get(run).messages[-1]
        assert why in controller.runs.get(run).messages[-1]
        await controller.runs.abort(run, "anna", "enough")
        assert await to_an_end(controller, run, within_s=600.0) is RunState.ABORTED
        await controller.gone()

    scaled(work())


@pytest.mark.long
def test_a_start_is_refused_while_the_protocol_blocks_or_would_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.runs.python_process.PATIENCE_S", 2.0)

    async def work() -> None:
        for text, error, why in (
            (
                HEAD + "    await lab.kidney.draw(2_000.0)\nwhile True: pass\n",
                UnknownProtocol,
                "has not asked for a verb",
            ),
            (HEAD + "    pass\nraise ValueError('no')\n", UnknownProtocol, "ValueError: no (mine.py:"),
            (HEAD.replace("TITLE", "TITEL") + "    pass\n", UnknownProtocol, "lacks NAME = “a-word”, TITLE"),
            (HEAD.replace('"mine"', '"other"') + "    pass\n", UnknownProtocol, "is called “other” inside"),
            (HEAD + "    for _ in range(99): await lab.kidney.draw(9_000.0)\n", RunnerError, "would be stopped"),
            (HEAD + "    while True: await lab.note('x', {})\n", RunnerError, "steps in 0 s"),
            ("x = 1" * MAX_TEXT_BYTES, UnknownProtocol, "has more than 1 MB"),
        ):
            folder = folder_with(tmp_path, text)
            controller = Controller(World(), tmp_path / "j.db", catalogue={}, recipes=folder)
            with pytest.raises(error) as refused:
                await controller.runs.start("mine", {}, "anna", "a test")
            assert why in str(refused.value)
            await controller.gone()

    scaled(work())


def held(controller: Controller, run: str, why: str) -> bool:
    """Whether it is held with this message; the message comes before its pumps rest."""
    view = controller.runs.get(run)
    return view.state is RunState.HELD and why in view.messages[-1]


def test_a_run_with_another_text_is_held_and_goes_on_with_the_old_one(tmp_path: Path) -> None:
    async def work() -> None:
        text = HEAD + "    await lab.ask('first')\n    await lab.ask('second')\n"
        folder = folder_with(tmp_path, text)
        world = World()
        first = Controller(world, tmp_path / "j.db", catalogue={}, recipes=folder)
        run = await first.runs.start("mine", {}, "anna", "a test")
        assert await to_an_end(first, run) is RunState.HELD
        (folder / "mine.py").write_text(text.replace("second", "third"))
        await first.runs.resume(run, "anna", "")
        await first.until(lambda: held(first, run, "mine.py was changed"), 600.0)
        await first.gone()
        second = Controller(world, tmp_path / "j.db", catalogue={}, recipes=folder)
        await second.runs.recover()
        await second.runs.resume(run, "anna", "")
        await second.until(lambda: held(second, run, "is not what it was when this run began"), 600.0)
        await second.gone()
        (folder / "mine.py").write_text(text)
        third = Controller(world, tmp_path / "j.db", catalogue={}, recipes=folder)
        await third.runs.recover()
        await third.runs.resume(run, "anna", "the old text is back")
        await third.until(lambda: held(third, run, "second"), 600.0)
        await third.runs.resume(run, "anna", "")
        await third.until(lambda: third.runs.get(run).state is RunState.COMPLETE, 600.0)
        await third.gone()

    scaled(work())


def test_a_pause_and_an_abort_are_obeyed_while_the_protocol_computes(tmp_path: Path) -> None:
    async def work() -> None:
        folder = folder_with(tmp_path, HEAD + "    await lab.note('begun', {})\n    time.sleep(60)\n")
        controller = Controller(World(), tmp_path / "j.db", catalogue={}, recipes=folder, rehearsing=False)
        run = await controller.runs.start("mine", {}, "anna", "a test")
        await controller.until(lambda: bool(notes(controller, "begun")), 600.0)
        await controller.runs.pause(run, "anna", "")
        await controller.until(lambda: controller.runs.get(run).state is RunState.HELD, 300.0)
        await controller.runs.abort(run, "anna", "")
        await controller.until(lambda: controller.runs.get(run).state is RunState.ABORTED, 300.0)
        await controller.gone()

    scaled(work())


def test_only_plain_data_are_sent() -> None:
    with pytest.raises(TypeError):
        python_wire.line({"x": object()})
