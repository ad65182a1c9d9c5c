"""Format numbers and times for a report: no more digits than are known."""

from __future__ import annotations

import math
from datetime import datetime, tzinfo

DIGITS = 4
UNITS = {
    "uL/min": "µL/min",
    "uL": "µL",
    "umol/d": "µmol/d",
    "umol/min": "µmol/min",
    "degC": "°C",
    "uL/h/kPa": "µL/h/kPa",
}
_UNITS_S = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0))


def unit_text(unit: str) -> str:
    """Return the unit for people."""
    return UNITS.get(unit, unit).replace("m2", "m²")


def number(value: float, low: float | None = None, high: float | None = None) -> str:
    """Return `value` with four digits, or to the second digit of its interval's half width if that is coarser."""
    if value == 0:
        return "0"
    decimals = DIGITS - 1 - math.floor(math.log10(abs(value)))
    if low is not None and high is not None and high > low:
        decimals = min(decimals, 1 - math.floor(math.log10((high - low) / 2)))
    rounded = round(value, decimals)
    if decimals > 6:
        return f"{value:.2g}"
    text = f"{rounded:,.{max(decimals, 0)}f}" if abs(rounded) >= 10_000 else f"{rounded:.{max(decimals, 0)}f}"
    return "0" if float(text.replace(",", "")) == 0 else text.replace(",", "\u202f")


def quantity(value: float, unit: str) -> str:
    """Return a number with its unit."""
    return f"{number(value)} {unit_text(unit)}".strip()


def interval(value: float, low: float | None, high: float | None) -> str:
    """Return the 95 % interval, empty if there is none; an interval that is open above is marked."""
    if low is None:
        return ""
    if high is None:
        return f"> {number(low)}"
    return f"{number(low, low, high)} to {number(high, low, high)}"


def duration(seconds: float) -> str:
    """Return seconds in the largest unit of which there are at least two."""
    for name, size in _UNITS_S:
        if seconds >= 2 * size or (seconds == size):
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"


def moment(at: float, zone: tzinfo) -> str:
    """Return UTC seconds as date and time of `zone`."""
    return datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d\u00a0%H:%M")


def percent(share: float | None) -> str:
    """Return a share as per cent, to a tenth."""
    if share is None:
        return ""
    return "100 %" if share >= 0.9995 else f"{100.0 * share:.1f} %"
