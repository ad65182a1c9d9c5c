"""Each source of liquid and each part is judged against what the rig needs; unsafe mutants of shipped rigs are found (Q5)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from choroid.rig_file.check import check_rig
from controller.hazards import fluids, parts, table
from tests.hazards.files import problems_of_data
from tests.rigs.unsafe import SHIPPED, UnsafeRig, judge, main, sample, unsafe_rigs

BENCH = next(path for path in SHIPPED if path.stem == "bench")


def mutant(name: str, path: Path = BENCH) -> UnsafeRig:
    return next(each for each in unsafe_rigs(path) if each.name == name)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("fresh: osmolality 900 mOsm/kg", "media.fresh.osmolality"),
        ("base_stock: bicarbonate 1000 mM, osmolality 290 mOsm/kg", "media.base_stock.osmolality"),
        ("base_stock: bicarbonate 1000 mM, osmolality 2000 mOsm/kg", "organs.liver.base"),
        ("glucose and base: content exchanged", "organs.liver.glucose"),
        ("glucose and base: tubes exchanged", "organs.liver.glucose"),
        ("reservoir and glucose: content exchanged", "organs.liver.glucose"),
        ("gas into spent", "organs.lung.vessel"),
        ("gas into chamber", "organs.lung.vessel"),
        ("sterile with pores of 20 um", "filters.sterile.pore"),
        ("sterile in draw as well", "lines.return.filter"),
        ("straw of draw above the level", "lines.draw.draws_above"),
        ("base_stock: bicarbonate 1000 mM, osmolality 500 mOsm/kg", "media.base_stock.osmolality"),
        ("glucose_stock: bicarbonate 0 mM", "organs.liver.glucose"),
        ("heater of 15 mW", "organs.skin.power"),
        ("reglo 1 with tubing of 3.16 mm", "devices.reglo.channels.1.tubing"),
        ("overflow of chamber 10 uL below the brim", "vessels.chamber.overflow"),
    ],
)
def test_Q5_an_unsafe_rig_is_refused_at_its_line(tmp_path: Path, name: str, key: str) -> None:
    data = mutant(name).data

    def spoil(into: dict[str, Any]) -> None:
        into.clear()
        into.update(data)

    found = problems_of_data(tmp_path, spoil)
    assert key in [problem.key for problem in found], [str(problem) for problem in found]
    assert all(problem.fix for problem in found)


@pytest.mark.parametrize(
    ("rig", "name", "key"),
    [
        ("straw_vial", "straw of extract above the level", "lines.extract.draws_above"),
        ("bench_dialysis", "reservoir and basal: content exchanged", "organs.gut.feed"),
        ("bench_dialysis", "reservoir and basal: tubes exchanged", "organs.gut.feed"),
        ("skimmed_plates", "maturation: glucose 0 mM", "media.maturation.glucose"),
        ("skimmed_plates", "maturation: bicarbonate 0 mM", "media.maturation.bicarbonate"),
        ("skimmed_plates", "maturation: bicarbonate 1000 mM, osmolality 290 mOsm/kg", "media.maturation.osmolality"),
    ],
)
def test_Q5_unsafe_bottles_and_straws_of_other_rigs_are_refused(tmp_path: Path, rig: str, name: str, key: str) -> None:
    path = next(path for path in SHIPPED if path.stem == rig)
    file = tmp_path / "rig.yaml"
    file.write_text(json.dumps(mutant(name, path).data), encoding="utf-8")
    assert key in [problem["key"] for problem in check_rig(file)["problems"]]


def test_a_sample_of_mutants_is_that_of_its_seed_and_has_each_rig_and_kind_before_one_twice() -> None:
    every = [each for path in SHIPPED[:2] for each in unsafe_rigs(path)]
    strata = {(each.rig, each.kind) for each in every}
    drawn = sample(every, len(strata) + 1, seed=3)
    assert {(each.rig, each.kind) for each in drawn[:-1]} == strata
    assert drawn == sample(every, len(strata) + 1, seed=3) != sample(every, len(strata) + 1, seed=4)


@pytest.mark.long
def test_Q5_of_a_sample_of_mutants_none_is_called_sound_but_those_shown_harmless(tmp_path: Path) -> None:
    """`make test-long` checks all of them; those named here are harmless by simulation (`python -m tests.rigs.unsafe`)."""
    every = [each for path in SHIPPED for each in unsafe_rigs(path)]
    assert len(every) >= 300
    shown = (
        "with a tare of",
        "base_stock: osmolality 500",
        "straw of extract above",
        "growth_bottle and maturation_bottle",
    )
    sample = [each for each in random.Random(27).sample(every, 60) if not any(words in each.name for words in shown)]
    assert len(sample) > 50
    assert [f"{each.rig.stem}: {each.name}" for each in sample if judge_static(each, tmp_path) == "sound"] == []


@pytest.mark.long
def test_Q5_a_tare_that_is_wrong_is_harmless_because_the_ledger_weighs_the_glass() -> None:
    outcome, why = judge(mutant("balance with a tare of 100 g"), hours=1.0)
    assert (outcome, why[:9]) == ("harmless", "viability")


@pytest.mark.long
def test_Q5_the_generator_finds_a_rule_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    each = mutant("fresh: osmolality 900 mOsm/kg")
    assert judge(each)[0] == "refused"
    outcome, why = judge(each, hours=1.0, without="liquid")
    assert outcome == "harmful"
    assert "chamber: osmolality" in why
    assert main(["bench", "--kind", "heater"]) == 0
    assert "refused" in capsys.readouterr().out


@pytest.mark.long
def test_Q5_the_generator_finds_a_filter_that_lets_bacteria_pass() -> None:
    outcome, why = judge(mutant("sterile with pores of 20 um"), without="filter_not_sterile")
    assert (outcome, why) == ("harmful", "chamber: microbes")


def judge_static(each: UnsafeRig, folder: Path) -> str:
    """Judge without a simulation."""
    file = folder / "rig.yaml"
    file.write_text(json.dumps(each.data), encoding="utf-8")
    return "refused" if not check_rig(file)["ok"] else "sound"


@pytest.mark.parametrize("removed", [fluids, parts])
def test_J1_each_check_carries_mutants_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: Any
) -> None:
    names = {
        fluids: "base_stock: bicarbonate 1000 mM, osmolality 290 mOsm/kg",
        parts: "sterile with pores of 20 um",
    }
    each = mutant(names[removed])
    assert judge_static(each, tmp_path) == "refused"
    monkeypatch.setattr(table, "SUBJECTS", tuple(part for part in table.SUBJECTS if part is not removed))
    assert judge_static(each, tmp_path) == "sound"
