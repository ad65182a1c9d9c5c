"""The JSON schema of rig files, checked by an independent validator: editors accept what loading accepts."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from choroid.cli import main
from controller.rig.quantities import QuantityError, parse_quantity
from controller.rig.schema import UNITS, quantity
from tests.protocols import make_schema
from tests.rig.test_mistakes import MISTAKES, TEXT, changed

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "examples" / "rigs").glob("*.yaml"))
VALIDATOR = jsonschema.Draft202012Validator(json.loads(make_schema.RIG.read_text(encoding="utf-8")))

FORM = {
    "misspelt key", "unknown key", "no unit", "other unit", "coulombs", "metres", "megalitres", "decimal comma",
    "negative", "kind", "list forgotten", "number for text", "half an electrode", "a name with a path",
    "unknown card", "a wild native name", "other version", "a broker with a scheme", "a database without a scheme",
    "wild topic",
}  # fmt: skip
"""Mistakes in the form of a file. Those in its meaning, such as unknown names, only `choroid check` sees."""


def data_of(text: str) -> Any:
    """Return a file as the data that an editor has: dates are text."""
    return json.loads(json.dumps(yaml.safe_load(text), default=date.isoformat))


def refusals(text: str) -> list[tuple[str, ...]]:
    """Return the places that the schema refuses."""
    return [tuple(map(str, error.absolute_path)) for error in VALIDATOR.iter_errors(data_of(text))]


def test_it_is_a_schema_and_up_to_date() -> None:
    VALIDATOR.check_schema(VALIDATOR.schema)
    assert make_schema.RIG.read_text(encoding="utf-8") == make_schema.rig_text(), (
        "run `python -m tests.protocols.make_schema`"
    )


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["check", "--schema"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == make_schema.RIG.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_rigs_of_this_repository_are_sound(path: Path) -> None:
    assert refusals(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "mistake", [mistake for mistake in MISTAKES if mistake[0] in FORM], ids=lambda mistake: mistake[0]
)
def test_a_mistake_in_the_form_is_refused_at_its_place(mistake: tuple[str, ...]) -> None:
    _, old, new, key, _, _ = mistake
    found = refusals(changed((old, new)))
    keys = tuple(key.split(".")) if "/" not in key else ("devices",)
    assert any(keys[: len(place)] == place for place in found), found


def test_the_mistakes_in_the_form_are_among_those_that_are_tested() -> None:
    assert {mistake[0] for mistake in MISTAKES} >= FORM
    assert len(FORM) > 15


@pytest.mark.parametrize("unit", UNITS)
def test_each_quantity_of_the_schema_is_one_of_the_reader(unit: str) -> None:
    pattern = str(quantity(unit, signed=True)["pattern"])

    @settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.from_regex(pattern, fullmatch=True).filter(lambda text: len(text) <= 40))
    def read(text: str) -> None:
        try:
            parse_quantity(text, unit)
        except QuantityError as error:
            if "billionth" not in str(error):  # a size of next to nothing is refused for its size, not for its form
                raise

    read()


@pytest.mark.parametrize(
    ("unit", "text"),
    [("uL", "40 mL"), ("uL", "1e3µL"), ("uL/min", "2 mL/min"), ("degC", "37 °C"), ("degC", "-20 degC"), ("s", "30 d"),
     ("cm^2", "4 cm^2"), ("mOsm/kg", "285 mOsm/kg"), ("kPa", "3.45 bar"), ("mmol/L", "21 mM"), ("kDa", "10 kDa")],
)  # fmt: skip
def test_usual_quantities_are_accepted(unit: str, text: str) -> None:
    assert jsonschema.Draft202012Validator(quantity(unit, signed=True)).is_valid(text)


def merged(data: Any, more: Any) -> Any:
    """Return data with the keys of `more` added or replaced, at any depth."""
    if not (isinstance(data, dict) and isinstance(more, dict)):
        return more
    return data | {key: merged(data.get(key), value) for key, value in more.items()}


def examples() -> list[str]:
    """Return the examples in docs/rig.md."""
    page = (ROOT / "docs" / "rig.md").read_text(encoding="utf-8")
    return re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", examples(), ids=lambda text: " ".join(text.split()[:2]))
def test_the_examples_of_the_docs_fit_into_a_rig(example: str) -> None:
    data = data_of(TEXT)
    if "hearts" in example:
        del data["organs"]["heart"]
    errors = [error.message for error in VALIDATOR.iter_errors(merged(data, data_of(example)))]
    assert errors == []


PLATE = """
plates:
  plate: {wells: 24, volume: 1 mL, capacity: 2 mL, contains: fresh}
"""


@pytest.mark.parametrize(
    ("old", "new", "sound"),
    [
        ("", "", True),
        ("  chamber:\n    count", "  plate: {count: 1, diameter: 2 mm, age: 30 d}\n  plate-B2: null\n"
         "  plate-B3: {batch: K7}\n  chamber:\n    count", True),
        ("wells: 24", "wells: 25", False),
        ("wells: 24", "wells: 2x3, except: [A1, B2:B3]", True),
        ("wells: 24", "wells: [Q1]", False),
        ("wells: 24, ", "", False),
        ("wells: 24", "wells: 24, colour: red", False),
        ("volume: 1 mL, capacity: 2", "volume: 1, capacity: 2", False),
        ("  heart:\n    line", "  hearts: {}\n  heart:\n    line", False),
        ("  heart:\n    line", "  heart: null\n  kidneys:\n    line", False),
    ],
)  # fmt: skip
def test_plates_and_the_only_heart(old: str, new: str, sound: bool) -> None:
    text = TEXT + PLATE
    assert old in text
    assert (refusals(text.replace(old, new, 1)) == []) is sound


def test_hearts_by_name() -> None:
    data = data_of(TEXT)
    data["organs"]["hearts"] = {"left": data["organs"].pop("heart")}
    assert VALIDATOR.is_valid(data)
    data["organs"]["hearts"]["left"]["colour"] = "red"
    assert not VALIDATOR.is_valid(data)


def test_a_rig_of_plates_only_needs_no_vessels() -> None:
    data = data_of(TEXT + PLATE)
    del data["vessels"]
    assert VALIDATOR.is_valid(data)
    del data["plates"]
    assert not VALIDATOR.is_valid(data)
