"""Each source of liquid and each part is judged against what the rig needs; unsafe mutants of shipped rigs are found (Q5)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from choroid.rig_file.check import check_rig
from controller.hazards import fluids, parts, table
from tests.hazards.files import problems_of_data
from tests.rigs.unsafe import SHIPPED, UnsafeRig, unsafe_rigs

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
