"""A digital input as emergency stop, through the whole stack: Modbus input, readings, stop, reset (A9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.core.state import Reading
from controller.gate.emergency import Button, ResetRefused
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.rig.description import EmergencyButton, Rig
from controller.rig.loading import load_rig
from controller.rig.problems import RigError
from drivers.commands import Quality
from sim.devices.modbus_generic import ModbusGeneric
from sim.faults.injector import Injector
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"
DEVICE = """devices:
  io:
    model: modbus-generic
    link: sim:io
    every: {every}
    settings:
      description: |
        format: 1
        name: input module
        points:
          button: {{function: 2, register: 0}}
"""


def rig_with(folder: Path, button: str, every: str = "1 s") -> Rig:
    text = BENCH.read_text(encoding="utf-8")
    text = text.replace("devices:\n", DEVICE.format(every=every), 1)
    text = text.replace("safety:\n", f"safety:\n  emergency_stop: {button}\n", 1)
    path = folder / "rig.yaml"
    path.write_text(text, encoding="utf-8")
    return load_rig(path)


class Bench:
    """A controller over a lab with a button that a person presses."""

    def __init__(self, rig: Rig, data: Path) -> None:
        self.lab = SimulatedLab(rig, seed=1)
        self.press(False)
        clock = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC))
        self.controller = Controller(rig=rig, opener=self.lab.opener, storage=Storage(data, durable=False), clock=clock)

    def press(self, pressed: bool) -> None:
        device = self.lab.devices["io"]
        assert isinstance(device, ModbusGeneric)
        device._cells["button"].raw = float(not pressed)


@asynccontextmanager
async def living(rig: Rig, data: Path) -> AsyncIterator[Bench]:
    bench = Bench(rig, data)
    stop = asyncio.Event()
    await bench.controller.start()
    ticking = asyncio.create_task(bench.controller.run(stop))
    try:
        yield bench
    finally:
        stop.set()
        await ticking
        await bench.controller.close()
        await bench.lab.close()


@pytest.mark.virtual_time
async def test_A9_a_button_stops_the_rig_latches_and_cannot_be_reset_while_it_is_pressed(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "{input: io.button}")
    async with living(rig, tmp_path) as bench:
        gate = bench.controller.gate
        await asyncio.sleep(60.0)
        assert gate.emergency is None
        bench.press(True)
        await asyncio.sleep(3.0)
        assert gate.emergency == "emergency button: the button at io.button is pressed"
        with pytest.raises(ResetRefused, match=r"is pressed\. Next: release it"):
            await bench.controller.emergency_reset("anna", "all clear")
        bench.press(False)
        await asyncio.sleep(10.0)
        assert gate.emergency is not None, "it latches"
        await bench.controller.emergency_reset("anna", "all clear")
        await asyncio.sleep(10.0)
        assert gate.emergency is None
        rows = list(bench.controller.journal.entries(kinds=("safety.estop",)))
        assert len(rows) == 1, "one stop, not one a tick"


@pytest.mark.virtual_time
async def test_A9_a_button_whose_line_is_lost_counts_as_pressed_after_its_stale_time(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "{input: io.button, stale: 4 s}")
    async with living(rig, tmp_path) as bench:
        injector = Injector(bench.lab, (), seed=1)
        await asyncio.sleep(20.0)
        injector.inject(Fault("unplug", "sim:io", 0.0))
        await asyncio.sleep(2.0)
        assert bench.controller.gate.emergency is None
        await asyncio.sleep(8.0)
        assert "has not been read for" in (bench.controller.gate.emergency or "")


def reading(value: float, at_s: float, quality: Quality = Quality.GOOD) -> dict[str, Reading]:
    return {"io.button": Reading(value, "", quality, at_s)}


def test_I2_only_a_good_fresh_reading_releases() -> None:
    button = Button(
        EmergencyButton(input="io.button", active="open", stale="5 s"),
    )
    assert button.update({}, 100.0) == ""
    assert button.update({}, 106.0) != "", "one that is never read counts as pressed too"
    assert button.update(reading(1.0, 107.0), 107.0) == ""
    assert button.update(reading(0.0, 108.0), 108.0) != ""
    assert button.update(reading(1.0, 109.0, Quality.SUSPECT), 109.0) != ""
    assert button.update(reading(1.0, 110.0), 110.0) == ""
    assert button.update(reading(1.0, 110.0), 115.5) != "", "an old one releases nothing"
    assert button.update(reading(7.0, 116.0), 116.0) != "", "neither open nor closed"
    closing = Button(EmergencyButton(input="io.button", active="closed", stale="5 s"))
    assert closing.update(reading(0.0, 1.0), 1.0) == ""
    assert closing.update(reading(1.0, 2.0), 2.0) != ""


@pytest.mark.parametrize(
    ("button", "every", "said"),
    [
        ("{input: oi.button}", "1 s", "no device has the point “oi.button”"),
        ("{input: io.button}", "10 s", "io is asked every 10 s"),
    ],
)
def test_a_button_that_would_not_be_seen_is_refused(tmp_path: Path, button: str, every: str, said: str) -> None:
    with pytest.raises(RigError, match=said):
        rig_with(tmp_path, button, every)
