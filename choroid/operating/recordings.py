"""`choroid recording …`: recordings of a running rig's electrode array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from choroid.operating.remote import call, endpoint_of

START_S = 60.0
"""Longest wait for a start: the writer is a process that has to begin first."""


def record(verb: str, *, data: Path, name: str, reason: str) -> dict[str, Any]:
    """Execute one verb (start, stop, status, list); raise :class:`UserError` with the API's message."""
    endpoint = endpoint_of(data)
    if verb == "start":
        return call(endpoint, "POST", "/api/recordings", {"name": name, "reason": reason}, timeout_s=START_S)
    if verb == "stop":
        return call(endpoint, "POST", "/api/recordings/stop", {"reason": reason}, timeout_s=START_S)
    return call(endpoint, "GET", "/api/recordings")


def as_text(verb: str, answer: dict[str, Any]) -> str:
    """Return the answer for people."""
    if verb == "start":
        return f"recording {answer['name']}"
    if verb == "stop":
        lost = f"; {answer['lost_frames']} frames are missing" if answer["lost_frames"] else ""
        return f"{answer['last']}: {answer['frames']} frames, {answer['bytes'] / 1e6:.1f} MB{lost}"
    if verb == "status":
        return _status(answer)
    lines = [f"{'name':<44}{'started':<26}{'s':>10}{'MB':>10}{'lost':>9}  state"]
    for each in answer["recordings"]:
        state = each["ended_why"] if each["ended_utc"] else "not closed"
        lines.append(
            f"{each['name']:<44}{each['started_utc']:<26}{each['seconds']:>10.1f}{each['bytes'] / 1e6:>10.1f}"
            f"{each['lost_frames']:>9}  {state}"
        )
    used = f"{answer['used_gb']:.2f} of {answer['quota_gb']:g} GB in {answer['folder']}"
    return "\n".join([*lines, used])


def _status(answer: dict[str, Any]) -> str:
    status = answer["status"]
    if status is None:
        return "the electrode engine does not run, so nothing is recorded"
    if not status["name"]:
        last = f"; the last one was {status['last']}" if status["last"] else ""
        return f"nothing is recorded{last}" + (f"\n{status['trouble']}" if status["trouble"] else "")
    text = (
        f"recording {status['name']}: {status['frames']} frames, {status['bytes'] / 1e6:.1f} MB,"
        f" {status['lost_frames']} frames lost, buffer {status['buffer_fill']:.0%} full"
    )
    return text + (f"\n{status['trouble']}" if status["trouble"] else "")
