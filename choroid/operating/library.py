"""`choroid protocol submit`, `list`, `accept`, …: the library of uploaded protocols of a running rig."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from choroid.common.failure import UserError
from choroid.operating.remote import call, endpoint_of
from controller.runs.library import MAX_BYTES


def library(verb: str, *, data: Path, file: Path | None, version: str, reason: str) -> dict[str, Any]:
    """Execute one verb; return the version or the list. Raise :class:`UserError` with the API's message."""
    endpoint = endpoint_of(data)
    if verb == "list":
        return call(endpoint, "GET", "/api/library")
    if file is not None:
        return call(endpoint, "POST", "/api/library", {"file": file.name, "text": _text(file), "reason": reason})
    path = f"/api/library/{quote(version, safe='')}"
    if verb == "show":
        return call(endpoint, "GET", path)
    if verb in ("accept", "refuse"):
        return call(endpoint, "POST", f"{path}/review", {"accept": verb == "accept", "reason": reason})
    return call(endpoint, "POST", f"{path}/{verb}", {"reason": reason}, timeout_s=90.0)


def _text(file: Path) -> str:
    content = file.read_bytes()
    if len(content) > MAX_BYTES:
        raise UserError(f"{file} has more than {MAX_BYTES // 1000} kB. Next: keep data out of the protocol")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{file} is no text in UTF-8. Next: save it as UTF-8") from None


def as_text(answer: dict[str, Any]) -> str:
    """Return a version, the list of them, or a text, for people."""
    if "text" in answer:
        return str(answer["text"])
    if "versions" not in answer:
        return _line(answer)
    return "\n".join(_line(version) for version in answer["versions"]) or "the library is empty"


def _line(version: dict[str, Any]) -> str:
    by = [f"{what} by {who}" for what in ("submitted", "reviewed", "released") if (who := version[f"{what}_by"])]
    return f"{version['sha256'][:12]}  {version['state']:<11}{version['name']}{version['suffix']}  ({', '.join(by)})"
