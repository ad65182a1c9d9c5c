"""A heater gets the duty that is asked of it, whether its relay board can end a pulse by itself or not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.process.parts.regulation import Regulation
from controller.rig.description import Rig, required
from controller.rig.loading import load_rig
from controller.safety.terms import Intent
from drivers.commands import Guarantee, Switch
from sim.lab import SimulatedLab
from sim.plant.plant import Plant

BENCH = load_rig(Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml")
HEATER, WINDOW_S = "relay.heater", 20.0

pytestmark = pytest.mark.virtual_time


def with_board(**settings: bool) -> Rig:
    relay = BENCH.devices["relay"].model_copy(update={"settings": settings})
    # A weaker heater, so that no interlock meddles with a high duty.
    skin = required(BENCH.organs.skin, "organs.skin").model_copy(
        update={"power_w": required(BENCH.organs.skin, "organs.skin").power_w / 3.0}
    )
    organs = BENCH.organs.model_copy(update={"skin": skin})
    return BENCH.model_copy(update={"devices": {**BENCH.devices, "relay": relay}, "organs": organs})


class Watched(Plant):
    """A plant that keeps for how long its heater was on."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig, seed=1, now=asyncio.get_running_loop().time)
        self.on_s = 0.0
        self._on_since_s: float | None = None

    def set_switch(self, point: str, on: bool) -> None:
        super().set_switch(point, on)
        if point == HEATER:
            now_s = asyncio.get_running_loop().time()
            if self._on_since_s is not None:
                self.on_s += now_s - self._on_since_s
            self._on_since_s = now_s if on else None


@pytest.mark.parametrize("flash", [True, False], ids=["board ends pulses", "gate ends pulses"])
@pytest.mark.parametrize("pulse_s", [0.5, 2.0, 8.0, 15.9])
async def test_A1_the_heater_is_on_for_as_long_as_was_asked(flash: bool, pulse_s: float, tmp_path: Path) -> None:
    rig = with_board(flash=flash)
    plant = Watched(rig)
    lab = SimulatedLab(rig, seed=1, plant=plant)
    clock = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC))
    controller = Controller(rig=rig, opener=lab.opener, storage=Storage(tmp_path, durable=False), clock=clock)
    await controller.start()
    controller.get(Regulation).regulators.clear()  # this test sets the duty itself
    stop = asyncio.Event()
    ticking = asyncio.create_task(controller.run(stop))
    windows = 30
    for window in range(windows):
        await asyncio.sleep(0.37 if window == 0 else WINDOW_S)
        outcome = await controller.gate.submit(Intent(HEATER, Switch(True, pulse_s), "test", "a duty"))
        assert outcome.ok, outcome
    await asyncio.sleep(WINDOW_S)
    duty, asked = plant.on_s / (windows * WINDOW_S), pulse_s / WINDOW_S
    assert duty == pytest.approx(asked, abs=0.03)
    assert not [alarm.id for alarm in controller.alarms.active() if HEATER in alarm.id]
    stop.set()
    await ticking
    await controller.close()
    await lab.close()
    expected = Guarantee.DEVICE if flash else Guarantee.GUARD
    assert controller.store.actuators[HEATER].guarantee is expected
