"""Scheduled images of the tissue: when each camera is due, what became of its image, and the alarms.

An image never holds up the control loop: it is taken in a task that waits for another process. The row `image.taken` of the
journal has what was seen, so that schedule and time-lapse survive a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.imaging.engine import CaptureEngine
from controller.journal.journal import Journal
from controller.rig.camera import CameraSpec
from controller.rig.description import Rig, TissueSpec
from drivers.commands import Quality

logger = logging.getLogger(__name__)

TAKEN, FAILED = "image.taken", "image.failed"
FOLDER = "images"
RETRY_S = 600.0
"""After an image that failed or cannot be used, the next is taken after this time, or when it is due if that is sooner."""
POINTS = {
    "area": ("area_mm2", "mm²"),
    "diameter": ("diameter_mm", "mm"),
    "circularity": ("circularity", "ratio"),
    "rim_width": ("rim_width_um", "µm"),
    "opacity": ("opacity", "OD"),
}
"""Readings of a usable image: point of the camera, feature and unit."""
Start = Callable[[str, Coroutine[Any, Any, object]], None]


class Imaging:
    """The cameras of a rig."""

    def __init__(
        self,
        rig: Rig,
        *,
        engine: CaptureEngine,
        store: StateStore,
        journal: Journal,
        clock: Clock,
        data: Path,
        tissue: Callable[[], Mapping[str, TissueSpec]],
        start: Start,
    ) -> None:
        """Begin; the schedule goes on where the journal ends."""
        self._rig = rig
        self._engine = engine
        self._store = store
        self._journal = journal
        self._clock = clock
        self._folder = data / FOLDER
        self._tissue = tissue
        self._start = start
        self._under_way: set[str] = set()
        self._due_s = dict.fromkeys(rig.cameras, clock.now_s())
        self.causes: dict[tuple[str, str], str] = {}
        """The present causes of alarms: detail by (alarm kind, camera)."""
        self.latest: dict[str, dict[str, Any]] = {}
        """The last row `image.taken` of each camera."""
        self._restore()

    def look(self, now_s: float) -> None:
        """Start what is due. Called at each tick; does not wait."""
        for name, camera in self._rig.cameras.items():
            if now_s >= self._due_s[name] and name not in self._under_way:
                self._under_way.add(name)
                self._due_s[name] = now_s + camera.every_s
                self._start(f"image {name}", self._take(name, camera))

    async def close(self) -> None:
        """Release the cameras."""
        await self._engine.close()

    # --- inside -----------------------------------------------------------------------------------------

    def _restore(self) -> None:
        now = self._clock.utc()
        for name, camera in self._rig.cameras.items():
            rows = self._journal.entries(kinds=(TAKEN,), newest_first=True, limit=100)
            row = next((row for row in rows if row.body.get("camera") == name), None)
            if row is not None:
                self.latest[name] = {**row.body, "utc": row.utc}
                age_s = (now - datetime.fromisoformat(row.utc)).total_seconds()
                self._due_s[name] += max(0.0, camera.every_s - max(age_s, 0.0))

    async def _take(self, name: str, camera: CameraSpec) -> None:
        request = request_of(self._rig, name, camera, self._clock.utc_text(), self._folder, self._tissue())
        try:
            answer = await self._engine.take(request)
            self._note(name, camera, answer, request["facts"])
        finally:
            self._under_way.discard(name)

    def _note(self, name: str, camera: CameraSpec, answer: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        retry_s = self._clock.now_s() + RETRY_S
        if error := answer.get("error"):
            self.causes[("camera_lost", name)] = str(error)
            self._due_s[name] = min(self._due_s[name], retry_s)
            self._journal.append(FAILED, {"camera": name, "chamber": camera.chamber, "error": error})
            return
        self.causes.pop(("camera_lost", name), None)
        if unkept := answer.get("unkept"):
            self.causes[("images_unkept", name)] = str(unkept)
        else:
            self.causes.pop(("images_unkept", name), None)
        body = {"camera": name, "chamber": camera.chamber, "taken": facts["utc"], **answer}
        self._journal.append(TAKEN, body)
        self.latest[name] = {**body, "utc": facts["utc"]}
        if answer["defects"] or answer["features"] is None:
            self._due_s[name] = min(self._due_s[name], retry_s)
            return
        for point, (feature, unit) in POINTS.items():
            value = float(answer["features"][feature])
            self._store.read(f"{name}.{point}", value, unit, Quality.GOOD, self._clock.now_s())


def request_of(
    rig: Rig, name: str, camera: CameraSpec, utc: str, folder: Path, tissue: Mapping[str, TissueSpec]
) -> dict[str, Any]:
    """Return what is asked of the process of the cameras, as plain data."""
    placed = tissue.get(camera.chamber)
    return {
        "model": camera.model,
        "settings": dict(camera.settings),
        "folder": str(folder),
        "quota_bytes": camera.quota_gb * 1e9,
        "min_free_bytes": camera.min_free_gb * 1e9,
        "facts": {
            "utc": utc,
            "rig": rig.name,
            "camera": name,
            "chamber": camera.chamber,
            "pixel_um": camera.pixel_um,
            "exposure_s": camera.exposure_s,
            "tissue": {} if placed is None else placed.model_dump(mode="json"),
        },
    }
