"""Recordings of the electrode array."""

from __future__ import annotations

from pydantic import BaseModel, Field

from dashboards.models.base import Projection, RequestBody


class RecordingStart(RequestBody):
    """A recording to begin. Without a name it gets one from the time and the user."""

    name: str = Field(default="", max_length=80)
    reason: str = Field(default="", max_length=1000)


class RecordingModel(Projection):
    """A recording; `ended_utc` is empty for one that runs, or whose writer was killed."""

    name: str
    started_utc: str
    ended_utc: str
    ended_why: str
    requester: str
    reason: str
    trigger: str
    electrodes: int
    seconds: float
    lost_frames: int
    bytes: int


class RecordingStatusModel(BaseModel):
    """What the writer does now; `name` is empty without a recording. `trouble` says why frames are, or will be, lost."""

    name: str
    frames: int
    bytes: int
    lost_frames: int
    trouble: str
    last: str
    feeding: str
    buffer_fill: float


class RecordingsModel(BaseModel):
    """Every recording, and the state of the writer; None while the electrode engine does not answer."""

    recordings: list[RecordingModel]
    status: RecordingStatusModel | None
    folder: str
    automatic: str
    quota_gb: float
    used_gb: float
