"""Former names of rig keys: an old file opens as the same rig, and a file with both names is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.rig.former import FORMER_KEYS
from controller.rig.keys import known_keys
from controller.rig.loading import effective_hash, load_rig
from controller.rig.problems import Problem, RigError

BENCH = Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml"
FORMER = "least_pressure"  # wording: former name


def rig_file(folder: Path, keys: str) -> Path:
    """Write the bench rig with further keys of its filter."""
    text = BENCH.read_text(encoding="utf-8")
    assert "max_pressure: 80 kPa" in text
    path = folder / "rig.yaml"
    path.write_text(text.replace("max_pressure: 80 kPa", f"max_pressure: 80 kPa, {keys}", 1), encoding="utf-8")
    return path


def problem(path: Path) -> Problem:
    with pytest.raises(RigError) as caught:
        load_rig(path)
    (only,) = caught.value.problems
    lines = path.read_text(encoding="utf-8").splitlines()
    assert "max_pressure: 80 kPa" in lines[only.line - 1], "the problem names another line"
    return only


def test_an_old_file_opens_as_the_same_rig(tmp_path: Path) -> None:
    old = load_rig(rig_file(tmp_path, f"{FORMER}: 4 kPa"))
    new = load_rig(rig_file(tmp_path, "min_pressure: 4 kPa"))
    assert old == new
    assert new.filters["sterile"].min_pressure_kpa == 4.0
    assert effective_hash(old) == effective_hash(new) != effective_hash(load_rig(BENCH))


def test_D7_the_hash_of_a_rig_does_not_depend_on_the_release(tmp_path: Path) -> None:
    """The text that is hashed has the former name, as in the releases before."""
    rig = load_rig(rig_file(tmp_path, "min_pressure: 4 kPa"))
    text = rig.model_dump_json(by_alias=True)
    assert f'"{FORMER}":4.0' in text
    assert "min_pressure" not in text


def test_both_names_are_one_error(tmp_path: Path) -> None:
    found = problem(rig_file(tmp_path, f"min_pressure: 4 kPa, {FORMER}: 5 kPa"))
    assert found.key == f"filters.sterile.{FORMER}"
    assert found.what == f"“{FORMER}” is the former name of “min_pressure”, and both are given"
    assert found.fix == f"Remove “{FORMER}”"


@pytest.mark.parametrize(("value", "what"), [("-1 kPa", "out of range"), ("4", "has no unit"), ("4 mL", "not in kPa")])
def test_a_mistake_under_a_former_name_is_reported_with_its_line(tmp_path: Path, value: str, what: str) -> None:
    found = problem(rig_file(tmp_path, f"{FORMER}: {value}"))
    assert found.key == "filters.sterile.min_pressure"
    assert what in found.what


@pytest.mark.parametrize("filters", ["filters: null", "filters: []", "filters: {sterile: 3}"])
def test_a_section_of_another_form_is_left_to_the_validation(tmp_path: Path, filters: str) -> None:
    text = BENCH.read_text(encoding="utf-8")
    begin = text.index("\nfilters:") + 1
    end = text.index("\nlines:") + 1
    path = tmp_path / "rig.yaml"
    path.write_text(f"{text[:begin]}{filters}\n{text[end:]}", encoding="utf-8")
    with pytest.raises(RigError, match=r"filters"):
        load_rig(path)


@pytest.mark.parametrize(("place", "present"), FORMER_KEYS.items())
def test_each_former_key_has_a_present_one(place: tuple[str, ...], present: str) -> None:
    keys = known_keys(place[:-1])
    assert present in keys
    assert place[-1] not in keys
