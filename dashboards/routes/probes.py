"""The health that probes report of themselves: slope and zero offset, quality indicators, cell constants."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from dashboards.access import Controlled, Viewer
from dashboards.models.probes import ProbesModel

routes = APIRouter(prefix="/api/probes")


@routes.get("", response_model=ProbesModel)
async def probes(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return what each probe last reported of its health, with the range of each figure; the list may be empty."""
    return {"probes": rig.probe_health()}
