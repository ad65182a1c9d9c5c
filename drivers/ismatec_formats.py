"""Number formats of the Ismatec Reglo ICC (manual 14-036-E §14.6), strict in both directions."""

from __future__ import annotations

import math
import re

from drivers.settings import NumberSetting
from drivers.transport.replies import bad_reply

TUBING_MM = (
    *(0.13, 0.19, 0.25, 0.38, 0.44, 0.51, 0.57, 0.64, 0.76, 0.89, 0.95, 1.02, 1.09),
    *(1.14, 1.22, 1.30, 1.42, 1.52, 1.65, 1.75, 1.85, 2.06, 2.29, 2.54, 2.79, 3.17),
)
"""Inner tubing diameters that the pump supports (mm)."""
TUBING = NumberSetting(
    key="tubing_mm",
    meaning="inner diameter of the tubing, one of the manufacturer's sizes",
    low=0.13,
    high=3.17,
    unit="mm",
    without="default: as set at the pump",
)

TIME_UNIT_S = 0.1
"""§14.6 says tenths of a second; some of the manual's examples read as seconds, hence a setting."""

MAX_TIME_UNITS = 35_964_000
_VOLUME_1 = re.compile(rb"(\d{4})E([+-]\d)")
_DISCRETE_4 = re.compile(rb"\d{1,10}")
_TUBING = re.compile(rb"(\d{1,2}\.\d{2}) mm")
_FLOW = re.compile(rb"(\d{1,6}(?:\.\d{1,6})?) (ml|ul)/min", re.IGNORECASE)


def volume_2(value: float) -> bytes:
    """Return `value` (mL or mL/min, > 0) as `mmmmse`, that is m.mmm × 10^(se): 0.0013 is `1300-3`."""
    if not 0 < value < math.inf:
        raise ValueError(f"{value} cannot be written as a positive volume")
    exponent = math.floor(math.log10(value))
    mantissa = round(value / 10.0**exponent * 1000)
    if mantissa == 10_000:
        mantissa, exponent = 1000, exponent + 1
    if not -9 <= exponent <= 9:
        raise ValueError(f"{value} is out of the range of the pump's volumes")
    return b"%04d%+d" % (mantissa, exponent)


def parse_volume_1(text: bytes, where: str) -> float:
    """Return `1200E-2` as 0.012 (mL or mL/min)."""
    match = _VOLUME_1.fullmatch(text)
    if match is None:
        raise bad_reply(text, where, "a volume such as 1200E-2")
    return int(match[1]) / 1000.0 * 10.0 ** int(match[2])


def time_2(seconds: float, unit_s: float = TIME_UNIT_S) -> bytes:
    """Return `seconds` as eight digits in units of `unit_s`."""
    count = round(seconds / unit_s)
    if not 0 <= count <= MAX_TIME_UNITS:
        raise ValueError(f"{seconds} s is out of the range of the pump's times")
    return b"%08d" % count


def parse_count(text: bytes, where: str) -> int:
    """Return the number in one to ten digits (Discrete types and Time1)."""
    if not _DISCRETE_4.fullmatch(text):
        raise bad_reply(text, where, "a count of one to ten digits")
    return int(text)


def parse_tubing_mm(text: bytes, where: str) -> float:
    """Return `3.17 mm` as 3.17."""
    match = _TUBING.fullmatch(text)
    if match is None:
        raise bad_reply(text, where, "a tubing diameter such as 3.17 mm")
    return float(match[1])


def parse_flow_ul_min(text: bytes, where: str) -> float:
    """Return `11.4 ml/min` as 11400.0 (µL/min)."""
    match = _FLOW.fullmatch(text)
    if match is None:
        raise bad_reply(text, where, "a flow such as 11.4 ml/min")
    return float(match[1]) * (1000.0 if match[2].lower() == b"ml" else 1.0)


def tubing_2(diameter_mm: float) -> bytes:
    """Return 1.02 (mm) as `0102`."""
    return b"%04d" % round(diameter_mm * 100)


def why_not_started(reason: bytes) -> tuple[str, str]:
    """Return problem and action for the reason that `xe` reports after a refused start."""
    code, _, limit = reason.decode("ascii", "replace").partition(" ")
    match code:
        case "C":
            return "it will not start: the number of cycles is zero", "set cycles to 1 at the pump"
        case "R":
            return f"it will not start: the flow is zero or above {limit} mL/min", "ask for less flow"
        case "V":
            return f"it will not start: the volume is above {limit} mL", "ask for less volume at a time"
    return f"it will not start (reason “{code}”)", "look at the pump's display"
