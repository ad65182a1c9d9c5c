"""Settled readings: several fresh values of one sensor that agree, and how well their mean is known."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from controller.core.state import Reading, StateStore
from controller.ledger.witnesses import Weight
from drivers.commands import Quality

READINGS = 3
POLL_S = 1.0
MASS_SPREAD_G = 0.04
MASS_SD_G = 0.015
"""What is left when a balance has settled: drips, draught, its last digit."""
MASS_PATIENCE_S = 40.0

ACCURACY_SD = {"pH": 0.02, "%": 1.0, "degC": 0.1, "kPa": 0.3, "g": 0.02, "mL/min": 0.1, "uL/min": 20.0}
"""Standard deviation of the usual calibration error of a sensor, by its unit; it does not average away."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Mean of several readings and its standard deviation, calibration error included; or why there is none."""

    value: float | None
    sd: float
    unit: str
    detail: str = ""


async def settled(
    store: StateStore, point: str, *, every_s: float, spread: float | None = None, patience_s: float
) -> Settled:
    """Wait for :data:`READINGS` good and stable readings taken from now on, no further apart than `spread` (any if None).

    Gives up after `patience_s` seconds of loop time and says why.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + patience_s
    last_s = loop.time()
    values: list[float] = []
    reading: Reading | None = None
    pause_s = max(POLL_S, every_s / 2)
    while loop.time() < deadline_s:
        await asyncio.sleep(pause_s)
        reading = store.readings.get(point)
        if reading is None or reading.at_s <= last_s:
            continue
        last_s = reading.at_s
        if reading.quality is not Quality.GOOD or not reading.stable or not math.isfinite(reading.value):
            values.clear()
            continue
        values = [*values[-(READINGS - 1) :], reading.value]
        if len(values) == READINGS and (spread is None or max(values) - min(values) <= spread):
            mean = sum(values) / READINGS
            noise = math.sqrt(sum((value - mean) ** 2 for value in values) / (READINGS - 1) / READINGS)
            return Settled(mean, math.hypot(noise, ACCURACY_SD.get(reading.unit, 0.0)), reading.unit)
    if reading is None:
        return Settled(None, 0.0, "", f"{point} was never read")
    moves = bool(values) or not reading.stable
    why = reading.detail or ("it did not settle" if moves else "no good reading came")
    return Settled(None, 0.0, reading.unit, f"{point}: {why} within {patience_s:.0f} s")


async def weigh(store: StateStore, point: str, *, every_s: float) -> Weight | None:
    """The settled mass, or None when the balance cannot be had."""
    mass = await settled(store, point, every_s=every_s, spread=MASS_SPREAD_G, patience_s=MASS_PATIENCE_S)
    return None if mass.value is None else Weight(mass.value, MASS_SD_G)
