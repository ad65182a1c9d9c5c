"""What all parts of the rig description have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,39}$")]
"""A name that people give; it becomes part of points, topics and columns, so it is kept plain (S5)."""

MAX_UL = 1e8
"""A hundred litres. Bounds here catch slips of a thousand (mL for uL), not what is wise."""
MAX_UL_MIN = 1e6
MAX_GAS_ML_MIN = 1e5
MAX_KPA = 2000.0
MAX_PORTS = 100
"""More positions than any selector valve has."""


class RigPart(BaseModel):
    """A part of the description: it takes no unknown keys, is written with the keys of the file, and never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False, allow_inf_nan=False)
