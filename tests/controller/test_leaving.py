"""How a controller takes its leave: what its guard hears of an orderly end, and what is left to the guard."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.clock import Clock
from controller.guard import ALIVE, GOODBYE, SILENCE_S
from controller.heartbeat import END_MOST_S
from controller.process import FALL_BACK_S, Controller
from controller.rig.loading import load_rig
from controller.safety.terms import Intent
from drivers.commands import Command, Dispense, Switch
from sim.lab import Lab

RIG = load_rig(Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.virtual_time


class Ear:
    """The guard's end of the pipe: what was heard, and when (loop s)."""

    def __init__(self) -> None:
        self._read_end, self.pipe = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self.pipe, False)
        self.heard = b""
        self.closed = False
        self.last_s = asyncio.get_running_loop().time()
        self.longest_silence_s = 0.0
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        while not self.closed:
            self.listen()
            await asyncio.sleep(0.05)

    def listen(self) -> None:
        now_s = asyncio.get_running_loop().time()
        with suppress(BlockingIOError):
            while not self.closed:
                said = os.read(self._read_end, 65_536)
                self.heard += said
                self.closed = not said
                self.last_s = now_s
        if self.heard:  # until then the controller is still connecting
            self.longest_silence_s = max(self.longest_silence_s, now_s - self.last_s)

    async def end(self) -> None:
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        os.close(self._read_end)


@asynccontextmanager
async def heard(data: Path) -> AsyncIterator[tuple[Controller, Lab, Ear]]:
    """A controller that has lived for a minute and has a guard; it ends with the block, in order."""
    lab = Lab(RIG, seed=1)
    ear = Ear()
    clock = Clock(follow_system=False, epoch=EPOCH)
    controller = Controller(rig=RIG, opener=lab.opener, data_dir=data, clock=clock, durable=False, heartbeat=ear.pipe)
    stop = asyncio.Event()
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    await asyncio.sleep(60.0)
    try:
        yield controller, lab, ear
    finally:
        stop.set()
        await ticking
        await controller.close()
        ear.listen()
        await ear.end()
        await lab.close()


async def ask(controller: Controller, actuator: str, command: Command) -> None:
    outcome = await controller.gate.submit(Intent(actuator, command, "test", "a test"))
    assert outcome.ok, outcome


async def give_back(controller: Controller) -> None:
    """A return is under way."""
    await ask(controller, "dose_fresh.pump", Dispense(6000.0, 10_000.0, "f"))
    await asyncio.sleep(60.0)
    controller.ledger.moved("feed", 6000.0, 50.0, "test")
    await asyncio.sleep(2.0)
    await ask(controller, "relay.return_valve", Switch(True))
    await ask(controller, "reglo.return", Dispense(5000.0, 4000.0, "r"))


async def test_a_goodbye_is_said_when_everything_is_in_its_basal_state(tmp_path: Path) -> None:
    async with heard(tmp_path) as (controller, _, ear):
        await give_back(controller)
        ear.listen()
        assert GOODBYE not in ear.heard
    assert ear.heard.endswith(GOODBYE)
    assert ear.heard.strip(ALIVE) == GOODBYE, "and nothing after it, for nobody is there to hear"


async def test_A1_what_could_not_be_brought_to_rest_is_left_to_the_guard(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with heard(tmp_path) as (controller, lab, ear):
        await give_back(controller)
        lab.lines["sim:reglo"].unplug()
        lab.lines["sim:gas"].unplug()
    assert ear.closed, "the guard sees the pipe close"
    assert GOODBYE not in ear.heard
    left = next(record.getMessage() for record in caplog.records if "basal state" in record.getMessage())
    for name in ("reglo.heart", "reglo.return", "gas_air.flow", "gas_co2.flow"):
        assert name in left


async def test_A1_an_end_that_does_not_come_to_one_leaves_the_rest_to_the_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with heard(tmp_path) as (controller, _, ear):
        monkeypatch.setattr(controller.gate, "fall_back", lambda reason: asyncio.sleep(1000.0))
        begun_s = asyncio.get_running_loop().time()
    assert ear.closed
    assert GOODBYE not in ear.heard
    assert ear.last_s - begun_s >= FALL_BACK_S
    assert ear.longest_silence_s < 1.0 < SILENCE_S, "a slow end is no hang: it would be killed for it"


async def test_an_end_that_hangs_falls_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with heard(tmp_path) as (controller, lab, ear):
        lab.lines["sim:gas"].unplug()
        close = controller.body.close

        async def hang() -> None:
            await asyncio.sleep(END_MOST_S + 60.0)
            await close()

        monkeypatch.setattr(controller.body, "close", hang)
    assert ear.longest_silence_s > SILENCE_S
