"""`choroid user …`: accounts of a running rig's page and API."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from choroid.common.table import aligned
from choroid.operating.remote import call, endpoint_of


def users(verb: str, *, data: Path, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Execute one verb (list, add, remove, revoke); raise :class:`UserError` with the API's message.

    `name` is the user's; with `revoke` it is the id of a token.
    """
    endpoint = endpoint_of(data)
    if verb == "add":
        return call(endpoint, "POST", "/api/users", {"name": name, **body})
    if verb in ("remove", "revoke"):
        part = "users" if verb == "remove" else "tokens"
        return call(endpoint, "POST", f"/api/{part}/{quote(name, safe='')}/revoke", body)
    return call(endpoint, "GET", "/api/users")


def as_text(answer: dict[str, Any]) -> str:
    """Return the lists, or the new token with instructions."""
    if "token" in answer:
        return (
            f"{answer['token']}\n{answer['name']} may log in as {answer['role']} with this token until"
            f" {answer['until_utc'][:10]}; it is shown only now. In a browser: the page's address followed by #token=…"
        )
    users = [[u["name"], u["role"], str(u["tokens"]), str(u["sessions"])] for u in answer["users"]]
    tokens = [
        [
            t["id"],
            t["name"],
            t["role"],
            t["until_utc"][:10],
            _minute(t["used_utc"]),
            t["purpose"],
        ]
        for t in answer["tokens"]
    ]
    sessions = [
        [s["id"], s["name"], s["role"], s["until_utc"][:10], _minute(s["used_utc"]), s["source"], s["device"]]
        for s in answer["sessions"]
    ]
    lines = aligned(["name", "role", "tokens", "sessions"], users)
    failed = answer["failed_sign_ins"]
    if failed["count"]:
        last = f"{failed['last_utc'][:16].replace('T', ' ')} UTC from {failed['last_source']}"
        lines += ["", f"{failed['count']} sign-ins failed since the page was started, the last at {last}"]
    lines += ["", *aligned(["token", "name", "role", "ends", "last used (UTC)", "for"], tokens)]
    if sessions:
        lines += ["", *aligned(["session", "name", "role", "ends", "last used (UTC)", "from", "browser"], sessions)]
    return "\n".join(lines)


def _minute(utc: str | None) -> str:
    return (utc or "never")[:16].replace("T", " ")
