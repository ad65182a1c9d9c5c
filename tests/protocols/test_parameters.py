"""Parameters carry units and ranges; protocols are found by name and loaded by path."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.recipes.parameters import parse_params
from controller.rig.quantities import QuantityError
from protocols.parameters import ParamError
from protocols.registry import PROTOCOLS, UnknownProtocol, get
from tests.protocols.in_process import load

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "protocols" / "gentle_exchange.py"


def test_defaults_are_within_their_ranges() -> None:
    for recipe in PROTOCOLS.values():
        assert set(parse_params(recipe, {})) == {param.key for param in recipe.params}


def test_text_needs_its_unit_and_numbers_are_inner_units() -> None:
    recipe = get("recycle")
    assert parse_params(recipe, {"batch": "12 mL", "every": "6 h", "cycles": "3"}) == {
        "batch_ul": 12_000.0,
        "every_s": 21_600.0,
        "cycles": 3.0,
        "min_batch_ul": 0.0,
        "exceed_pct": 2.0,
        "max_assays": 2,
        "assay_cost_ul": 5_000.0,
        "max_ldh_assays": 3,
        "accepted_loss_pct": 0.0,
        "resumes": 1,
    }
    assert parse_params(recipe, {"batch": 9000.0})["batch_ul"] == 9000.0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"batch": "12"}, "has no unit"),
        ({"batch": "12 mL/min"}, "not in uL"),
        ({"batch": "12 h"}, "not in uL"),
        ({"cycles": "many"}, "not a number"),
    ],
)
def test_F6_units_cannot_be_mixed(given: dict[str, str], says: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_params(get("recycle"), given)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"batch": "1 L"}, "out of range"),
        ({"batch": "-3 mL"}, "out of range"),
        ({"cycles": "nan"}, "out of range"),
        ({"volume": "3 mL"}, "no parameter"),
        ({"volume": 3.0}, "no parameter"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str | float], says: str) -> None:
    with pytest.raises(ParamError, match=says):
        parse_params(get("recycle"), given)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownProtocol, match="exchange, pump-calibration, recycle"):
        get("recykle")


def test_a_protocol_is_loaded_by_path() -> None:
    recipe = load(EXAMPLE)
    assert recipe.name == "gentle-exchange"
    assert recipe.source_sha256 != PROTOCOLS["exchange"].source_sha256
    assert parse_params(recipe, {"volume": "2 mL"})["volume_ul"] == 2000.0


def test_a_file_that_is_no_protocol_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.write_text("NAME = 'x'\n")
    with pytest.raises(UnknownProtocol, match="TITLE, PARAMS, protocol"):
        load(path)


def test_the_source_hash_tells_every_change(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(EXAMPLE.read_text())
    before = load(path).source_sha256
    path.write_text(EXAMPLE.read_text().replace("50.0", "55.0"))
    assert load(path).source_sha256 != before
