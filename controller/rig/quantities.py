"""Units at the edges (design §4.11): text such as "2 mL/min" becomes a plain float in a declared unit.

Inside the house a number's unit is in its name (`flow_ul_min`); only files, the API and the screen carry text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

import pint
from pydantic import BeforeValidator

_UNITS = pint.UnitRegistry(autoconvert_offset_to_baseunit=True)
_UNITS.define("osmole = mole = Osm")
_UNITS.define("molar = mole / liter = M")
_UNITS.define("pH_unit = [acidity] = pH")


class QuantityError(ValueError):
    """A text is not a quantity of the kind that is wanted here; the message says what to write."""


@lru_cache(maxsize=4096)
def parse_quantity(text: str, unit: str) -> float:
    """Return the magnitude of `text` (say "2 mL/min") in `unit` (say "uL/min").

    Raises :class:`QuantityError` when the unit is missing, unknown or of another kind (F6).
    """
    try:
        quantity = _UNITS.Quantity(text)
    except pint.UndefinedUnitError as error:
        raise QuantityError(f"“{text}”: unknown unit {error.unit_names}; write a quantity such as “1 {unit}”") from None
    except Exception:
        raise QuantityError(f"“{text}” is not a quantity; write a number and a unit, such as “1 {unit}”") from None
    try:
        return float(quantity.to(unit).magnitude)
    except pint.DimensionalityError:
        if str(quantity.units) == "dimensionless":
            raise QuantityError(f"“{text}” has no unit; write for example “{text} {unit}”") from None
        raise QuantityError(f"“{text}” is in {quantity.units:~}, but a quantity in {unit} is wanted here") from None


def quantity_text(value: float, unit: str) -> str:
    """`value` in `unit` as a person reads it: "2 mL/min" rather than "2000.0 uL/min" is left to the caller."""
    return f"{value:g} {unit}"


def _wanted(unit: str) -> BeforeValidator:
    def convert(value: object) -> float:
        if isinstance(value, str):
            return parse_quantity(value, unit)
        raise ValueError(f"“{value}” has no unit; write it with one, for example “{value} {unit}”")

    return BeforeValidator(convert)


VolumeUl = Annotated[float, _wanted("uL")]
FlowUlMin = Annotated[float, _wanted("uL/min")]
GasMlMin = Annotated[float, _wanted("mL/min")]
LengthMm = Annotated[float, _wanted("mm")]
LengthUm = Annotated[float, _wanted("um")]
LengthM = Annotated[float, _wanted("m")]
AreaCm2 = Annotated[float, _wanted("cm^2")]
TimeS = Annotated[float, _wanted("s")]
TimeD = Annotated[float, _wanted("day")]
TemperatureC = Annotated[float, _wanted("degC")]
PressureKpa = Annotated[float, _wanted("kPa")]
ConcentrationMm = Annotated[float, _wanted("mmol/L")]
OsmolalityMosm = Annotated[float, _wanted("mosmole/kg")]
Percent = Annotated[float, _wanted("percent")]
PowerW = Annotated[float, _wanted("W")]
FrequencyHz = Annotated[float, _wanted("Hz")]
