"""The watchdog relay: renewed by the controller, opened by its own board when it is not renewed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from controller.core.clock import Clock
from controller.guard.guarding import guard_plan
from controller.guard.rescue import Rescue
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from controller.rig.problems import RigError
from drivers.commands import Switch
from sim.lab import SimulatedLab
from tests.guard.plants import BENCH, Watched

HOLD_S = 9.0
RELAY = "relay.dosing_power"
FEEDS = ("dose_fresh", "dose_glucose", "dose_base")


def rig_with(folder: Path, watchdog: dict[str, object], **settings: object) -> Rig:
    described = yaml.safe_load(BENCH.read_text())
    described["devices"]["relay"]["channels"]["2"] = {"point": "dosing_power"}
    described["devices"]["relay"]["settings"] = {**described["devices"]["relay"].get("settings", {}), **settings}
    described["safety"]["watchdog"] = watchdog
    path = folder / "rig.yaml"
    path.write_text(yaml.safe_dump(described, sort_keys=False, allow_unicode=True))
    return load_rig(path)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return rig_with(tmp_path, {"relay": RELAY, "hold": f"{HOLD_S:g} s", "feeds": list(FEEDS)})


def powered(lab: SimulatedLab) -> list[bool]:
    return [lab.devices[name].powered for name in FEEDS]


@pytest.mark.virtual_time
@pytest.mark.parametrize("guard", [False, True], ids=["controller and guard killed", "controller killed"])
async def test_U1_it_opens_within_its_time_when_it_is_not_renewed(guard: bool, rig: Rig, tmp_path: Path) -> None:
    plant = Watched(rig)
    lab = SimulatedLab(rig, seed=5, plant=plant)
    clock = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC))
    controller = Controller(rig=rig, opener=lab.opener, storage=Storage(tmp_path, durable=False), clock=clock)
    stop = asyncio.Event()
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    await asyncio.sleep(30.0)
    opened_s: list[float] = []
    for _ in range(600):
        await asyncio.sleep(0.1)
        assert powered(lab) == [True, True, True], "it is renewed in time, always"
    stop.set()
    await ticking
    await controller.close(leave_running=True)  # as one that is killed
    begun_s = asyncio.get_running_loop().time()
    if guard:
        assert await Rescue(guard_plan(rig), lab.opener, lambda text: None).run(60.0) == []
        assert powered(lab) == [False, False, False]
        assert asyncio.get_running_loop().time() - begun_s < 2.0
    while any(powered(lab)):
        await asyncio.sleep(0.1)
    opened_s.append(asyncio.get_running_loop().time() - begun_s)
    assert opened_s[0] <= HOLD_S
    assert lab.devices["reglo"].powered, "the heart has power from elsewhere"
    await lab.close()


@pytest.mark.virtual_time
async def test_it_is_renewed_through_the_gate_and_its_basal_state_is_open(rig: Rig, tmp_path: Path) -> None:
    assert guard_plan(rig).rest[RELAY] == Switch(False)
    lab = SimulatedLab(rig, seed=5)
    clock = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC))
    controller = Controller(rig=rig, opener=lab.opener, storage=Storage(tmp_path, durable=False), clock=clock)
    stop = asyncio.Event()
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    await asyncio.sleep(60.0)
    acts = [row.body for row in controller.journal.entries(kinds=("act",)) if row.body["actuator"] == RELAY]
    assert len(acts) >= 60 / (HOLD_S / 3) - 2
    await controller.emergency_stop("anna", "smoke")
    await asyncio.sleep(HOLD_S)
    assert powered(lab) == [False, False, False], "an emergency stop does not renew it"
    stop.set()
    await ticking
    await controller.close()
    await lab.close()


@pytest.mark.parametrize(
    ("watchdog", "settings", "says"),
    [
        ({"relay": "relay.heater"}, {}, "another purpose"),
        ({"relay": "relay.return_valve"}, {}, "another purpose"),
        ({"relay": "reglo.heart"}, {}, "switch"),
        ({"relay": "relay.nothing"}, {}, "no device has the point"),
        ({}, {"flash": False}, "does not open its relays by itself"),
        ({"feeds": ["reglo"]}, {}, "must keep its power"),
        ({"feeds": ["relay"]}, {}, "must keep its power"),
        ({"feeds": ["nothing"]}, {}, "no device"),
        ({"feeds": []}, {}, "feeds"),
        ({"hold": "10 min"}, {}, "hold"),
    ],
)
def test_J1_a_watchdog_that_could_not_help_is_rejected(
    watchdog: dict[str, object], settings: dict[str, object], says: str, tmp_path: Path
) -> None:
    with pytest.raises(RigError, match=says):
        rig_with(tmp_path, {"relay": RELAY, "hold": "10 s", "feeds": ["dose_fresh"], **watchdog}, **settings)
