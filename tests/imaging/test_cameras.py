"""Every camera passes the same test: the simulated one, Micro-Manager's demo camera, Basler's emulator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pytest

from drivers.cameras.camera import CameraError, CameraIdentity, Greys
from drivers.cameras.conformance import examine
from drivers.cameras.registry import open_camera
from sim.camera.camera import SimulatedCamera
from sim.camera.scene import CameraField, TissueInView

EXAMINE = """
import json, os, sys
from drivers.cameras.conformance import examine
from drivers.cameras.registry import open_camera
model, settings, exposure = json.loads(sys.argv[1])
print(json.dumps(examine(lambda: open_camera(model, settings), follows_exposure=exposure)), flush=True)
os._exit(0)
"""


def _examined(model: str, settings: Mapping[str, object], *, follows_exposure: bool) -> list[str]:
    """Examine a camera in a process of its own, as it is used: a maker's library may end its process."""
    words = [sys.executable, "-c", EXAMINE, json.dumps([model, settings, follows_exposure])]
    env = os.environ | {"PYLON_CAMEMU": "1"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, env=env, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.needs_module("skimage", "imaging")
def test_the_simulated_camera_conforms() -> None:
    from choroid.cameras.simulated import SimulatedDriver

    look = TissueInView(1.5, form=2)
    assert examine(lambda: SimulatedDriver(SimulatedCamera(lambda: look, CameraField(128, 96, 20.0), seed=4))) == []


@pytest.mark.needs_module("pymmcore_plus", "micromanager")
@pytest.mark.needs_module("mm_test_adapters", "dev")
def test_the_demo_camera_of_micro_manager_conforms() -> None:
    import mm_test_adapters

    adapters = str(mm_test_adapters.device_adapter_path())
    settings = {"library": "DemoCamera", "device": "DCam", "adapters": adapters, "PixelType": "16bit"}
    assert _examined("micromanager", settings, follows_exposure=True) == []


@pytest.mark.needs_module("pypylon", "pylon")
def test_the_emulator_of_basler_conforms() -> None:
    assert _examined("pylon", {}, follows_exposure=False) == []


def test_an_unknown_camera_names_the_known_ones() -> None:
    with pytest.raises(CameraError, match="micromanager, pylon"):
        open_camera("polaroid", {})


class _Bad:
    """A camera that does all of it wrong."""

    identity = CameraIdentity("")
    bits = 4
    frame = np.full((4, 4), 200, np.uint8)

    def capture(self, exposure_s: float) -> Greys:
        return self.frame

    def close(self) -> None:
        pass


def test_the_examination_sees_each_defect() -> None:
    wrong = " ".join(examine(_Bad))
    for part in ("model", "does not fit", "overwrites", "not brighter", "exposure of nan", "after it was closed"):
        assert part in wrong
