"""Records: the medium ledger, the last grade, the scores of the tissue, the audit trail."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from dashboards.access import Controlled, Viewer
from dashboards.models.books import AuditModel, DecisionsModel, GradeModel, LedgerModel, ViabilityModel
from dashboards.views import decision_views, ledger_view, retreat_view, weighed_vessel
from protocols.retreat import RESUMED, RETREAT

STORY = (
    "alarm.acknowledged",
    "alarm.raised",
    "alarm.reason",
    "alarm.return_to_normal_unacknowledged",
    "assay",
    "controller.started",
    "controller.stopped",
    "calibration.taken",
    "ledger.balanced",
    "ledger.level",
    "ledger.loaded",
    "fault.ended",
    "fault.made",
    "ledger.reconciled",
    "ledger.sampled",
    "ledger.weighed",
    "moved",
    "note.grade",
    "note.recycle",
    "note.exchange",
    "page.sign_ins_failed",
    "page.signed_in",
    "run.message",
    "run.start",
    "run.state",
    "safety.clear",
    "safety.estop",
    "safety.reset",
    "safety.trip",
    "act.refused",
    "speed.set",
    "task.done",
    "tubing.installed",
)
"""Kinds of rows that people read; most others are heater pulses."""

routes = APIRouter(prefix="/api")


@routes.get("/ledger", response_model=LedgerModel)
async def ledger(rig: Controlled, _: Viewer) -> LedgerModel:
    """Return the medium ledger (mL)."""
    return ledger_view(rig.rig, rig.ledger, weighed_vessel(rig.rig), rig.clock.utc(), rig.fresh_bound.ul())


@routes.get("/grade", response_model=GradeModel)
async def grade(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return the last grade with inputs, limits, reasons and the limiting variable."""
    return {"grade": rig.last_grade()}


@routes.get("/decisions", response_model=DecisionsModel)
async def decisions(rig: Controlled, _: Viewer, limit: Annotated[int, Query(ge=1, le=100)] = 20) -> dict[str, Any]:
    """Return the latest decisions about batches, newest first: grade, choice, cost and reason; and the run's retreat."""
    entries = rig.journal.entries(kinds=("note.recycle", "note.grade"), newest_first=True)
    run = rig.runs.active
    kinds = (f"note.{RETREAT}", f"note.{RESUMED}")
    rows = () if run is None else rig.journal.entries(run=run.id, kinds=kinds, newest_first=True)
    return {"decisions": decision_views(entries, limit), "retreat": retreat_view(next(iter(rows), None))}


@routes.get("/viability", response_model=ViabilityModel)
async def viability(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return the estimate of viability and the other scores of the tissue: for its care, not evidence of feeling."""
    return rig.scores or {}


@routes.get("/audit", response_model=AuditModel)
async def audit(
    rig: Controlled,
    _: Viewer,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    rows: Literal["story", "all"] = "story",
) -> dict[str, Any]:
    """Return the newest rows of the journal, newest first: those that people read, or all."""
    kinds = STORY if rows == "story" else ()
    return {"entries": list(rig.journal.entries(kinds=kinds, newest_first=True, limit=limit))}
