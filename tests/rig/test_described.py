"""A device description is read relative to the rig file, in any working directory, and is part of the rig."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from choroid.simulation.lab import pointing_at
from controller.rig.loading import effective_hash, load_rig
from controller.rig.problems import RigError
from drivers.modbus_generic_reader import describe

ROOT = Path(__file__).parents[2]
PROBE = (ROOT / "examples" / "devices" / "co2-probe.yaml").read_text(encoding="utf-8")


def rig_naming(folder: Path, **settings: str) -> Path:
    data = yaml.safe_load((ROOT / "examples" / "rigs" / "bench.yaml").read_text(encoding="utf-8"))
    data["devices"]["co2"] = {"model": "modbus-generic", "link": "sim:co2", "every": "10 s", "settings": settings}
    path = folder / "rig.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def test_a_relative_file_is_seen_from_the_rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "probes").mkdir()
    (tmp_path / "probes" / "co2.yaml").write_text(PROBE, encoding="utf-8")
    path = rig_naming(tmp_path, file="probes/co2.yaml")
    monkeypatch.chdir(ROOT)
    rig = load_rig(path)
    assert describe("co2", rig.devices["co2"].settings).points
    before = effective_hash(rig)
    (tmp_path / "probes" / "co2.yaml").write_text(PROBE.replace("co2", "CO2"), encoding="utf-8")
    assert effective_hash(load_rig(path)) != before


def test_a_rig_written_elsewhere_still_finds_it(tmp_path: Path) -> None:
    (tmp_path / "co2.yaml").write_text(PROBE, encoding="utf-8")
    served = tmp_path / "elsewhere" / "served.yaml"
    served.parent.mkdir()
    path = rig_naming(tmp_path, file="co2.yaml")
    links = {device.link for device in load_rig(path).devices.values()}
    served.write_text(pointing_at(path, {link: f"tcp://127.0.0.1:{4001 + n}" for n, link in enumerate(sorted(links))}))
    assert "CO2" in str(load_rig(served).devices["co2"].settings["description"])


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"file": "no.yaml"}, "no.yaml cannot be read"),
        ({"file": "a.yaml", "description": "b"}, "Leave one of the two out"),
    ],
)
def test_what_cannot_be_read_is_told_with_file_and_line(settings: dict[str, str], what: str, tmp_path: Path) -> None:
    with pytest.raises(RigError, match=r"rig.yaml:\d+: devices.co2.settings.file: .*" + what):
        load_rig(rig_naming(tmp_path, **settings))
