"""What the rig file says of recordings, as the plan of the electrode engine."""

from __future__ import annotations

from pathlib import Path

from controller.memory.identity import read_identity
from controller.rig.description import RecordingSpec, Rig
from nerves.recording.catalogue import FOLDER
from nerves.recording.layout import RecordingPlan


def recordings_folder(rig: Rig, data_dir: Path) -> Path:
    """Return the folder of a rig's recordings; a relative one lies in the data folder."""
    spec = None if rig.nerves is None else rig.nerves.recording
    return (data_dir / (spec.folder if spec and spec.folder else FOLDER)).absolute()


def recording_plan(rig: Rig, data_dir: Path) -> RecordingPlan | None:
    """Return the plan; None for a rig without electrodes."""
    if rig.nerves is None:
        return None
    spec = rig.nerves.recording or RecordingSpec()
    return RecordingPlan(
        folder=str(recordings_folder(rig, data_dir)),
        quota_bytes=spec.quota_gb * 1e9,
        min_free_bytes=spec.min_free_gb * 1e9,
        automatic=spec.automatic,
        frames=spec.frames,
        identity={
            "rig": rig.name,
            "rig_id": read_identity(data_dir),
            "description": rig.description,
            "chambers": sorted(name for name, vessel in rig.vessels.items() if vessel.kind == "chamber"),
            "tissue": {chamber: tissue.model_dump(mode="json") for chamber, tissue in rig.tissue.items()},
        },
    )
