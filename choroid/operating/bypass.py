"""`choroid bypass`: bypass an interlock of a running rig for a short time, or end a bypass (I6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from choroid.operating.remote import call, endpoint_of


def bypass(interlock: str | None, *, data: Path, minutes: float, reason: str, end: bool) -> dict[str, Any]:
    """Start or end the bypass of `interlock`; with None, change nothing.

    Returns:
        `bypasses`: every bypass in force afterwards.

    Raises:
        UserError: With the controller's message.
    """
    endpoint = endpoint_of(data)
    if interlock is not None:
        path = f"/api/bypasses/{quote(interlock, safe='')}"
        if end:
            call(endpoint, "DELETE", path)
        else:
            call(endpoint, "POST", path, {"reason": reason, "minutes": minutes})
    return call(endpoint, "GET", "/api/bypasses")


def as_text(answer: dict[str, Any]) -> str:
    """Return the bypasses as text."""
    if not answer["bypasses"]:
        return "no interlock is bypassed"
    return "\n".join(
        f"{each['interlock']} is bypassed by {each['user']} until {each['until_utc']}: {each['reason']}"
        for each in answer["bypasses"]
    )
