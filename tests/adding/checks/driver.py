"""Run in the copy: the added driver is part of a rig in the simulated laboratory."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.rig.loading import load_rig
from drivers.device import DeviceConfig
from drivers.registry import MODELS, build, open_link
from sim.lab import SimulatedLab

RIG = """
  acme: {model: acme-therm, link: "sim:acme", every: 5 s}
"""
BENCH = Path(__file__).resolve().parents[3] / "examples" / "rigs" / "bench.yaml"


@pytest.mark.virtual_time
async def test_acme_reads_the_chamber_of_a_simulated_laboratory(tmp_path: Path) -> None:
    text = BENCH.read_text(encoding="utf-8").replace("\ndevices:\n", f"\ndevices:{RIG}", 1)
    path = tmp_path / "rig.yaml"
    path.write_text(text, encoding="utf-8")
    rig = load_rig(path, models=MODELS)
    lab = SimulatedLab(rig, seed=1)
    link = open_link("sim:acme", ["acme-therm"], lab.opener)
    device = build("acme-therm", link, DeviceConfig("acme"))
    assert await link.start() == {}
    assert 15.0 < await device.sensors["temperature"].read() < 40.0
    await link.close()
    await lab.close()
