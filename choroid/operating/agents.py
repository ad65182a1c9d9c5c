"""`choroid agent …`: agents of a running rig's electrode engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from choroid.operating.remote import call, endpoint_of


def agents(verb: str, *, data: Path, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Execute one verb (list, add, renew, remove); raise :class:`UserError` with the API's message."""
    endpoint = endpoint_of(data)
    if verb == "list":
        return call(endpoint, "GET", "/api/agents")
    if verb == "add":
        return call(endpoint, "POST", "/api/agents", {"name": name, **body})
    path = f"/api/agents/{quote(name, safe='')}/{'renew' if verb == 'renew' else 'revoke'}"
    return call(endpoint, "POST", path, {"reason": body.get("reason", "")})


def as_text(answer: dict[str, Any]) -> str:
    """Return the list, or the new token with instructions."""
    if "token" in answer:
        return (
            f"{answer['token']}\n{answer['name']} may connect as {answer['role']} with this token; it is shown only now. The"
            " address is in nerves.json of the data folder"
        )
    lines = [f"{'name':<24}{'role':<10}{'issued':<22}{'revoked':<22}"]
    lines += [f"{a['name']:<24}{a['role']:<10}{a['issued_utc']:<22}{a['revoked_utc']:<22}" for a in answer["agents"]]
    return "\n".join(line.rstrip() for line in lines)
