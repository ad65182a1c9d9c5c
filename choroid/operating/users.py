"""`choroid users …`: accounts of a running rig's page and API."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from choroid.operating.remote import call, endpoint_of


def users(verb: str, *, data: Path, name: str, role: str, reason: str) -> dict[str, Any]:
    """Execute one verb (list, add, remove); raise :class:`UserError` with the API's message."""
    endpoint = endpoint_of(data)
    if verb == "add":
        return call(endpoint, "POST", "/api/users", {"name": name, "role": role, "reason": reason})
    if verb == "remove":
        return call(endpoint, "POST", f"/api/users/{quote(name, safe='')}/revoke", {"reason": reason})
    return call(endpoint, "GET", "/api/users")


def as_text(answer: dict[str, Any]) -> str:
    """Return the list, or the new token with instructions."""
    if "token" in answer:
        return (
            f"{answer['token']}\n{answer['name']} may log in as {answer['role']} with this token; it is shown only now."
            " In a browser: the page's address followed by #token=…"
        )
    lines = [f"{'name':<24}{'role':<10}{'tokens':>7}{'sessions':>10}"]
    lines += [f"{u['name']:<24}{u['role']:<10}{u['tokens']:>7}{u['sessions']:>10}" for u in answer["users"]]
    return "\n".join(lines)
