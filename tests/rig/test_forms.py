"""The short form of one heart is the same rig with the same hash, and is reported at its own keys."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from choroid.common.examples import bench_rig
from controller.rig.loading import effective_hash, load_rig
from controller.rig.problems import RigError

BENCH = bench_rig()


def test_both_forms_of_one_heart_are_equal(tmp_path: Path) -> None:
    data = yaml.safe_load(BENCH.read_text(encoding="utf-8"))
    data["organs"]["hearts"] = {"heart": data["organs"].pop("heart")}
    path = tmp_path / "rig.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    assert load_rig(path) == load_rig(BENCH)
    assert effective_hash(load_rig(path)) == effective_hash(load_rig(BENCH))


def test_a_finding_stands_at_the_key_of_the_file(tmp_path: Path) -> None:
    text = BENCH.read_text(encoding="utf-8")
    old = "    basal: 1.6 mL/min"
    assert old in text
    path = tmp_path / "rig.yaml"
    path.write_text(text.replace(old, "    basal: 1.6 mL", 1), encoding="utf-8")
    with pytest.raises(RigError) as caught:
        load_rig(path)
    (found,) = caught.value.problems
    assert found.key == "organs.heart.basal"
    assert "uL/min" in found.fix
    assert path.read_text(encoding="utf-8").splitlines()[found.line - 1].strip().startswith("basal")


def test_both_forms_in_one_file_are_an_error(tmp_path: Path) -> None:
    data = yaml.safe_load(BENCH.read_text(encoding="utf-8"))
    data["organs"]["hearts"] = {"left": dict(data["organs"]["heart"])}
    path = tmp_path / "rig.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    with pytest.raises(RigError, match="stands next to “hearts”"):
        load_rig(path)
