"""Images of the tissue: newest of each camera, time-lapse, previews."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse

from controller.imaging.imaging import Imaging
from controller.imaging.time_lapse import MAX_FRAMES, ImageFrame, thinned
from controller.process.controller import Controller
from dashboards.access import ApiProblem, Controlled, Viewer
from dashboards.models.images import CameraImages, FrameModel, ImagesModel, TimeLapseModel

KEPT = "private, max-age=31536000, immutable"
"""An image never changes: its name is the moment at which it was taken."""

routes = APIRouter(prefix="/api/images")


@routes.get("", response_model=ImagesModel)
async def images(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return the cameras with their newest image; without cameras the list is empty."""
    imaging = rig.imaging
    return {"cameras": [] if imaging is None else [_camera(rig, imaging, name) for name in rig.rig.cameras]}


@routes.get("/{camera}", response_model=TimeLapseModel)
async def time_lapse(
    rig: Controlled, _: Viewer, camera: str, limit: Annotated[int, Query(ge=2, le=MAX_FRAMES)] = 120
) -> dict[str, Any]:
    """Return the frames of a camera."""
    frames = thinned(_imaging(rig, camera).time_lapse.frames(camera), limit)
    return {
        "camera": camera,
        "chamber": rig.rig.cameras[camera].chamber,
        "frames": [_frame(camera, frame) for frame in frames],
    }


@routes.get("/{camera}/{name}", response_class=FileResponse)
async def preview(rig: Controlled, _: Viewer, camera: str, name: str) -> FileResponse:
    """Return the preview of an image."""
    path = _imaging(rig, camera).preview(camera, name)
    if path is None:
        raise ApiProblem(
            404,
            "there is no such image",
            where="the name of the image",
            cause="a slip, or the file was moved out of the data folder",
            action="see GET /api/images",
        )
    return FileResponse(path, headers={"Cache-Control": KEPT})


def _imaging(rig: Controller, camera: str) -> Imaging:
    imaging = rig.imaging
    if imaging is None or camera not in rig.rig.cameras:
        raise ApiProblem(
            404,
            f"there is no camera “{camera[:40]}”",
            where="the address",
            cause="a slip, or the rig file names none",
            action=f"choose among {', '.join(rig.rig.cameras) or 'none: the rig has no cameras'}",
        )
    return imaging


def _camera(rig: Controller, imaging: Imaging, name: str) -> CameraImages:
    spec, frames = rig.rig.cameras[name], imaging.time_lapse.frames(name)
    usable = next((frame for frame in reversed(frames) if frame.usable), None)
    return CameraImages(
        camera=name,
        chamber=spec.chamber,
        every_s=spec.every_s,
        newest=_frame(name, frames[-1]) if frames else None,
        usable=None if usable is None else _frame(name, usable),
        frames=len(frames),
        problem=imaging.problem(name),
    )


def _frame(camera: str, frame: ImageFrame) -> FrameModel:
    return FrameModel(
        utc=frame.utc,
        src=f"/api/images/{camera}/{frame.preview}" if frame.preview else None,
        usable=frame.usable,
        verdict=frame.verdict,
        features=frame.features,
        growth=frame.growth,
        outline=frame.outline,
        objects=frame.objects,
        note=frame.note,
    )
