"""Units at the edges (decision 12): text such as "2 mL/min" becomes a plain float in a declared unit.

Inside the code the name of a number ends with its unit (`flow_ul_min`); only files, the API and the page contain text.
A text is one number and one unit, without arithmetic: `9**9 mL` is refused, not evaluated (S3).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

if TYPE_CHECKING:
    import pint

USUAL: Mapping[str, Mapping[str, float]] = {
    "uL": {"mL": 1e3, "L": 1e6},
    "mL": {"uL": 0.001, "L": 1e3},
    "uL/min": {"mL/min": 1e3},
    "mm": {"cm": 10.0, "m": 1e3},
    "um": {"mm": 1e3},
    "m": {"cm": 0.01, "mm": 0.001},
    "s": {"ms": 0.001, "min": 60.0, "h": 3600.0, "d": 86_400.0, "day": 86_400.0},
    "day": {"h": 1.0 / 24.0, "d": 1.0},
    "kPa": {"bar": 100.0, "mbar": 0.1},
    "mmol/L": {"mM": 1.0},
    "Hz": {"kHz": 1e3},
}
"""Wanted unit → those that nearly every file is written in, and their size. pint, which knows all the others and what is
wrong with them, takes half a second or more to begin; it begins when it is wanted, or with :func:`prepare_units`. The tests
hold each of these against it.
"""

LONGEST_TEXT = 64
SMALLEST = 1e-9
"""Sizes below it are slips, and divide by nothing: a bore of 1e-100 mm has no fourth power."""
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)"
    r"\s*(?P<unit>(?:[^\W\d_]|[%°])[\w %°/*^().-]*)?"
)
_LONG_EXPONENT = re.compile(r"[0-9]{2}")
_DECIMAL_COMMA = re.compile(r"[0-9],[0-9]")
_MEGA = re.compile(r"\bM(?=[LlMmg]\b)")

_SLIPS = {("C", "degC"): "degC", ("F", "degC"): "degF", ("m", "s"): "min", ("M", "s"): "min"}
"""Units that people write for another one: (written, wanted) -> meant. 37 C would be coulombs."""

_READABLE = {"uL": "mL", "uL/min": "mL/min"}
"""What a thousand of a unit is called."""


class QuantityError(ValueError):
    """A text is not a quantity of the kind that is wanted here: what is wrong, then “; ” and what to write."""


@lru_cache(maxsize=4096)
def parse_quantity(text: str, unit: str) -> float:
    """Return the magnitude of `text` (say "2 mL/min") in `unit` (say "uL/min"), to twelve digits.

    Raises :class:`QuantityError` when the unit is missing, unknown or of another kind (F6), or when the number is
    not finite or next to nothing.
    """
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= LONGEST_TEXT else None
    if match is None:
        shown = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
        if _DECIMAL_COMMA.search(shown):
            raise QuantityError(f"“{shown}” has a decimal comma; write a point: “{shown.replace(',', '.')}”")
        raise QuantityError(f"“{shown}” is not a quantity; write a number and a unit, such as “1 {unit}”")
    number, written = match["number"], match["unit"]
    if written is None:
        raise QuantityError(_unitless(text.strip(), unit))
    meant = _SLIPS.get((written, unit))
    if meant is not None:
        raise QuantityError(f"“{text}” is in {_long_name(written)}; write “{number} {meant}”")
    if _MEGA.search(written):
        raise QuantityError(f"“{text}” says mega (M); write “{number} {_MEGA.sub('m', written)}”")
    factor = usual_factor(written, unit)
    magnitude = float(number) * factor if factor is not None else _converted(float(number), written, text, unit)
    if not math.isfinite(magnitude):
        raise QuantityError(f"“{text}” is not a finite number; write one, such as “1 {unit}”")
    if 0.0 < abs(magnitude) < SMALLEST:
        raise QuantityError(f"“{text}” is less than a billionth of 1 {unit}; write 0, or the size that it has")
    # Twelve digits: 0.04 L and 40 mL are then the same number, and give the same hash of the rig (D7).
    return float(f"{magnitude:.12g}")


def usual_factor(written: str, unit: str) -> float | None:
    """Return how many `unit` one `written` is; None for what is not in :data:`USUAL`."""
    return 1.0 if written == unit else USUAL.get(unit, {}).get(written)


def usual_unit(text: str, among: Sequence[str]) -> str | None:
    """Return the unit of `among` for which people usually write `text`; None where no unit of it is usual."""
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= LONGEST_TEXT else None
    written = "" if match is None else match["unit"] or ""
    return next((unit for unit in among if usual_factor(written, unit) is not None), None)


def quantity_text(value: float, unit: str) -> str:
    """Return `value` in `unit` as a person reads it, to six digits: 2000 uL/min is "2 mL/min"."""
    if abs(value) >= 1000 and unit in _READABLE:
        value, unit = value / 1000, _READABLE[unit]
    return f"{value:.6g} {unit}"


def prepare_units() -> None:
    """Load the units that are not in :data:`USUAL`, so that no text of a person delays a control loop that runs already."""
    _units().parse_units("mg/dL")


@lru_cache(maxsize=1)
def _units() -> pint.UnitRegistry[float]:
    import pint

    units: pint.UnitRegistry[float] = pint.UnitRegistry(autoconvert_offset_to_baseunit=True, on_redefinition="ignore")
    units.define("osmole = mole = Osm")
    units.define("molar = mole / liter = M")
    units.define("pH_unit = [acidity] = pH")
    units.define("EUR = [money]")
    return units


def _converted(number: float, written: str, text: str, unit: str) -> float:
    import pint

    if _LONG_EXPONENT.search(written):
        raise QuantityError(f"“{text}”: “{written}” is no unit; write a quantity such as “1 {unit}”")
    try:
        quantity = _units().Quantity(number, _units().parse_units(written))
        return float(quantity.to(unit).magnitude)
    except pint.UndefinedUnitError:
        raise QuantityError(f"“{text}”: unknown unit “{written}”; write a quantity such as “1 {unit}”") from None
    except pint.DimensionalityError:
        raise QuantityError(
            f"“{text}” is in {_long_name(written)}, not in {unit}; write a quantity such as “1 {unit}”"
        ) from None
    except Exception:  # pint's parser lets through whatever its tokenizer meets; to a user it is all the same
        raise QuantityError(f"“{text}” is not a quantity; write a number and a unit, such as “1 {unit}”") from None


def _long_name(written: str) -> str:
    return str(_units().parse_units(written)) or "no unit"


def _unitless(text: str, unit: str) -> str:
    return f"“{text}” has no unit; write it with one, for example “{text} {unit}”"


@dataclass(frozen=True, slots=True)
class InUnit:
    """Marks a number of the rig that is written as text with a unit and kept as a float in `unit`."""

    unit: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the form in a file; `unit` is replaced by :mod:`controller.rig.schema`."""
        return {"type": "string", "unit": self.unit}

    def _read(self, value: object) -> float:
        if isinstance(value, str):
            return parse_quantity(value, self.unit)
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise QuantityError(_unitless(f"{value:g}", self.unit))
        raise QuantityError(f"a quantity belongs here; write a number and a unit, such as “1 {self.unit}”")


VolumeUl = Annotated[float, InUnit("uL")]
FlowUlMin = Annotated[float, InUnit("uL/min")]
GasMlMin = Annotated[float, InUnit("mL/min")]
LengthMm = Annotated[float, InUnit("mm")]
LengthUm = Annotated[float, InUnit("um")]
LengthM = Annotated[float, InUnit("m")]
MassKda = Annotated[float, InUnit("kDa")]
AreaCm2 = Annotated[float, InUnit("cm^2")]
TimeS = Annotated[float, InUnit("s")]
TimeD = Annotated[float, InUnit("day")]
TemperatureC = Annotated[float, InUnit("degC")]
PressureKpa = Annotated[float, InUnit("kPa")]
ConcentrationMm = Annotated[float, InUnit("mmol/L")]
OsmolalityMosm = Annotated[float, InUnit("mOsm/kg")]
Percent = Annotated[float, InUnit("%")]
PowerW = Annotated[float, InUnit("W")]
VoltageUv = Annotated[float, InUnit("uV")]
FrequencyHz = Annotated[float, InUnit("Hz")]
SpeedRpm = Annotated[float, InUnit("rpm")]
SizeGb = Annotated[float, InUnit("GB")]
