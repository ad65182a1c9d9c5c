"""The rig, its state and its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from controller.core.state import State
from controller.memory.history import SeriesPoint
from controller.process.load import LoadFigures
from dashboards.access import ApiProblem, Controlled, Viewer
from dashboards.models.rig import HistoryView, LoadView, PartsView, RecordsView, RigView, StateView
from dashboards.views import rig_view
from drivers.commands import PumpStatus

Row = tuple[float, float, float, float]


def thinned(rows: Sequence[SeriesPoint], max_rows: int) -> list[Row]:
    """Return at most `max_rows` rows `(at, mean, min, max)`: join neighbours, keep their minimum and maximum."""
    if len(rows) <= max_rows:
        return [(row.at, row.mean, row.least, row.most) for row in rows]
    joined: list[Row] = []
    for i in range(max_rows):
        some = rows[i * len(rows) // max_rows : (i + 1) * len(rows) // max_rows]
        n = len(some)
        joined.append(
            (
                sum(row.at for row in some) / n,
                sum(row.mean for row in some) / n,
                min(row.least for row in some),
                max(row.most for row in some),
            )
        )
    return joined


MAX_POINTS = 5000
FINEST_ROWS = 4000
"""Maximum number of raw rows to reduce here; above it, the history's coarser levels answer."""
MONTH_S = 32 * 86_400.0
LAST_S = 4102444800.0
"""UTC of the year 2100 (s since 1970): a later time has the wrong unit."""

routes = APIRouter(prefix="/api")


@routes.get("/rig", response_model=RigView)
async def rig_description(request: Request, rig: Controlled, user: Viewer) -> RigView:
    """Return the rig, the description of the schematic, and the user."""
    return rig_view(rig.rig, user=user.name, role=user.role.word, faults=request.app.state.faults is not None)


@routes.get("/state", response_model=StateView)
async def state(rig: Controlled, _: Viewer) -> State:
    """Return the latest snapshot."""
    return rig.store.state


@routes.get("/load", response_model=LoadView)
async def load(rig: Controlled, _: Viewer) -> LoadFigures:
    """Return the lag of the control loop, and the resources of the controller's process."""
    return rig.load.figures()


@routes.get("/records", response_model=RecordsView)
async def records(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return the identity of the rig's data, and what was discarded: messages given up, readings rejected or over a quota."""
    return {"rig_id": rig.rig_id, "discarded": [each for each in rig.discarded() if each.count]}


@routes.get("/parts", response_model=PartsView)
async def parts(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return the parts of the controller in their order, with what each says of itself."""
    return {"parts": rig.parts.describe()}


@routes.get("/history", response_model=HistoryView)
async def history(
    rig: Controlled,
    _: Viewer,
    point: Annotated[str, Query(max_length=100)],
    seconds: Annotated[float, Query(gt=0, le=MONTH_S, allow_inf_nan=False)] = 3600.0,
    max_points: Annotated[int, Query(ge=2, le=MAX_POINTS)] = 400,
    end_utc_s: Annotated[float | None, Query(ge=0, le=LAST_S, allow_inf_nan=False)] = None,
) -> dict[str, Any]:
    """Return one series over `seconds` of rig time up to `end_utc_s` (default: now), in at most `max_points` rows.

    No peak is lost: each row holds mean, min and max of its readings.
    """
    state = rig.store.state
    present = {name: reading.unit for name, reading in state.readings.items()}
    # A pump that is there has a flow, also before its first minute is over (controller/memory/output_series.py).
    flows = {f"{name}.flow": "uL/min" for name, view in state.actuators.items() if isinstance(view.status, PumpStatus)}
    series = flows | present | rig.history.series()
    if point not in series:
        raise ApiProblem(
            404,
            f"there is no history of “{point}”",
            where="point",
            cause="a slip, or it has not been read yet",
            action=f"choose among {', '.join(sorted(series)) or 'none: wait for the first reading'}",
        )
    now = rig.clock.utc().timestamp()
    end = now if end_utc_s is None else end_utc_s
    rows = rig.history.query(point, end - seconds, end + (1.0 if end_utc_s is None else 0.0), FINEST_ROWS)
    return {
        "point": point,
        "unit": series[point],
        "begin_utc_s": end - seconds,
        "end_utc_s": end,
        "rows": thinned(rows, max_points),
    }
