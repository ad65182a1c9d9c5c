"""Scheduled images of the tissue: when each camera is due, what became of its image, and the alarms.

An image never holds up the control loop: it is taken in a task that waits for another process. The row `image.taken` of the
journal has what was seen, so that schedule and time-lapse survive a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.imaging.engine import CaptureEngine
from controller.imaging.history import compared_frames, judged_by_history
from controller.imaging.previews import FOLDER, preview_file
from controller.imaging.time_lapse import MAX_ROWS, ImageFrame, TimeLapse
from controller.journal.journal import Journal
from controller.rig.camera import CameraSpec
from controller.rig.description import Rig, TissueSpec
from controller.tissue.record import TissueRecord
from drivers.commands import Quality

logger = logging.getLogger(__name__)

TAKEN, FAILED = "image.taken", "image.failed"
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
        tissue: TissueRecord,
        start: Start,
    ) -> None:
        """Begin; the schedule goes on where the journal ends."""
        self._rig = rig
        self._engine = engine
        self._store = store
        self._journal = journal
        self._clock = clock
        self._data = data
        self._tissue = tissue
        self._start = start
        self._under_way: set[str] = set()
        self._due_s = dict.fromkeys(rig.cameras, clock.now_s())
        self.causes: dict[tuple[str, str], str] = {}
        """The present causes of alarms: detail by (alarm kind, camera)."""
        self.time_lapse = TimeLapse(rig.cameras)
        self._restore()

    def update(self, now_s: float) -> None:
        """Start what is due. Called at each tick; does not wait."""
        for name, camera in self._rig.cameras.items():
            if now_s >= self._due_s[name] and name not in self._under_way:
                self._under_way.add(name)
                self._due_s[name] = now_s + camera.every_s
                self._start(f"image {name}", self._take(name, camera))

    async def close(self) -> None:
        """Release the cameras."""
        await self._engine.close()

    def problem(self, camera: str) -> str:
        """Return the causes of the present alarms of a camera as sentences; empty without any."""
        details = (detail for (_, name), detail in self.causes.items() if name == camera)
        return " ".join(f"{detail[:1].upper()}{detail[1:].rstrip('.')}." for detail in details)

    def preview(self, camera: str, name: str) -> Path | None:
        """Return the file of a preview of a camera of the rig; None if there is none of this name."""
        return preview_file(self._data, camera, name) if camera in self._rig.cameras else None

    # --- inside -----------------------------------------------------------------------------------------

    def _restore(self) -> None:
        now_s = self._clock.utc().timestamp()
        rows = self._journal.entries(kinds=(TAKEN,), newest_first=True, limit=MAX_ROWS)
        self.time_lapse.restore(rows, now_s)
        for name, camera in self._rig.cameras.items():
            newest = self.time_lapse.newest(name)
            if newest is not None:
                self._due_s[name] += max(0.0, camera.every_s - max(now_s - newest.at_s, 0.0))

    async def _take(self, name: str, camera: CameraSpec) -> None:
        request = request_of(self._rig, name, camera, self._clock.utc_text(), self._data / FOLDER, self._tissue.specs)
        request["earlier"] = self._earlier(name, camera)
        request["known"] = self._known(name, camera)
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
        body |= self._judged(name, camera, ImageFrame.of_row(body, facts["utc"]), answer)
        self._journal.append(TAKEN, body)
        frame = ImageFrame.of_row(body, facts["utc"])
        self.time_lapse.add(name, frame)
        if not frame.usable:
            self._due_s[name] = min(self._due_s[name], retry_s)
            return
        for point, (feature, unit) in POINTS.items():
            value = float(answer["features"][feature])
            self._store.read(f"{name}.{point}", value, unit, Quality.GOOD, self._clock.now_s())

    def _judged(self, name: str, camera: CameraSpec, frame: ImageFrame, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the earlier images of the culture change in a row, and what is said of it in words."""
        since_s, left_out = self._since_s(camera), answer.get("left_out_mm2") or ()
        told = [f"Not measured: {_areas(left_out)}."] if left_out else []
        if since_s is None:
            return {"note": " ".join(told)} if told else {}
        judged = judged_by_history(self.time_lapse.frames(name), frame, since_s)
        note = " ".join([*told, judged.note] if judged.note else told)
        changes: dict[str, Any] = {"note": note} if note else {}
        if judged.defects != frame.defects:
            changes["defects"] = list(judged.defects)
        if judged.changed or judged.defects:
            changes["growth"] = None
        return changes | ({"changed": True} if judged.changed else {})

    def _since_s(self, camera: CameraSpec) -> float | None:
        """Return when the culture came into the chamber (UTC s); None without one."""
        culture = self._tissue.cultures.get(camera.chamber)
        return None if culture is None else datetime.fromisoformat(culture.as_of_utc).timestamp()

    def _compared(self, name: str, camera: CameraSpec) -> list[ImageFrame]:
        since_s = self._since_s(camera)
        return [] if since_s is None else compared_frames(self.time_lapse.frames(name), since_s)

    def _known(self, name: str, camera: CameraSpec) -> dict[str, Any] | None:
        """Return area and place of the tissue in its last usable image."""
        for frame in reversed(self._compared(name, camera)):
            if frame.features is not None:
                return {"area_mm2": frame.features["area_mm2"], "place_mm": frame.place_mm}
        return None

    def _earlier(self, name: str, camera: CameraSpec) -> list[tuple[float, float]]:
        """Return days and areas of the earlier images of the same tissue, since it last changed."""
        since_s, compared = self._since_s(camera), self._compared(name, camera)
        if since_s is None:
            return []
        if compared and compared[0].changed:
            since_s = compared[0].at_s
        return self.time_lapse.areas(name, self._clock.utc().timestamp(), since_s)


def _areas(areas_mm2: Sequence[float]) -> str:
    """Return the number of objects and their areas in words."""
    what = "1 other object" if len(areas_mm2) == 1 else f"{len(areas_mm2)} other objects"
    return f"{what} with the outline of tissue ({', '.join(f'{area:.2f}' for area in areas_mm2)} mm²)"


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
