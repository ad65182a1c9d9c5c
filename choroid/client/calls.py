"""The calls of the controller's HTTP API, each as a request and the form of its answer. Nothing is sent here.

:mod:`choroid.client.connection` sends them, with and without asyncio.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from choroid.client.answers import (
    AlarmInfo,
    AlarmsInfo,
    EntryInfo,
    HealthInfo,
    LedgerInfo,
    RecipeInfo,
    RigInfo,
    RunInfo,
    StateInfo,
    parsed,
)
from choroid.client.errors import ClientError
from choroid.client.transport import ApiCall

T = TypeVar("T")


def rig() -> ApiCall[RigInfo]:
    """Ask for the rig and the client's own role."""
    return _get("/api/rig", RigInfo)


def state() -> ApiCall[StateInfo]:
    """Ask for the latest snapshot."""
    return _get("/api/state", StateInfo)


def health() -> ApiCall[HealthInfo]:
    """Ask whether the control loop runs."""
    return _get("/health", HealthInfo)


def recipes() -> ApiCall[list[RecipeInfo]]:
    """Ask for the recipes that can be started."""
    return _get_list("/api/protocols", "protocols", RecipeInfo)


def runs() -> ApiCall[list[RunInfo]]:
    """Ask for the runs, oldest first."""
    return _get_list("/api/runs", "runs", RunInfo)


def run(run_id: str) -> ApiCall[RunInfo]:
    """Ask for one run."""
    return _get(f"/api/runs/{_quoted(run_id)}", RunInfo)


def start_run(recipe: str, params: Mapping[str, str], reason: str, seen: str) -> ApiCall[RunInfo]:
    """Start a recipe."""
    body = {"protocol": recipe, "params": dict(params), "reason": reason}
    return _post("/api/runs", body, RunInfo, seen)


def change_run(run_id: str, verb: str, reason: str, seen: str) -> ApiCall[RunInfo]:
    """Pause, resume or abort a run."""
    return _post(f"/api/runs/{_quoted(run_id)}/{verb}", {"reason": reason}, RunInfo, seen)


def answer_run(run_id: str, answer: str, step: int | None, reason: str, seen: str) -> ApiCall[RunInfo]:
    """Answer the open question of a run."""
    return _post(
        f"/api/runs/{_quoted(run_id)}/answer", {"answer": answer, "step": step, "reason": reason}, RunInfo, seen
    )


def alarms() -> ApiCall[AlarmsInfo]:
    """Ask for the alarms."""
    return _get("/api/alarms", AlarmsInfo)


def acknowledge_alarm(alarm_id: str, reason: str) -> ApiCall[AlarmInfo]:
    """Acknowledge an alarm."""
    return _post(f"/api/alarms/{_quoted(alarm_id)}/acknowledge", {"reason": reason}, AlarmInfo)


def shelve_alarm(alarm_id: str, duration: str, reason: str) -> ApiCall[AlarmsInfo]:
    """Shelve an alarm for a limited time."""
    return _post(f"/api/alarms/{_quoted(alarm_id)}/shelve", {"for": duration, "reason": reason}, AlarmsInfo)


def return_alarm(alarm_id: str) -> ApiCall[AlarmsInfo]:
    """End shelving."""
    return _post(f"/api/alarms/{_quoted(alarm_id)}/return", {}, AlarmsInfo)


def stop_all(reason: str) -> ApiCall[str | None]:
    """Order an emergency stop."""
    return ApiCall("POST", "/api/estop", _emergency, {"reason": reason})


def reset_stop(reason: str, seen: str) -> ApiCall[str | None]:
    """Reset an emergency stop."""
    return ApiCall("POST", "/api/estop/reset", _emergency, {"reason": reason}, seen)


def ledger() -> ApiCall[LedgerInfo]:
    """Ask where the medium went."""
    return _get("/api/ledger", LedgerInfo)


def journal(limit: int, *, everything: bool) -> ApiCall[list[EntryInfo]]:
    """Ask for the newest rows of the journal."""
    query = urlencode({"limit": limit, "rows": "all" if everything else "story"})
    return _get_list(f"/api/audit?{query}", "entries", EntryInfo)


def history(point: str, seconds: float, end_utc_s: float | None, max_points: int) -> ApiCall[dict[str, Any]]:
    """Ask for one stretch of a series."""
    query: dict[str, str | float | int] = {"point": point, "seconds": seconds, "max_points": max_points}
    if end_utc_s is not None:
        query["end_utc_s"] = end_utc_s
    return ApiCall("GET", f"/api/history?{urlencode(query)}", dict)


def anything(method: str, path: str, body: Mapping[str, Any] | None, seen: str) -> ApiCall[dict[str, Any]]:
    """Return a request to any path of the API, with the answer as decoded JSON.

    Raises:
        ClientError: The path does not begin with a slash.
    """
    if not path.startswith("/"):
        raise ClientError(f"the path “{path}” does not begin with a slash. Next: write it as /api/… has it")
    return ApiCall(method, path, dict, body, seen)


def _get(path: str, kind: type[T]) -> ApiCall[T]:
    return ApiCall("GET", path, lambda answer: parsed(kind, answer, path))


def _get_list(path: str, key: str, kind: type[T]) -> ApiCall[list[T]]:
    return ApiCall("GET", path, lambda answer: [parsed(kind, each, path) for each in answer[key]])


def _post(path: str, body: Mapping[str, Any], kind: type[T], seen: str = "") -> ApiCall[T]:
    return ApiCall("POST", path, lambda answer: parsed(kind, answer, path), body, seen)


def _emergency(answer: Any) -> str | None:
    told: str | None = answer["emergency"]
    return told


def _quoted(name: str) -> str:
    return quote(name, safe="")
