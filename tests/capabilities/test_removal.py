"""Whatever is removed from a shipped rig, what is left is a smaller rig, or is refused with its reason."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import yaml

from controller.hazards.loading import load_checked_rig
from drivers.registry import MODELS
from tests.capabilities.removal import Smaller, parts, smaller

RIGS = sorted((Path(__file__).resolve().parents[2] / "examples" / "rigs").glob("*.yaml"))
COMPULSORY = "tissue"
"""A rig has tissue; without the last chamber that has some, the file is refused with this place."""
PAIRS = int(os.environ.get("CHOROID_TEST_PAIRS", "40"))
"""Random pairs of each rig; `CHOROID_TEST_PAIRS=500 pytest tests/capabilities/test_removal.py` tries more."""


def judged(found: Smaller) -> str:
    """Return `smaller`, or why it is refused: `compulsory` for an absent part that every rig has, else `hazard`."""
    if found.rig is not None:
        return "smaller"
    assert found.problems, found.removed
    for problem in found.problems:
        assert problem.fix, problem
        assert problem.line > 0, problem
    keys = {problem.key for problem in found.problems}
    return "compulsory" if COMPULSORY in keys else "hazard"


@pytest.mark.long
@pytest.mark.parametrize("path", RIGS, ids=[path.stem for path in RIGS])
def test_each_part_and_random_pairs_may_be_absent(path: Path, tmp_path: Path) -> None:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    every = list(parts(data))
    both = [(one, other) for one in every for other in every if one < other]
    pairs = random.Random(16).sample(both, min(PAIRS, len(both)))
    verdicts = {places: judged(smaller(data, places, tmp_path)) for places in [*((one,) for one in every), *pairs]}
    last = len(data["tissue"]) == 1
    found = {"smaller", *(("hazard",) if data.get("lines") else ()), *(("compulsory",) if last else ())}
    assert found <= set(verdicts.values()) <= {"smaller", "hazard", "compulsory"}
    if "gut" in data.get("organs", {}):
        assert verdicts["organs.gut",] == "smaller"
    assert all(verdicts[f"tissue.{name}",] == ("compulsory" if last else "smaller") for name in data["tissue"])


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("devices.t_chamber", "nothing keeps the chamber warm"),
        ("devices.gas_co2", "in 0.04 % CO2 this medium takes pH"),
        ("devices.p_heart", "no interlock answers the hazard over_pressure_heart"),
        ("devices.p_filter", "no interlock answers the hazard over_pressure_return"),
        ("devices.relay.channels.0", "nothing keeps the chamber warm"),
        ("organs.heart", "it is at rest: through 6.0 mm of medium"),
        ("organs.liver", "“base” holds 0 mM of glucose, and tissue lives on it"),
        ("organs.kidney", "no interlock answers the hazard over_pressure_return"),
    ],
)
def test_a_part_that_a_hazard_needs_is_missed_by_the_hazards_name(place: str, says: str, tmp_path: Path) -> None:
    bench = next(path for path in RIGS if path.stem == "bench")
    found = smaller(yaml.safe_load(bench.read_text(encoding="utf-8")), (place,), tmp_path)
    assert any(says in problem.what for problem in found.problems), found.problems


def test_what_is_left_of_a_rig_lacks_more_functions_than_the_whole(tmp_path: Path) -> None:
    bench = next(path for path in RIGS if path.stem == "bench")
    data = yaml.safe_load(bench.read_text(encoding="utf-8"))
    whole = smaller(data, (), tmp_path)
    assert whole.rig == load_checked_rig(bench, models=MODELS)
    without = smaller(data, ("devices.dose_fresh",), tmp_path)
    assert without.lacks - whole.lacks == {"fresh_medium"}
    assert without.removed == ("devices.dose_fresh", "lines.feed", "organs.gut", "vessels.reservoir")


def test_each_part_of_a_rig_without_a_kidney_may_be_absent(tmp_path: Path) -> None:
    """Its bottle, branches and plates: what is left is judged by what feeds the tissue that remains."""
    path = Path(__file__).resolve().parents[1] / "rigs" / "two_plates.yaml"
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    every = list(parts(data))
    pairs = [(one, other) for one in every for other in every if one < other]
    verdicts = {places: judged(smaller(data, places, tmp_path)) for places in [*((one,) for one in every), *pairs]}
    assert verdicts["devices.ph",] == verdicts["devices.balance",] == verdicts["tissue.plate_a",] == "smaller"
    assert verdicts["devices.pump",] == "hazard", "without a pump a person feeds, and none has signed for that"
    assert verdicts["tissue.plate_a", "tissue.plate_b"] == "compulsory"
