"""Rig format 1 is read as format 2, keeps its hash, and is reported at its own keys."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from choroid.common.examples import bench_rig
from controller.rig.loading import effective_hash, load_rig
from controller.rig.problems import RigError

BENCH = bench_rig()
FORMER = Path(__file__).parent / "format_1.yaml"


def test_format_1_and_format_2_of_one_rig_are_equal(tmp_path: Path) -> None:
    data = yaml.safe_load(BENCH.read_text(encoding="utf-8"))
    assert (data["choroid"], yaml.safe_load(FORMER.read_text(encoding="utf-8"))["choroid"]) == (2, 1)
    data["organs"]["hearts"] = {"heart": data["organs"].pop("heart")}
    path = tmp_path / "rig.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    assert load_rig(path) == load_rig(BENCH) == load_rig(FORMER)
    assert effective_hash(load_rig(path)) == effective_hash(load_rig(BENCH)) == effective_hash(load_rig(FORMER))


@pytest.mark.parametrize(
    ("old", "new", "key", "fix"),
    [
        ("organoid:", "organoidd:", "organoidd", "Did you mean “organoid”?"),
        ("  chamber: chamber", "", "organoid.chamber", "of kind"),
        ("  chamber: chamber", "  chamber: chambre", "organoid.chamber", "Did you mean “chamber”?"),
        ("  count: 16", "  count: 0", "organoid.count", "at least 1"),
        ("organoid:", "tissue: {}\norganoid:", "organoid", "choroid convert"),
        ("choroid: 1", "choroid: 2", "organoid", "tissue"),
        ("    basal: 1 mL/min", "    basal: 1 mL", "organs.heart.basal", "uL/min"),
    ],
)
def test_findings_stand_at_the_keys_of_the_file(tmp_path: Path, old: str, new: str, key: str, fix: str) -> None:
    text = FORMER.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "rig.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(RigError) as caught:
        load_rig(path)
    found = {problem.key: problem for problem in caught.value.problems}
    assert key in found, str(caught.value)
    assert fix in found[key].fix
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[found[key].line - 1].strip().startswith(("organoid", key.rpartition(".")[2]))
