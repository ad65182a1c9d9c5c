"""Every shipped rig under `choroid lab serve` and `choroid run`, with all its parts: devices, camera, electrode array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.rig.description import Rig
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from tests.processes import Bench, until

RIGS = sorted((Path(__file__).resolve().parents[2] / "examples" / "rigs").glob("*.yaml"))


def silent(rig: Rig, bench: Bench) -> set[str]:
    """Return the parts of a rig that have not delivered anything yet."""
    state = bench.get("/api/state")
    readings: dict[str, Any] = state["readings"]
    delivered = {point.partition(".")[0] for point, each in readings.items() if each["quality"] == "good"}
    delivered |= {name.partition(".")[0] for name, each in state["actuators"].items() if each["status"]}
    parts = {name for name, device in rig.devices.items() if MODELS[device.model].model.kind != "analyser"}
    parts |= set(rig.cameras)
    if rig.nerves is not None and "nerves" not in delivered:
        parts.add("nerves")
    return parts - delivered


def lost(bench: Bench) -> list[str]:
    """Return what is lost at present; on a busy machine the array may come later than its alarm."""
    alarms = bench.get("/api/alarms")["alarms"]
    present = [each for each in alarms if each["state"] in ("unacknowledged", "acknowledged")]
    return [each["source"] for each in present if each["kind"] in ("device_lost", "camera_lost")]


@pytest.mark.long
@pytest.mark.parametrize("path", RIGS, ids=lambda path: path.stem)
def test_every_part_of_a_shipped_rig_delivers_on_the_served_laboratory(path: Path, tmp_path: Path) -> None:
    rig = load_rig(path)
    bench = Bench(tmp_path, path, array=True)
    try:
        bench.run()
        try:
            until(lambda: not silent(rig, bench), "every part has delivered", seconds=180.0)
        except BaseException:
            print(silent(rig, bench), bench.get("/api/alarms"))
            raise
        if rig.cameras:
            cameras = bench.get("/api/images")["cameras"]
            assert [(each["camera"], each["frames"] > 0, each["problem"]) for each in cameras] == [
                (name, True, "") for name in rig.cameras
            ]
        until(lambda: not lost(bench), "nothing is lost", seconds=180.0)
    finally:
        bench.end()
