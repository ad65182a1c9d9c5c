"""`choroid device calibrate-pump` and `calibrate-sensor`: turn bench measurements into a dated calibration record.

Nothing is moved or set here: a pump is run from its own keys or by a protocol, a probe is held into buffers and
read with `choroid device talk`. The measurements are given as text; the record goes into the rig's data directory.
"""

from __future__ import annotations

import asyncio
import getpass
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from choroid.common.failure import UserError
from controller.core.clock import Clock
from controller.memory.calibrations import Calibration, Pair, check_sensor, current, keep, pump_fit, sensor_fit
from controller.rig.description import Rig
from controller.rig.families import PointKind, points_of
from controller.rig.loading import load_rig
from controller.rig.quantities import QuantityError, parse_quantity
from drivers.registry import MODELS, load_third_party

DENSITY_G_ML = 1.0
"""Water near room temperature; culture media weigh up to 1 % more (`--density`)."""
MAX_VALID_S = 366 * 86_400.0
VALID: dict[str, str] = {"pump": "30 d", "sensor": "7 d"}


def pump(
    point: str,
    rig_path: Path,
    data: Path,
    *,
    method: Literal["balance", "stopwatch"],
    measured: list[str],
    density_g_ml: float = DENSITY_G_ML,
    valid: str = VALID["pump"],
    by: str | None = None,
    note: str = "",
) -> dict[str, Any]:
    """Record a pump's calibration; return the record of `choroid device calibrate-pump --json`.

    `measured`: by balance "requested volume=weight", by stopwatch "requested flow=volume in time".
    """
    rig, kind = _point(rig_path, point)
    if kind.kind != "pump":
        raise UserError(f"{point} is a {kind}, not a pump. Next: `choroid device calibrate-sensor` is for sensors")
    if not 0.5 <= density_g_ml <= 2.0:
        raise UserError(f"a density of {density_g_ml:g} g/mL is not that of a medium. Next: give 0.5 to 2 g/mL")
    read = _weighed(density_g_ml) if method == "balance" else _timed
    pairs = tuple(read(text) for text in measured)
    gain, spread = pump_fit(pairs)
    at_utc, expires_utc = _times(valid)
    record = Calibration(
        point=point,
        kind="pump",
        method=method,
        by=by or getpass.getuser(),
        at_utc=at_utc,
        expires_utc=expires_utc,
        rig=rig.name,
        tubing_mm=_tubing_mm(rig, point),
        unit="uL" if method == "balance" else "uL/min",
        measured=pairs,
        gain=gain,
        offset=0.0,
        spread=spread,
        note=note,
    )
    keep(data, record)
    return asdict(record)


def sensor(
    point: str,
    rig_path: Path,
    data: Path,
    *,
    measured: list[str],
    valid: str = VALID["sensor"],
    by: str | None = None,
    note: str = "",
) -> dict[str, Any]:
    """Record a sensor's calibration against buffers or references; `measured` holds "reference=reading"."""
    rig, kind = _point(rig_path, point)
    if kind.kind != "sensor":
        raise UserError(f"{point} is a {kind}, not a sensor. Next: `choroid device calibrate-pump` is for pumps")
    pairs = tuple((_number(read), _number(true)) for true, read in (_halves(text, "=") for text in measured))
    gain, offset, spread = sensor_fit(pairs)
    check_sensor(pairs, gain, offset, kind.unit)
    at_utc, expires_utc = _times(valid)
    record = Calibration(
        point=point,
        kind="sensor",
        method="buffers",
        by=by or getpass.getuser(),
        at_utc=at_utc,
        expires_utc=expires_utc,
        rig=rig.name,
        tubing_mm=None,
        unit=kind.unit,
        measured=pairs,
        gain=gain,
        offset=offset,
        spread=spread,
        note=note,
    )
    keep(data, record)
    return asdict(record)


def listed(data: Path) -> dict[str, Any]:
    """Return `{"calibrations": [...], "expired": n}`: the latest record of each point, each with `expired`."""
    now_utc, _ = _times("1 s")
    records = [{**asdict(each), "expired": each.expired(now_utc)} for _, each in sorted(current(data).items())]
    return {"calibrations": records, "expired": sum(each["expired"] for each in records)}


def as_text(record: dict[str, Any]) -> str:
    """Return one record as text."""
    if record["kind"] == "pump":
        tubing = "" if record["tubing_mm"] is None else f", tubing {record['tubing_mm']:g} mm"
        text = f"gives {record['gain']:.4f} of what it is asked for (± {record['spread']:.1%}{tubing})"
    else:
        unit = record["unit"]
        text = f"true = {record['gain']:.4f} × reading {record['offset']:+.4g} {unit} (± {record['spread']:.2g} {unit})"
    dates = f"by {record['by']} at {record['at_utc'][:16]}, valid until {record['expires_utc'][:10]}"
    return f"{record['point']}: {text}; {dates}" + (", EXPIRED" if record.get("expired") else "")


def list_as_text(answer: dict[str, Any]) -> str:
    """Return all records as text."""
    return "\n".join(as_text(each) for each in answer["calibrations"]) or "nothing has been calibrated yet"


def _point(path: Path, point: str) -> tuple[Rig, PointKind]:
    load_third_party()
    rig = load_rig(path, models=MODELS)
    points = points_of(rig)
    if point not in points:
        raise UserError(f"{path} has no point {point}. Next: choose one of {', '.join(sorted(points))}")
    return rig, points[point]


def _tubing_mm(rig: Rig, point: str) -> float | None:
    device, _, name = point.partition(".")
    return next((each.tubing_mm for each in rig.devices[device].channels.values() if each.point == name), None)


def _weighed(density_g_ml: float) -> Any:
    def read(text: str) -> Pair:
        asked, got = _halves(text, "=")
        return _above_zero(text, parse_quantity(asked, "uL"), 1000.0 * parse_quantity(got, "g") / density_g_ml)

    return read


def _timed(text: str) -> Pair:
    asked, got = _halves(text, "=")
    volume, time = _halves(got, " in ")
    seconds = parse_quantity(time, "s")
    if seconds <= 0:
        raise UserError(f"“{text}”: the time must be longer than 0")
    return _above_zero(text, parse_quantity(asked, "uL/min"), 60.0 * parse_quantity(volume, "uL") / seconds)


def _above_zero(text: str, asked: float, true: float) -> Pair:
    if asked <= 0 or true <= 0:
        raise UserError(f"“{text}”: both sides must be above 0. Next: omit a failed run")
    return asked, true


def _halves(text: str, mark: str) -> tuple[str, str]:
    left, found, right = text.partition(mark)
    if not found or not left.strip() or not right.strip():
        raise UserError(
            f'“{text}” cannot be read. Next: write asked=measured: a pump by balance "5 mL=4.87 g", by stopwatch'
            ' "2 mL/min=9.8 mL in 300 s", a sensor "7.00=6.94" (buffer=reading)'
        )
    return left.strip(), right.strip()


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < 1e6:
        raise UserError(
            f"“{text}” is not a number in the sensor's own unit. Next: write it without a unit, such as 7.00"
        )
    return value


def _times(valid: str) -> tuple[str, str]:
    """Return the present time and the end of validity, in the format of every record."""
    valid_s = parse_quantity(valid, "s")
    if not 0 < valid_s <= MAX_VALID_S:
        raise QuantityError(f"valid for {valid}? Next: give a time up to a year, such as 30 d")

    async def now() -> tuple[str, str]:
        clock = Clock(follow_system=True)
        later = clock.utc() + timedelta(seconds=valid_s)
        return clock.utc_text(), later.strftime("%Y-%m-%dT%H:%M:%S.000Z")

    return asyncio.run(now())
