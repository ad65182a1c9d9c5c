"""Quantities as text: right in every unit of their kind, refused in any other."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.rig.quantities import (
    USUAL,
    QuantityError,
    _converted,
    parse_quantity,
    quantity_text,
    usual_factor,
    usual_unit,
)
from protocols.verbs import UNITS

ROOT = Path(__file__).parents[2]
parse_quantity("1 inch", "mm")  # pint begins here, and not in the first example of a property, which has a deadline

SCALES: dict[str, dict[str, float]] = {  # inner unit -> written unit -> its size in the inner unit
    "uL": {"uL": 1, "µL": 1, "mL": 1e3, "ml": 1e3, "L": 1e6, "nL": 1e-3},
    "uL/min": {"uL/min": 1, "mL/min": 1e3, "mL/h": 1e3 / 60, "uL/s": 60, "L/d": 1e6 / 1440},
    "mL/min": {"mL/min": 1, "L/min": 1e3, "uL/min": 1e-3},
    "kPa": {"kPa": 1, "Pa": 1e-3, "mbar": 0.1, "bar": 100, "psi": 6.894757293168361},
    "s": {"s": 1, "ms": 1e-3, "min": 60, "h": 3600, "d": 86400},
    "mmol/L": {"mmol/L": 1, "mM": 1, "uM": 1e-3, "mol/L": 1e3, "mol/m^3": 1},
    "mOsm/kg": {"mOsm/kg": 1, "Osm/kg": 1e3},
    "%": {"%": 1, "percent": 1},
    "um": {"um": 1, "µm": 1, "nm": 1e-3, "mm": 1e3},
    "Hz": {"Hz": 1, "kHz": 1e3},
}
PAIRS = [(unit, written, scale) for unit, row in SCALES.items() for written, scale in row.items()]
NUMBERS = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False).map(lambda value: round(value, 6))


@given(value=NUMBERS, pair=st.sampled_from(PAIRS), gap=st.sampled_from(["", " ", "  "]))
def test_F6_a_quantity_means_the_same_in_every_unit_of_its_kind(
    value: float, pair: tuple[str, str, float], gap: str
) -> None:
    unit, written, scale = pair
    parsed = parse_quantity(f"{value!r}{gap}{written}", unit)
    assert math.isclose(parsed, value * scale, rel_tol=1e-9, abs_tol=1e-12)


@given(value=NUMBERS, pair=st.sampled_from(PAIRS), unit=st.sampled_from(sorted(SCALES)))
def test_F6_a_quantity_of_another_kind_is_refused(value: float, pair: tuple[str, str, float], unit: str) -> None:
    own, written, _ = pair
    if {own, unit} <= {"uL/min", "mL/min"} or own == unit:
        return
    with pytest.raises(QuantityError, match="not in"):
        parse_quantity(f"{value!r} {written}", unit)


@given(value=NUMBERS, unit=st.sampled_from(sorted(SCALES)))
def test_F6_a_bare_number_is_refused_and_told_how_to_write_it(value: float, unit: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(f"{value!r}", unit)
    assert "has no unit" in str(caught.value)
    assert f"“{value!r} {unit}”" in str(caught.value)


@given(text=st.text(max_size=80))
def test_S3_any_text_is_a_number_or_a_plain_refusal(text: str) -> None:
    try:
        answer: object = parse_quantity(text, "uL/min")
    except QuantityError as error:
        answer = str(error)
    assert math.isfinite(answer) if isinstance(answer, float) else "; " in str(answer)


@pytest.mark.parametrize("text", ["9**9**9 mL", "10^100000000 mL", "1e9999 mL", "1 mL^999999999", "(" * 60 + "1 mL"])
def test_S3_nothing_in_a_text_is_calculated(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text, "uL")


@given(value=st.floats(min_value=1e-3, max_value=1e9), unit=st.sampled_from(["uL", "uL/min", "kPa", "degC", "%", "s"]))
def test_what_is_shown_can_be_written_back(value: float, unit: str) -> None:
    assert math.isclose(parse_quantity(quantity_text(value, unit), unit), value, rel_tol=1e-5)


@pytest.mark.parametrize(
    ("text", "celsius"), [("37 degC", 37.0), ("37 °C", 37.0), ("98.6 degF", 37.0), ("310.15 K", 37.0)]
)
def test_temperatures(text: str, celsius: float) -> None:
    assert parse_quantity(text, "degC") == pytest.approx(celsius)


def test_the_same_amount_is_the_same_number() -> None:
    assert parse_quantity("0.04 L", "uL") == parse_quantity("40 mL", "uL") == 40000.0


def test_amounts_are_shown_in_the_size_people_use() -> None:
    assert quantity_text(40_000, "uL") == "40 mL"
    assert quantity_text(300, "uL/min") == "300 uL/min"


@pytest.mark.parametrize(
    ("unit", "written", "factor"), [(unit, *item) for unit, known in USUAL.items() for item in known.items()]
)
def test_usual_units_are_what_pint_says(unit: str, written: str, factor: float) -> None:
    for number in (0.0, 1.0, -2.5, 0.3, 1234.5678, 9.99e9):
        text = f"{number!r} {written}"
        assert parse_quantity(text, unit) == float(f"{_converted(number, written, text, unit):.12g}")
    assert usual_factor(written, unit) == factor
    assert usual_unit(f"3 {written}", (unit,)) == unit


@pytest.mark.parametrize("text", ["40 %", "3 mL", "2 furlong", "1 h", "5", "x", "7 d", "2 mL/min", "1 inch" * 20])
def test_the_usual_unit_is_the_only_one_of_its_kind_in_recipes(text: str) -> None:
    fits = []
    for unit in UNITS:
        with contextlib.suppress(QuantityError):
            parse_quantity(text, unit)
            fits.append(unit)
    usual = usual_unit(text, UNITS)
    assert fits == ([usual] if usual else [])


def test_what_is_shipped_is_read_without_pint() -> None:
    code = (
        "import sys; from pathlib import Path; from controller.recipes.catalogue import shipped;"
        "from controller.rig.loading import load_rig;"
        "[load_rig(path) for path in Path('examples/rigs').glob('*.yaml')]; shipped(); print('pint' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
