"""Number formats and the flow chart of the Ismatec Reglo ICC (manual 14-036-E Rev. C, sections 13 and 14.6)."""

from __future__ import annotations

import re
from math import floor, log10

MAX_RPM = 100.0
RPM_STEP = 0.01
LONGEST_TENTHS = 35_964_000
"""999 h in tenths of a second."""
MAX_VOLUME_ML = 9999.0

CHART_ML_MIN = {
    13: 0.11, 19: 0.23, 25: 0.41, 38: 0.94, 44: 1.3, 51: 1.7, 57: 2.1, 64: 2.6, 76: 3.6, 89: 4.9, 95: 5.6,
    102: 6.3, 109: 7.2, 114: 7.8, 122: 8.8, 130: 10.0, 142: 11.0, 152: 13.0, 165: 15.0, 175: 16.0, 185: 17.0,
    206: 20.0, 229: 24.0, 254: 27.0, 279: 31.0, 317: 35.0,
}  # fmt: skip
"""Inner diameter of the tubing (1/100 mm) → flow at 100 rpm with eight rollers (mL/min). Section 13."""

_VOLUME_2 = re.compile(r"(\d{4})([+-]\d)", re.ASCII)


def ml_per_revolution(tubing: int) -> float:
    """Return the volume of a revolution (mL) of `tubing` (1/100 mm) by the maker's chart."""
    return CHART_ML_MIN[tubing] / MAX_RPM


def volume_1(value: float) -> str:
    """Return `mmmmEse`, that is m.mmm × 10^(se): the form of replies (mL, mL/min)."""
    if value <= 0.0:
        return "0000E+0"
    exponent = max(-9, min(9, floor(log10(value))))
    mantissa = round(value / 10.0**exponent * 1000)
    if mantissa == 10_000:
        mantissa, exponent = 1000, exponent + 1
    return f"{mantissa:04d}E{exponent:+d}"


def from_volume_2(text: str) -> float | None:
    """Return the value (mL or mL/min) of `mmmmse`, the form of requests; None when `text` does not have it."""
    match = _VOLUME_2.fullmatch(text)
    return int(match[1]) / 1000 * 10.0 ** int(match[2]) if match else None


def digits(text: str, width: int) -> int | None:
    """Return the number in exactly `width` decimal digits; None for any other text."""
    return int(text) if len(text) == width and text.isascii() and text.isdigit() else None


def discrete_4(value: float) -> str:
    """Return ten digits: the number of whole units."""
    return f"{int(value + 1e-6) % 2**32:010d}"


def total_text(ml: float) -> str:
    """Return the running total with four digits in a unit that fits: "983.0 ul", "4.983 ml", "1.204 l"."""
    for unit, scale in (("ul", 1000.0), ("ml", 1.0), ("l", 0.001)):
        value = ml * scale
        if value < 999.95 or unit == "l":
            break
    decimals = 3 if value < 9.9995 else 2 if value < 99.995 else 1
    return f"{value:.{decimals}f} {unit}"
