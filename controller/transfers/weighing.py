"""Settled readings: several fresh values of one sensor that agree, with the uncertainty of their mean."""

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
"""Uncertainty of a settled balance: drips, draught, its last digit (standard deviation, g)."""
MASS_PATIENCE_S = 40.0

ACCURACY_SD = {"pH": 0.02, "%": 1.0, "degC": 0.1, "kPa": 0.3, "g": 0.02, "mL/min": 0.1, "uL/min": 20.0}
"""Standard deviation of the usual calibration error of a sensor, by its unit; it does not average away."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Mean of several readings and its standard deviation, calibration error included; or in `detail` why there is none."""

    value: float | None
    sd: float
    unit: str
    detail: str = ""


async def settled(
    store: StateStore, point: str, *, every_s: float, spread: float | None = None, patience_s: float
) -> Settled:
    """Wait for :data:`READINGS` good and stable readings from now on that agree.

    Args:
        store: the state.
        point: the sensor's point.
        every_s: its sampling period (s).
        spread: maximum difference of the readings (the sensor's unit); None permits any.
        patience_s: maximum time (s of loop time).

    Returns:
        The mean, or why there is none.
    """
    with store.awaited():
        return await _settled(store, point, every_s, spread, patience_s)


async def _settled(store: StateStore, point: str, every_s: float, spread: float | None, patience_s: float) -> Settled:
    """Wait for settled readings as :func:`settled` does; the caller has the rig sampled at full rate."""
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
        if not _usable(reading):
            values.clear()
            continue
        values = [*values[-(READINGS - 1) :], reading.value]
        if _agree(values, spread):
            return _mean(values, reading.unit)
    if reading is None:
        return Settled(None, 0.0, "", f"{point} was never read")
    moves = bool(values) or not reading.stable
    why = reading.detail or ("it did not settle" if moves else "no good reading came")
    return Settled(None, 0.0, reading.unit, f"{point}: {why} within {patience_s:.0f} s")


def _usable(reading: Reading) -> bool:
    return reading.quality is Quality.GOOD and reading.stable and math.isfinite(reading.value)


def _agree(values: list[float], spread: float | None) -> bool:
    return len(values) == READINGS and (spread is None or max(values) - min(values) <= spread)


def _mean(values: list[float], unit: str) -> Settled:
    """Return the mean of settled values, with the noise of the mean and the sensor's calibration error."""
    mean = sum(values) / READINGS
    noise = math.sqrt(sum((value - mean) ** 2 for value in values) / (READINGS - 1) / READINGS)
    return Settled(mean, math.hypot(noise, ACCURACY_SD.get(unit, 0.0)), unit)


async def weigh(store: StateStore, point: str, *, every_s: float) -> Weight | None:
    """Return the settled mass, or None if the balance gives none."""
    mass = await settled(store, point, every_s=every_s, spread=MASS_SPREAD_G, patience_s=MASS_PATIENCE_S)
    return None if mass.value is None else Weight(mass.value, MASS_SD_G)
