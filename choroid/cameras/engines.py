"""The cameras of a rig: what takes its images, in real time and in a simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from choroid.common.child import python
from choroid.common.extras import load_extra
from choroid.common.failure import UserError
from controller.imaging.engine import CaptureEngine, InlineEngine, WorkerEngine
from controller.rig.description import Rig

if TYPE_CHECKING:
    from sim.lab import SimulatedLab


def real_cameras(rig: Rig) -> CaptureEngine | None:
    """Return what takes the images of a rig in a process of its own; None for a rig without cameras.

    Without the extra `[imaging]` each image fails with what to install: cameras end no rig (B1).
    """
    if not rig.cameras:
        return None
    try:
        _wanted(rig)
    except UserError as error:
        missing = {"error": str(error)}
        return InlineEngine(lambda request: missing)
    return WorkerEngine(python("controller.imaging.worker"))


def simulated_cameras(rig: Rig, lab: SimulatedLab) -> CaptureEngine | None:
    """Return what takes images of a simulated lab in a process of its own; see :func:`real_cameras`."""
    if not _wanted(rig):
        return None
    loop = asyncio.get_running_loop()
    return WorkerEngine(
        python("choroid.cameras.simulated"),
        complete=_scenes(lab),
        pace=lambda: float(getattr(loop, "speed", 1.0)),
    )


def inline_cameras(rig: Rig, lab: SimulatedLab) -> CaptureEngine | None:
    """Return what takes images of a simulated lab at once, for virtual time; see :func:`real_cameras`."""
    if not _wanted(rig):
        return None
    taker = _extra("choroid.cameras.simulated").SimulatedTaker()
    scene = _scenes(lab)
    return InlineEngine(lambda request: taker.take({**request, **scene(request)}))


def _wanted(rig: Rig) -> bool:
    if rig.cameras:
        _extra("controller.imaging.take")
    return bool(rig.cameras)


def _extra(module: str) -> Any:
    return load_extra(
        module, "imaging", needed_for="the key “cameras” of the rig file", otherwise="remove it from the rig file"
    )


def _scenes(lab: SimulatedLab) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Return what finds the true look of the tissue for a request."""

    def scene(request: Mapping[str, Any]) -> Mapping[str, Any]:
        tissue = lab.in_view(request["facts"]["chamber"]) if request["facts"]["tissue"] else None
        return {"scene": None if tissue is None else asdict(tissue)}

    return scene
