"""Benchmark of a full RS-485 bus: 31 devices at 19,200 baud, three of them dead. How close is polling to the wire's
limit?
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

from choroid.common.examples import bench_rig
from controller.core.state import StateStore
from controller.links.connected_rig import ConnectedRig
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from drivers.commands import Quality
from drivers.registry import MODELS
from sim.devices.keller_x_line import KellerXLine
from sim.devices.wire import BITS_A_BYTE
from sim.lab import SimulatedLab
from sim.virtual_time import run_virtual

BAUD = 19_200
DEVICES, DEAD = 31, 3
FOR_S = 300.0
PERIOD_S = 1.0
LOOK_S = 0.005
FRAMES_BYTES = 8 + 9
"""Bytes to read one pressure: address, function, register, count, checksum; and address, function, length, float,
checksum.
"""
TURN_BYTES = 3.5


def bench_bus() -> dict[str, Any]:
    """Return the figures of the same bus in virtual time, polled once a second and polled as fast as possible."""
    limit_s = (DEVICES - DEAD) * ((FRAMES_BYTES + TURN_BYTES) * BITS_A_BYTE / BAUD + KellerXLine.think_s)
    calm = run_virtual(_life(PERIOD_S))
    fast = run_virtual(_life(limit_s / 4))
    cycle_s = FOR_S / fast["rounds"]
    return {
        "devices": DEVICES,
        "dead": DEAD,
        "baud": BAUD,
        "period_s": PERIOD_S,
        "longest_between_readings_s": calm["longest_s"],
        "readings_missed": calm["missed"],
        "wire_limit_ms": round(1e3 * limit_s, 1),
        "achieved_cycle_ms": round(1e3 * cycle_s, 1),
        "ratio": round(cycle_s / limit_s, 3),
    }


async def _life(every_s: float) -> dict[str, float]:
    """Poll the bus for a while; return the rounds of the slowest live device and its longest pause (s)."""
    rig = _crowded(every_s)
    lab = SimulatedLab(rig, seed=1)
    for number in range(DEAD):
        lab.devices[f"p{10 * number + 5}"].power_off()
    store = StateStore()
    body = await ConnectedRig.connect(rig, lab.opener, store)
    await body.begin(_no_actuators)
    await asyncio.sleep(10.0)
    seen = await _reading_times([name for name in rig.devices if lab.devices[name].powered], store)
    await body.close()
    await lab.close()
    pauses = [later - earlier for times in seen.values() for earlier, later in pairwise(times)]
    return {
        "rounds": min(len(times) for times in seen.values()),
        "longest_s": round(max(pauses), 3),
        "missed": sum(pause > 1.5 * every_s for pause in pauses),
    }


async def _reading_times(devices: list[str], store: StateStore) -> dict[str, list[float]]:
    """Return the times (s) of the good readings of each device during the next :data:`FOR_S`."""
    loop = asyncio.get_running_loop()
    seen: dict[str, list[float]] = {name: [] for name in devices}
    end_s = loop.time() + FOR_S
    while loop.time() < end_s:
        await asyncio.sleep(LOOK_S)
        for name, times in seen.items():
            reading = store.readings[f"{name}.pressure"]
            if reading.quality is Quality.GOOD and (not times or times[-1] != reading.at_s):
                times.append(reading.at_s)
    return seen


def _crowded(every_s: float) -> Rig:
    """Return the bench rig with only pressure transmitters, all on one line."""
    rig = load_rig(bench_rig(), models=MODELS)
    one = rig.devices["p_heart"]
    devices = {
        f"p{number}": one.model_copy(
            update={"link": f"sim:bus?baud={BAUD}", "address": str(number + 1), "every_s": every_s}
        )
        for number in range(DEVICES)
    }
    return rig.model_copy(update={"devices": devices})


async def _no_actuators(_: str) -> None:
    """Do nothing: there are no actuators on this bus."""
