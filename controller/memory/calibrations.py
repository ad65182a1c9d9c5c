"""Calibrations of pumps and sensors: the fits, and the records in DATA/calibrations.jsonl.

A record is a dated fact and never changed: who, when, how, with which tubing, what was measured, the result, and its expiry.
The newest record of a point counts. `choroid device calibrate-…` writes them, the controller reads them
(:mod:`controller.upkeep.upkeep`).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

FILE = "calibrations.jsonl"
MAX_SPREAD = 0.10
"""Maximum relative deviation of a single measurement from the fit; more means an error in the measurement."""
FACTORS = (0.5, 2.0)
SLOPES = (0.7, 1.3)


@dataclass(frozen=True, slots=True)
class SensorBounds:
    """Bounds of the calibration of a working sensor, in the sensor's unit.

    `slope` is the sensor's: its change for one unit of the true value. `max_off` bounds its deviation from a reference; `low`
    and `high` bound the references.
    """

    slope: tuple[float, float]
    max_off: float
    low: float
    high: float


SENSOR_BOUNDS: dict[str, SensorBounds] = {
    "pH": SensorBounds((0.85, 1.05), 0.75, 0.0, 14.0),
    "mV": SensorBounds((0.90, 1.10), 30.0, -2000.0, 2000.0),
    "degC": SensorBounds((0.97, 1.03), 1.0, -20.0, 150.0),
    "%": SensorBounds((0.80, 1.20), 10.0, 0.0, 200.0),
    "kPa": SensorBounds((0.95, 1.05), 5.0, -101.0, 2000.0),
    "g": SensorBounds((0.99, 1.01), 50.0, 0.0, 1e5),
}
"""pH: a glass electrode is replaced below 85 % of its slope, or beyond 30 mV (0.5 pH) at pH 7."""
MAX_ASYMMETRY_PH = 0.5
"""30 mV at pH 7."""

ONE_RUN_REL_SD = 0.02
"""Uncertainty of a single run: its scatter is unknown."""
BENCH_REL_SD = 0.005
"""Common uncertainty of all runs: the bench balance, the density of the liquid."""

Pair = tuple[float, float]


class CalibrationError(Exception):
    """An impossible calibration. The message says what, the likely cause and the next action."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """One record. Pump: true volume = `gain` · commanded volume. Sensor: true value = `gain` · reading + `offset`.

    `measured` holds pairs of (commanded, true) for a pump (µL or µL/min), or (reading, true) for a sensor (its unit).
    `spread` is the largest deviation of a pair from the fit: relative for a pump, in its unit for a sensor.
    """

    point: str
    kind: Literal["pump", "sensor"]
    method: Literal["balance", "stopwatch", "buffers"]
    by: str
    at_utc: str
    expires_utc: str
    rig: str
    tubing_mm: float | None
    unit: str
    measured: tuple[Pair, ...]
    gain: float
    offset: float
    spread: float
    note: str = ""

    def expired(self, now_utc: str) -> bool:
        """Return whether it has expired; both times are ISO 8601 in UTC, which sort in order of time."""
        return self.expires_utc <= now_utc

    @property
    def rel_sd(self) -> float:
        """Relative standard deviation of a pump's `gain`: the scatter of its runs, and their common uncertainty."""
        runs = len(self.measured)
        if runs < 2:
            return math.hypot(ONE_RUN_REL_SD, BENCH_REL_SD)
        square = sum((true / (self.gain * asked) - 1.0) ** 2 for asked, true in self.measured)
        return math.hypot(math.sqrt(square / (runs - 1) / runs), BENCH_REL_SD)


def pump_fit(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Fit pairs of (commanded, true), all > 0, by least squares through zero. Return gain and spread.

    Raises:
        CalibrationError: the pairs contradict each other, or any pump.
    """
    gain = sum(asked * true for asked, true in pairs) / sum(asked * asked for asked, _ in pairs)
    spread = max(abs(true / (gain * asked) - 1.0) for asked, true in pairs)
    if not FACTORS[0] <= gain <= FACTORS[1]:
        raise CalibrationError(
            f"the pump would give {gain:.3g} times what it is asked for, which is no calibration but a fault. Likely cause:"
            " other tubing than it reckons with, air, or a unit mistaken. Next: check the tubing and measure again"
        )
    if spread > MAX_SPREAD:
        raise CalibrationError(
            f"single runs lie up to {spread:.0%} apart from what they say together; {MAX_SPREAD:.0%} is allowed. Likely"
            " cause: air in the line, drips, or a run that was cut short. Next: prime the line and measure again"
        )
    return gain, spread


def sensor_fit(pairs: Sequence[Pair]) -> tuple[float, float, float]:
    """Fit pairs of (reading, true). Return gain, offset and spread; one pair gives only an offset.

    Raises:
        CalibrationError: no working probe gives such pairs.
    """
    if len(pairs) == 1:
        ((reading, true),) = pairs
        return 1.0, true - reading, 0.0
    mean_reading = sum(reading for reading, _ in pairs) / len(pairs)
    mean_true = sum(true for _, true in pairs) / len(pairs)
    square = sum((reading - mean_reading) ** 2 for reading, _ in pairs)
    gain = sum((reading - mean_reading) * (true - mean_true) for reading, true in pairs) / square if square else 0.0
    if not SLOPES[0] <= gain <= SLOPES[1]:
        raise CalibrationError(
            f"a slope of {gain:.3g} is that of no working probe ({SLOPES[0]:g} to {SLOPES[1]:g}). Likely cause: buffers"
            " mistaken for each other, an old probe, or too little time in each. Next: clean the probe and measure again"
        )
    offset = mean_true - gain * mean_reading
    return gain, offset, max(abs(gain * reading + offset - true) for reading, true in pairs)


def check_sensor(pairs: Sequence[Pair], gain: float, offset: float, unit: str) -> None:
    """Check the calibration of a sensor against the bounds of its unit.

    Args:
        pairs: the measurements, as (reading, true).
        gain: gain of the fit; true value = gain · reading + offset.
        offset: offset of the fit.
        unit: the sensor's unit.

    Raises:
        CalibrationError: no working sensor of this unit has such a calibration.
    """
    bounds = SENSOR_BOUNDS.get(unit)
    if bounds is None:
        return
    next_ = (
        " Likely cause: another buffer than was written, or a sensor that is worn out. Next: clean it, measure again in"
    )
    next_ += " fresh references, or replace it"
    slope, (min_slope, max_slope) = 1.0 / gain, bounds.slope
    if not min_slope - 1e-9 <= slope <= max_slope + 1e-9:
        raise CalibrationError(
            f"a slope of {slope:.1%} is that of no working {unit} sensor ({min_slope:.0%} to {max_slope:.0%}).{next_}"
        )
    for reading, true in pairs:
        if not bounds.low <= true <= bounds.high:
            raise CalibrationError(
                f"a reference of {true:g} {unit} cannot be: {bounds.low:g} to {bounds.high:g}. Likely cause: a slip, or"
                " another unit. Next: write it in the sensor's own unit"
            )
        if abs(true - reading) > bounds.max_off:
            raise CalibrationError(
                f"it read {reading:g} {unit} in a reference of {true:g} {unit}; {bounds.max_off:g} {unit} is the most that"
                f" a calibration corrects.{next_}"
            )
    if unit == "pH":
        at_seven = (7.0 - offset) / gain - 7.0  # deviation of its reading at pH 7
        if abs(at_seven) > MAX_ASYMMETRY_PH:
            raise CalibrationError(
                f"an offset of {at_seven:+.2f} pH at pH 7 is that of no working electrode (± {MAX_ASYMMETRY_PH:g} pH,"
                f" 30 mV).{next_}"
            )


def keep(data: Path, record: Calibration) -> Path:
    """Append `record` to the records in `data`; it is on the disk on return. Return the file."""
    data.mkdir(parents=True, exist_ok=True)
    path = data / FILE
    with path.open("a+b") as file:
        file.seek(0)
        whole = file.read().rfind(b"\n") + 1
        file.truncate(whole)  # an unfinished record of a power failure was never confirmed
        file.write(json.dumps(asdict(record), ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return path


def current(data: Path) -> dict[str, Calibration]:
    """Return the newest record of each point.

    Raises:
        CalibrationError: the file is damaged.
        OSError: the file cannot be read.
    """
    path = data / FILE
    found: dict[str, Calibration] = {}
    if not os.path.lexists(path):
        return found
    *whole, rest = path.read_bytes().split(b"\n")
    lines = [*whole, rest] if rest else whole
    for number, line in enumerate(lines, 1):
        try:
            record = _record(line)
        except (ValueError, TypeError, KeyError):  # invalid UTF-8 is a ValueError too
            if number > len(whole):
                break  # a power failure interrupted the write: the record was never confirmed
            raise CalibrationError(
                f"{path}:{number} cannot be read. Likely cause: edited by hand, or by an editor that does not write UTF-8."
                " Next: restore the file from a backup"
            ) from None
        found[record.point] = record
    return found


def _record(line: bytes) -> Calibration:
    """Parse one line. Raises ValueError, TypeError or KeyError for an invalid one."""
    words = json.loads(line.decode())
    words["measured"] = tuple((float(a), float(b)) for a, b in words["measured"])
    record = Calibration(**words)
    if not 0.0 < record.gain < math.inf:
        raise ValueError("a gain that is none")
    for utc in (record.at_utc, record.expires_utc):
        if datetime.fromisoformat(utc).tzinfo is None:
            raise ValueError("a time without its zone")
    return record
