"""`choroid ledger show`: content of each vessel and path of each batch, from a rig's journal; and operator entries.

The ledger is rebuilt from a copy of the journal, so it can be read whether the rig runs or not. `choroid vessel load`,
`vessel measure`, `tubing` and `task` use the running controller, which records who entered what and why.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from choroid.common.failure import UserError
from choroid.operating.remote import call, endpoint_of
from controller.core.clock import Clock
from controller.core.database import copy_database, open_to_read
from controller.journal.journal import Journal
from controller.ledger.ledger import Ledger
from controller.rig.loading import load_rig
from drivers.registry import MODELS, load_third_party

ML = 1000.0


def ledger(rig_path: Path, data: Path, *, batch: str | None = None) -> dict[str, Any]:
    """Return `{"at", "vessels": [...], "batches": [...]}` as of the journal's last row; with `batch`, only that
    one.

    Volumes are in mL.

    Raises:
        UserError: There is no journal, or no such batch.
    """
    load_third_party()
    rig = load_rig(rig_path, models=MODELS)
    with tempfile.TemporaryDirectory(prefix="choroid-ledger-") as folder:
        copy = Path(folder) / "journal.db"
        at = _copied(data / "journal.db", copy)

        async def read() -> dict[str, Any]:
            clock = Clock(follow_system=False, epoch=at)
            journal = Journal(copy, clock, durable=False)
            try:
                return _answer(Ledger(rig, journal, clock), at, batch)
            finally:
                journal.close()

        return asyncio.run(read())


def _answer(found: Ledger, at: datetime, batch: str | None) -> dict[str, Any]:
    where = found.whereabouts
    if batch is not None and batch not in where.batches:
        raise UserError(
            f"no batch has the number “{batch}”. Likely cause: a mistyped number, or it was never entered. Next: choose among"
            f" {', '.join(where.batches)}"
        )
    volumes = found.volumes()
    volumes_ul = {name: volume.ul for name, volume in volumes.items()}
    return {
        "at": at.isoformat(timespec="seconds"),
        "vessels": [
            {"name": name, "ml": volume.ul / ML, "sd_ml": volume.sd_ul / ML, "parcels": where.vessel_json(name)}
            for name, volume in volumes.items()
        ],
        "batches": [_in_ml(where.batch_json(lot, volumes_ul)) for lot in where.batches if batch in (None, lot)],
        "totals": found.to_json()["totals"],
    }


def _in_ml(batch: dict[str, Any]) -> dict[str, Any]:
    now = {name: ul / ML for name, ul in batch.pop("now_ul").items()}
    return {**batch, "now_ml": now, "passed_ml": {name: ul / ML for name, ul in batch.pop("passed_ul").items()}}


def _copied(source: Path, target: Path) -> datetime:
    """Copy a journal that may be in use; return the time of its last row."""
    if not source.is_file():
        raise UserError(
            f"there is no journal in {source.parent}. Likely cause: no controller has run with this --data. Next: name"
            " the right directory"
        )
    copy_database(source, target)
    with contextlib.closing(open_to_read(target)) as new:
        row = new.execute("SELECT utc FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    if row is None:
        raise UserError(f"the journal in {source.parent} is empty. Next: run the rig first")
    return datetime.fromisoformat(row[0]).astimezone(UTC)


def as_text(answer: dict[str, Any], *, batch: bool) -> str:
    """Return the vessels with their content, or one batch with its path, as text."""
    lines = [f"as of {answer['at']}"]
    if not batch:
        for vessel in answer["vessels"]:
            shares: dict[str, float] = {}
            for parcel in vessel["parcels"]:
                shares[parcel["lot"]] = shares.get(parcel["lot"], 0.0) + parcel["share"]
            held = ", ".join(f"{lot} {share:.1%}" for lot, share in shares.items())
            lines.append(f"  {vessel['name']:<12}{vessel['ml']:>10.2f} ± {vessel['sd_ml']:.2f} mL   {held}")
    for each in answer["batches"]:
        until = f", expires {each['expires_utc'][:10]}" if each["expires_utc"] else ""
        lines.append(f"  lot {each['lot']} ({each['medium']}), into {each['vessel']} {each['loaded_utc'][:16]}{until}")
        if batch:
            lines += [f"    in {name:<12}{ml:>10.3f} mL" for name, ml in each["now_ml"].items()]
            lines += [f"    along {name:<9}{ml:>10.3f} mL" for name, ml in each["passed_ml"].items()]
    return "\n".join(lines)


def enter(data: Path, path: tuple[str, str, str], body: dict[str, Any]) -> dict[str, Any]:
    """Send an entry to the running controller: `path` is (kind, name, verb), such as ("vessels", "reservoir",
    "load").
    """
    kind, name, verb = path
    told = {key: value for key, value in body.items() if value is not None}
    return call(endpoint_of(data), "POST", f"/api/{kind}/{quote(name, safe='')}/{verb}", told)


def pumps(data: Path) -> dict[str, Any]:
    """Return every pump of the running controller with calibration and tubing."""
    return call(endpoint_of(data), "GET", "/api/pumps")


def pumps_as_text(answer: dict[str, Any]) -> str:
    """Return one line per pump."""
    lines = []
    for each in answer["pumps"]:
        tubing, calibration = each["tubing"], each["calibration"]
        held = (
            f"calibration {calibration['calibration']}"
            if calibration["valid"]
            else f"NO VOLUMES: {calibration['refusal']}"
        )
        lines.append(
            f"{each['pump']:<20}{tubing['revolutions']:>12,.0f} of {tubing['life_revolutions']:,.0f} revolutions"
            f" ({tubing['used']:.0%}), {tubing['material']}; {held}"
        )
    return "\n".join(lines)


def tasks(data: Path) -> dict[str, Any]:
    """Return the manual tasks of the running controller with their due times."""
    return call(endpoint_of(data), "GET", "/api/tasks")


def tasks_as_text(answer: dict[str, Any]) -> str:
    """Return one line per manual task."""
    lines = []
    for each in answer["tasks"]:
        done = f"done {each['done_utc'][:16]} by {each['done_by']}" if each["done_by"] else "not done yet"
        lines.append(f"{each['name']:<20}due {each['due_utc'][:16]} UTC ({done}): {each['text']}")
    return "\n".join(lines) or "no manual tasks: the rig file has no upkeep.tasks"
