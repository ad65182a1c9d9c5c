"""Each heart of each shipped rig, stopped or slowed by a second master while the rig is at rest: an alarm within 10 s (A12).

The whole controller runs on the laboratory in software. The second master is the pump's own driver, on a link of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.hazards.loading import load_checked_rig
from controller.links.connect import device_config
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.rig.description import Rig
from controller.safety.limits import limits_of
from drivers.commands import Command, Run, Stop
from drivers.device import Device
from drivers.registry import MODELS
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl
from sim.lab import SimulatedLab
from tests.controller.test_life import EPOCH

RIGS = sorted((Path(__file__).parents[2] / "examples" / "rigs").glob("*.yaml"))
LOADED = {path.stem: load_checked_rig(path, models=MODELS) for path in RIGS}
PUMPS = [(name, heart.pump) for name, rig in LOADED.items() for heart in limits_of(rig).hearts]
TENTH = 0.1
ALARM_S = 10.0
SETTLED_S = 900.0
"""By then the devices are read at their periods at rest."""
BLOWS: dict[str, Callable[[float], Command]] = {"stop": lambda _: Stop(), "slow": lambda flow: Run(TENTH * flow)}


def test_the_shipped_rigs_have_hearts() -> None:
    assert {name for name, _ in PUMPS} >= {"bench", "sixteen_chambers", "perfusion_tank"}


@pytest.mark.virtual_time
@pytest.mark.parametrize("blow", BLOWS)
@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in PUMPS))
async def test_A12_a_foreign_command_to_a_heart_of_a_shipped_rig_is_an_alarm_within_ten_seconds(
    name: str, blow: str, tmp_path: Path
) -> None:
    rig = LOADED[name]
    lab = SimulatedLab(rig, seed=3)
    clock = Clock(follow_system=False, epoch=EPOCH)
    controller = Controller(rig=rig, opener=lab.opener, storage=Storage(tmp_path, durable=False), clock=clock)
    stop = asyncio.Event()
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    try:
        await asyncio.sleep(SETTLED_S)
        for number, pump in enumerate(pump for of, pump in PUMPS if of == name):
            flow = controller.store.actuators[pump].commanded
            assert isinstance(flow, Run)
            await asyncio.sleep(0.37 * number)  # at another moment of the period each time
            assert not _told(controller, pump)
            other, link = await _second_master(rig, lab, pump)
            await other.actuators[pump.partition(".")[2]].apply(BLOWS[blow](flow.flow_ul_min))
            begun_s = asyncio.get_running_loop().time()
            while not _told(controller, pump) and asyncio.get_running_loop().time() < begun_s + 2 * ALARM_S:
                await asyncio.sleep(0.1)
            assert asyncio.get_running_loop().time() - begun_s <= ALARM_S, pump
            await link.close()
    finally:
        stop.set()
        await ticking
        await controller.close()
        await lab.close()


def _told(controller: Controller, pump: str) -> bool:
    return any(alarm.id.endswith(f":{pump}") for alarm in controller.alarms.active())


async def _second_master(rig: Rig, lab: SimulatedLab, pump: str) -> tuple[Device, Link]:
    """Connect the pump's own driver once more, on a link of its own."""
    device, _, _ = pump.partition(".")
    spec = rig.devices[device]
    driver = MODELS[spec.model]
    link = Link(LinkUrl.parse(spec.link), lab.opener, line=driver.line)
    other = driver(link, device_config(device, spec))
    assert not await link.start()
    return other, link
