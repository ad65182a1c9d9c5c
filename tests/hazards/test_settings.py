"""Settings that a driver refuses are reported by the check of the rig, with line and fix, and not only by its run."""

from __future__ import annotations

from pathlib import Path

import pytest

from choroid.common.examples import bench_rig
from choroid.rig_file.check import check_rig
from controller.hazards.loading import load_checked_rig
from controller.rig.problems import RigError
from drivers.registry import MODELS

TWO_PLATES = Path(__file__).parents[1] / "rigs" / "two_plates.yaml"


@pytest.mark.parametrize(
    ("rig", "old", "new", "key", "what", "fix"),
    [
        (bench_rig(), "full_scale_ml_min: 200", "full_scal_ml_min: 200", "devices.gas_air.settings", "full_scal_ml_min",
         "full_scale_ml_min"),
        (bench_rig(), "settings: {tare_g: 0}", "settings: {tare_g: many}", "devices.balance.settings", "tare_g", "number"),
        (TWO_PLATES, "series: \"530\", ", "", "devices.pump.settings", "series is missing", "530"),
    ],
)  # fmt: skip
def test_a_setting_that_a_driver_refuses_is_told(
    tmp_path: Path, rig: Path, old: str, new: str, key: str, what: str, fix: str
) -> None:
    text = rig.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "rig.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(RigError) as caught:
        load_checked_rig(path, models=MODELS)
    (problem,) = caught.value.problems
    assert problem.key == key
    assert what in problem.what
    assert fix in problem.fix
    assert key.split(".")[1] in path.read_text(encoding="utf-8").splitlines()[problem.line - 1]
    assert [each["key"] for each in check_rig(path)["problems"]] == [problem.key]
