"""What all parts of the rig description have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class RigPart(BaseModel):
    """A part of the description: it takes no unknown keys, is written with the keys of the file, and never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False, allow_inf_nan=False)
