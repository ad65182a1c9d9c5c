"""Registration of a plan: its hash and the time, in a file next to it, with a time stamp of an authority if one is asked."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from choroid.audit.time_stamps import TimeAuthority
from choroid.common.failure import UserError
from choroid.comparison.plan import read_plan
from choroid.export.tables import utc_text
from choroid.report.report import utc_now

SUFFIX = ".registered.jsonl"


@dataclass(frozen=True, slots=True)
class Registration:
    """When a plan was registered. `proof` says what the time rests on."""

    utc: str
    proof: str


def register(path: Path, *, authority: TimeAuthority | None = None, now: float | None = None) -> dict[str, Any]:
    """Register a plan as it is now.

    Args:
        path: The plan.
        authority: It stamps the hash, so that others can verify the time.
        now: UTC seconds (default: this machine's clock).

    Raises:
        UserError: It is no plan, it is registered already, or the authority does not stamp it.
    """
    plan, digest = read_plan(path)
    if (known := registration_of(path, digest)) is not None:
        raise UserError(
            f"{path} was registered at {known.utc}. Next: nothing; a plan that was changed can be registered"
        )
    row = {"name": plan.name, "sha256": digest, "utc": utc_text(utc_now() if now is None else now)}
    if authority is not None:
        row["time_stamp"] = b64encode(authority.stamp(digest)).decode()
    record = path.with_name(path.name + SUFFIX)
    with record.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return row | {"record": str(record)}


def registration_of(path: Path, digest: str, certificates: Path | None = None) -> Registration | None:
    """Return the first registration of a plan with this hash; None without one.

    Raises:
        UserError: The record is damaged, or its time stamp is not that of the authority.
    """
    record = path.with_name(path.name + SUFFIX)
    try:
        rows = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
        for row in rows:
            if not isinstance(row, dict) or not isinstance(row.get("sha256"), str):
                raise ValueError("a row has no sha256")
            datetime.fromisoformat(row["utc"])
            b64decode(row.get("time_stamp", ""), validate=True)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"the registration {record} cannot be read: {error}. Likely cause: it was edited, or only written in part."
            " Next: restore it from a backup"
        ) from None
    row = next((each for each in rows if each["sha256"] == digest), None)
    if row is None:
        return None
    if "time_stamp" not in row:
        return Registration(row["utc"], "the clock of the machine that registered it")
    if certificates is None:
        return Registration(row["utc"], "a time stamp that was not verified (--certificates)")
    stamped = TimeAuthority(certificates).time_of(b64decode(row["time_stamp"]), digest)
    return Registration(utc_text(stamped.timestamp()), "a time stamp of an authority, verified")


def standing(registered: Registration | None, first_utc_s: float) -> tuple[bool, str]:
    """Return whether a plan was registered before the first culture began (UTC s), and a sentence."""
    first = utc_text(first_utc_s)
    if registered is None:
        return False, "exploratory: this plan was not registered"
    if datetime.fromisoformat(registered.utc).astimezone(UTC).timestamp() >= first_utc_s:
        return False, f"exploratory: registered at {registered.utc}, after the first culture began ({first})"
    return True, f"registered at {registered.utc}, before the first culture began ({first}), by {registered.proof}"
