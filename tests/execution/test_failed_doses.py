"""A dose whose command fails, or whose pump does not say afterwards what it has moved, is given once and in full."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.steps.recovery import PATIENCE, Trouble
from controller.steps.steps import records_of
from controller.transfers.devices import SILENCE_S
from drivers.commands import Command, Dispense, Stop
from drivers.errors import NoReply
from tests.execution.protocols_for_tests import CATALOGUE
from tests.execution.world import Controller, Pump, World

pytestmark = pytest.mark.virtual_time
ASKED_UL = 5000.0
NO_REPLY = NoReply("no answer", where="glucose", cause="test", action="none")


class Failing:
    """The glucose pump of a bench; its next `failures` doses fail, before or after they have begun."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, *, failures: int, begins: bool) -> None:
        self.pump: Pump = world.pumps["dose_glucose.pump"]
        self.pump.counted_ul = 3000.0  # a counter at zero would not exclude a power cut
        self.failures, self.begins = failures, begins
        self.sent = 0
        self._apply = self.pump.apply
        monkeypatch.setattr(self.pump, "apply", self.apply)

    async def apply(self, command: Command) -> None:
        if not isinstance(command, Dispense):
            await self._apply(command)
            return
        self.sent += 1
        failing = self.sent <= self.failures
        if not failing or self.begins:
            await self._apply(command)
        if failing:
            raise NO_REPLY


async def begun(world: World, path: Path) -> tuple[Controller, str]:
    controller = Controller(world, path, catalogue=CATALOGUE)
    run = await controller.runs.start("one_dose", {}, "anna", "a test")
    return controller, run


def ends_of(controller: Controller, run: str) -> list[tuple[str, float]]:
    """How each dose of a run ended and what it moved, as the journal has it."""
    return [(entry.body["end"], entry.body["ul"]) for entry in controller.journal.entries(run=run, kinds=("moved",))]


async def test_A4_a_dose_whose_command_has_no_effect_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    failing = Failing(world, monkeypatch, failures=2, begins=False)
    controller, run = await begun(world, tmp_path / "j.db")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert failing.sent == 3
    assert failing.pump.moved_ul == pytest.approx(ASKED_UL, abs=25.0), "up to a step of the counter for each try"
    assert [end for end, _ in ends_of(controller, run)] == ["resolved", "resolved", "done"]
    await controller.gone()


async def test_E8_a_pump_that_does_not_take_its_dose_holds_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    failing = Failing(world, monkeypatch, failures=100, begins=False)
    controller, run = await begun(world, tmp_path / "j.db")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    assert failing.sent == 1 + len(PATIENCE[Trouble.FAILED])
    message = controller.runs.get(run).messages[-1]
    assert message.startswith("dose_glucose.pump: ")
    assert "no answer" in message, "people must know what the device said"
    failing.failures = 0
    await controller.runs.resume(run, "anna", "its cable was loose")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert failing.pump.moved_ul == pytest.approx(ASKED_UL, abs=50.0)
    await controller.gone()


async def test_A4_a_dose_whose_confirmation_was_lost_is_not_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    failing = Failing(world, monkeypatch, failures=1, begins=True)
    controller, run = await begun(world, tmp_path / "j.db")
    await controller.until(lambda: controller.runs.get(run).state in (RunState.COMPLETE, RunState.HELD))
    assert failing.pump.moved_ul <= ASKED_UL * 1.001
    booked_ul = sum(ul for _, ul in ends_of(controller, run))
    assert booked_ul == pytest.approx(failing.pump.moved_ul, abs=150.0)
    assert controller.runs.get(run).state is RunState.COMPLETE, controller.runs.get(run).messages
    assert failing.pump.moved_ul == pytest.approx(ASKED_UL, rel=0.02)
    await controller.gone()


async def test_F2_a_dose_that_failed_with_a_power_cut_is_decided_by_a_person_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No further dose is tried before: what the first one moved is not certain."""
    world = World()
    failing = Failing(world, monkeypatch, failures=1, begins=True)
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    take = failing.apply

    async def cut_off(command: Command) -> None:
        try:
            await take(command)
        except NoReply:
            failing.pump.lose_power()
            raise

    monkeypatch.setattr(failing.pump, "apply", cut_off)
    run = await controller.runs.start("one_dose", {}, "anna", "a test")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    assert failing.sent == 1
    assert [end for end, _ in ends_of(controller, run)] == ["unknown"]
    assert any("zeroed" in message for message in controller.runs.get(run).messages)
    await controller.runs.resume(run, "anna", "nothing had moved")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert failing.pump.moved_ul == pytest.approx(ASKED_UL, rel=0.03)
    await controller.gone()


async def test_F2_a_dose_that_failed_on_a_pump_that_stays_silent_holds_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    failing = Failing(world, monkeypatch, failures=1, begins=True)
    take = failing.apply

    async def gone(command: Command) -> None:
        try:
            await take(command)
        except NoReply:
            failing.pump.silent = True
            raise

    monkeypatch.setattr(failing.pump, "apply", gone)
    controller, run = await begun(world, tmp_path / "j.db")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HOLDING)
    assert any("does not answer" in message for message in controller.runs.get(run).messages)
    failing.pump.silent = False
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    await controller.runs.resume(run, "anna", "its cable was loose")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert failing.pump.moved_ul == pytest.approx(ASKED_UL, rel=0.02)
    assert failing.sent == 1
    await controller.gone()


async def test_F2_a_dose_that_the_gate_refused_is_not_left_open(tmp_path: Path) -> None:
    """The next process reads from the journal that it was never sent."""
    world = World()
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    controller.volumes_known = False
    await asyncio.sleep(2.0)
    run = await controller.runs.start("one_dose", {}, "anna", "a test")
    pump = world.pumps["dose_glucose.pump"]
    await controller.until(lambda: bool(list(controller.journal.entries(run=run, kinds=("step.refused",)))))
    (step,) = records_of(controller.journal.entries(run=run)).values()
    assert (step.acts, step.open_act, step.parts, pump.doses) == (1, None, [], [])
    controller.volumes_known = True
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert pump.moved_ul == pytest.approx(ASKED_UL)
    await controller.gone()


def silent_after_a_stop(pump: Pump, monkeypatch: pytest.MonkeyPatch, for_s: float) -> None:
    """From one second after its next stop on the pump answers nothing for `for_s` seconds; its standing was seen."""
    apply, loop = pump.apply, asyncio.get_running_loop()
    stopped = False

    async def applied(command: Command) -> None:
        nonlocal stopped
        await apply(command)
        if isinstance(command, Stop) and not stopped:
            stopped = True
            loop.call_later(1.0, setattr, pump, "silent", True)
            loop.call_later(1.0 + for_s, setattr, pump, "silent", False)

    monkeypatch.setattr(pump, "apply", applied)


@pytest.mark.parametrize("for_s", [0.5 * SILENCE_S, 3.0 * SILENCE_S])
async def test_F2_a_paused_pump_that_does_not_say_its_total_is_asked_again(
    for_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    pump = world.pumps["reglo.draw"]
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await controller.runs.start("one_draw", {"volume": "12 mL"}, "anna", "a test")
    await asyncio.sleep(60.0)
    silent_after_a_stop(pump, monkeypatch, for_s)
    await controller.runs.pause(run, "anna", "a visitor")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    await controller.runs.resume(run, "anna", "the visitor has left")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert 12_000.0 - 200.0 <= pump.moved_ul <= 12_001.0
    assert sum(ul for _, ul in ends_of(controller, run)) == pytest.approx(pump.moved_ul, abs=150.0)
    await controller.gone()
