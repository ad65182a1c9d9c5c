"""Electrodes, waveforms, leases and the stimulation ledger of the electrode engine."""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from controller.journal.terms import JournalUnwritten
from dashboards.access import ApiProblem, Controlled, Operator, Viewer
from dashboards.models.nerves import (
    ArrayAgentModel,
    ElectrodesModel,
    EndedLeases,
    EndLeases,
    LeasesModel,
    ResponsesModel,
    StimulationModel,
    StimulationsModel,
    WaveformsModel,
)
from nerves.access import AgentAccess
from nerves.credentials import AgentCredential
from nerves.inspection import ArrayInspector, ResponseSeen, Waveforms
from nerves.ledger import StimulationRecord

logger = logging.getLogger(__name__)

routes = APIRouter(prefix="/api/nerves")

RENEWED_S = 0.5
"""Real seconds for which an answer of the engine is given again."""
KEPT_ANSWERS = 64
MAX_RECORDS = 100


class SharedAnswers:
    """Ask the engine at most once in :data:`RENEWED_S` for the same thing, with any number of pages."""

    def __init__(self, inspector: ArrayInspector, pace: Callable[[], float]) -> None:
        self.inspector = inspector
        self._pace = pace
        self._answers: dict[Hashable, tuple[float, asyncio.Task[Any]]] = {}

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Return the answer to `key`, at most :data:`RENEWED_S` old."""
        now_s = asyncio.get_running_loop().time()
        asked_s, task = self._answers.get(key, (-math.inf, None))
        if task is None or now_s - asked_s > RENEWED_S * self._pace() or (task.done() and task.exception()):
            task = asyncio.ensure_future(_awaited(ask))
            self._answers.pop(key, None)
            self._answers[key] = now_s, task
            while len(self._answers) > KEPT_ANSWERS:
                del self._answers[next(iter(self._answers))]
        return await asyncio.shield(task)


async def _awaited(ask: Callable[[], Awaitable[Any]]) -> Any:
    return await ask()


async def _answers(request: Request) -> SharedAnswers:
    answers: SharedAnswers | None = request.app.state.array
    if answers is None:
        raise ApiProblem(
            404,
            "this rig has no electrode engine",
            where="the rig file",
            cause="it has no part `nerves:`, or its array has no driver",
            action="add an electrode array to the rig file",
        )
    return answers


Answers = Annotated[SharedAnswers, Depends(_answers)]


@routes.get("/electrodes", response_model=ElectrodesModel)
async def electrodes(_: Viewer, rig: Controlled, answers: Answers) -> dict[str, Any]:
    """Return state, rate, amplitude, noise, impedance and muted time of each electrode."""
    found = await answers.get("electrodes", answers.inspector.electrodes)
    if found is None:
        return {name: [] for name in ElectrodesModel.model_fields} | {"muted_by": {}, "geometry": ""}
    told = {"states": list(found.states), "geometry": found.geometry}
    lists = {name: _known(values) for name, values in asdict(found).items() if name not in (*told, "muted_by")}
    muted_by = {cause: _known(shares) for cause, shares in found.muted_by.items()}
    return {**told, "deviation": _known(rig.electrode_deviations), "muted_by": muted_by, **lists}


@routes.get("/waveforms/{electrode}", response_model=WaveformsModel)
async def waveforms(_: Viewer, rig: Controlled, answers: Answers, electrode: int) -> Waveforms:
    """Return the raw samples around the latest spikes of an electrode."""
    _require(rig, electrode)
    found: Waveforms | None = await answers.get(
        ("waveforms", electrode), lambda: answers.inspector.waveforms(electrode)
    )
    if found is None:
        raise _silent()
    return found


@routes.get("/responses/{electrode}", response_model=ResponsesModel)
async def responses(_: Viewer, rig: Controlled, answers: Answers, electrode: int) -> dict[str, Any]:
    """Return the spikes of an electrode around the pulses of the last minutes, by latency."""
    _require(rig, electrode)
    found: ResponseSeen | None = await answers.get(
        ("responses", electrode), lambda: answers.inspector.responses(electrode)
    )
    if found is None:
        raise _silent()
    names = ("baseline_hz", "baseline_low_hz", "baseline_high_hz")
    baseline = dict(zip(names, _known(getattr(found, name) for name in names), strict=True))
    return {**asdict(found), "rate_hz": _known(found.rate_hz), **baseline}


def _require(rig: Controlled, electrode: int) -> None:
    """Raise if the array has no such electrode."""
    count = 0 if rig.rig.nerves is None else rig.rig.nerves.electrodes
    if not 0 <= electrode < count:
        raise ApiProblem(
            404,
            f"there is no electrode {electrode}",
            where="the electrode array",
            cause="a slip in the address",
            action=f"choose 0 to {count - 1}",
        )


@routes.get("/leases", response_model=LeasesModel)
async def leases(_: Viewer, request: Request, answers: Answers) -> dict[str, Any]:
    """Return all agents, their living leases, and the use of the budgets."""
    access: AgentAccess | None = request.app.state.agents
    found = await answers.get("leases", answers.inspector.leases)
    held, budgets = found or ((), ())
    return {
        "answers": found is not None,
        "agents": [_agent(each) for each in (access.every() if access else ())],
        "leases": held,
        "budgets": budgets,
    }


@routes.post("/leases/end", response_model=EndedLeases)
async def end_leases(user: Operator, rig: Controlled, answers: Answers, body: EndLeases) -> dict[str, bool]:
    """End the leases of an agent and cancel its waiting pulses, now. It may acquire new ones while its token is valid."""
    confirmed = await answers.inspector.end_leases(body.requester, f"ended by {user.name}: {body.reason}")
    row = {"user": user.name, "name": body.requester, "reason": body.reason, "confirmed": confirmed}
    try:
        rig.journal.append("agents.leases_ended", row)
    except JournalUnwritten as error:
        logger.warning("%s ended the leases of %s, and no row tells of it: %s", user.name, body.requester, error)
    return {"confirmed": confirmed}


@routes.get("/stimulation", response_model=StimulationsModel)
async def stimulation(
    _: Viewer,
    answers: Answers,
    before: Annotated[int | None, Query(ge=1, lt=1 << 63)] = None,
    requester: Annotated[str | None, Query(max_length=60)] = None,
    electrode: Annotated[int | None, Query(ge=0, lt=1 << 31)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_RECORDS)] = 25,
) -> dict[str, Any]:
    """Return records of the stimulation ledger, newest first; `before` is the lowest number that is known already."""

    async def ask() -> list[StimulationRecord]:
        return await answers.inspector.records(
            before=before, limit=limit, requester=requester or None, electrode=electrode
        )

    try:
        found = await answers.get(("stimulation", before, requester, electrode, limit), ask)
    except sqlite3.Error as error:
        raise ApiProblem(
            503,
            "the stimulation ledger cannot be read",
            where="stimulation.db in the data folder",
            cause=str(error),
            action="try again in some seconds; if it lasts, see the alarm of the ledger",
        ) from error
    return {"records": [_record(each) for each in found], "more": len(found) == limit}


def _agent(agent: AgentCredential) -> ArrayAgentModel:
    return ArrayAgentModel(name=agent.name, role=agent.role.value, revoked=bool(agent.revoked_utc))


def _record(record: StimulationRecord) -> StimulationModel:
    return StimulationModel(
        decision=record.id,
        session_utc=record.utc,
        at_s=record.frame / record.sample_rate_hz,
        requester=record.requester,
        purpose=record.purpose,
        electrodes=list(record.electrodes),
        accepted=record.accepted,
        limiting=record.limiting or "",
        reasons=list(record.reasons),
        charge_nc=_finite(record.charge_nc),
        pulses=dict(Counter(pulse.state for pulse in record.pulses)),
    )


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _known(values: Iterable[float]) -> list[float | None]:
    return [round(value, 3) if math.isfinite(value) else None for value in values]


def _silent() -> ApiProblem:
    return ApiProblem(
        503,
        "the electrode engine does not answer",
        where="the electrode engine",
        cause="it is starting, or it has ended",
        action="wait for its restart; see the alarms",
    )
