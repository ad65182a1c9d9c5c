"""`choroid alarm …`: alarms of a running rig, and the channels that announce them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from choroid.common.failure import UserError
from choroid.operating.remote import call, endpoint_of

TEST_S = 60.0
"""A test waits for every channel, including unresponsive ones (s)."""
API_VERBS = {"take-out-of-service": "out-of-service"}
"""Verb of the command → that of the API, where they differ."""


def alarms(verb: str, *, data: Path, alarm: str, for_: str, reason: str) -> dict[str, Any]:
    """Execute one verb; raise :class:`UserError` with the API's message."""
    endpoint = endpoint_of(data)
    if verb == "list-channels":
        return call(endpoint, "GET", "/api/alarms/channels")
    if verb == "test-channels":
        return call(endpoint, "POST", "/api/alarms/channels/test", {"reason": reason}, timeout_s=TEST_S)
    if verb == "list":
        answer = call(endpoint, "GET", "/api/alarms")
        return answer | {"time_zone": call(endpoint, "GET", "/api/rig")["time_zone"]}
    body = {"reason": reason} | ({"for": for_} if verb == "shelve" else {})
    return call(endpoint, "POST", f"/api/alarms/{quote(alarm, safe='')}/{API_VERBS.get(verb, verb)}", body)


def check(answer: dict[str, Any]) -> None:
    """Raise :class:`UserError` if a test found a channel that does not deliver."""
    failed = [each for each in answer.get("channels", ()) if not each.get("ok", True)]
    if failed:
        failures = "; ".join(f"{each['name']}: {each.get('detail') or each.get('problem')}" for each in failed)
        raise UserError(
            f"alarms are not delivered over {failures}. Likely cause: its address, account or network. Next: correct its"
            " secret file, which is read at each delivery, and test again"
        )


def as_text(answer: dict[str, Any]) -> str:
    """Return the answer as text."""
    if "channels" in answer:
        return "\n".join(map(_channel, answer["channels"])) or "no channel: this rig announces no alarms"
    if "alarms" not in answer:
        return f"{answer['id']}: {answer['state']}"
    zone = ZoneInfo(answer.get("time_zone", "UTC"))
    lines = [line for each in answer["alarms"] for line in _alarm(each, zone)]
    for each in answer["suppressed"]:
        until = f" until {_local(each['until_utc'], zone)}" if each["until_utc"] else ""
        by = f" by {each['suppressed_by']}" if each["suppressed_by"] else ""
        reason = each["suppression_reason"]
        lines.append(f"not announced  {each['id']}  {each['state'].replace('_', ' ')}{until}{by}: {reason}")
    return "\n".join(lines) or "no alarms"


def _alarm(each: dict[str, Any], zone: ZoneInfo) -> list[str]:
    seen = f" by {each['acknowledged_by']}" if each["acknowledged_by"] else ""
    return [
        f"{each['priority']:<9}{each['id']}  {each['state']}{seen}  since {_local(each['raised_utc'], zone)}",
        f"         {each['detail']}",
        f"         do: {each['response']}, within {each['respond_within']}; otherwise {each['consequence']}",
    ]


def _local(utc: str, zone: ZoneInfo) -> str:
    return datetime.fromisoformat(utc).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")


def _channel(each: dict[str, Any]) -> str:
    if "step" not in each:
        return f"{each['name']:<24}{'confirmed' if each['ok'] else 'FAILED'}  {each['detail']}"
    state = "works" if each["ok"] else f"FAILED: {each['problem']}"
    quiet = ", quiet now" if each["quiet"] else ""
    tested = each["tested"] or "never"
    return (
        f"{each['name']:<24}step {each['step']}, from {each['min_priority']} on{quiet}; {state}; tested {tested};"
        f" {each['delivered']} delivered, {each['waiting']} waiting"
    )
