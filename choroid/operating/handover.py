"""`choroid handover`: write a culture's records to a file, and take them over on another rig.

The file holds volumes, the history of the medium, lot numbers, the last estimate and grade, and the culture's own
baseline hour by hour, so that its scores continue. It is read from the journal, which may be in use; it is taken
into a journal that no controller has open. Vessels are named by their part (`loop`, `chamber`), since vessel names
are specific to a rig.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.estimator.estimator import Estimator
from controller.hazards.loading import load_checked_rig
from controller.journal.journal import Journal
from controller.ledger.batches import AT_THE_START
from controller.ledger.ledger import Ledger
from controller.ledger.medium_ageing import MediumAgeing
from controller.ledger.terms import Parcel
from controller.rig.description import Rig
from controller.vitals.rolling_baseline import ROW
from drivers.registry import MODELS
from protocols.baseline import WINDOW_H
from protocols.media_state import MediaState
from protocols.soft_sensor import VERSION

FORMAT = 1
KINDS = ("estimate", "note.grade", "note.hand_over")
"""Kinds of rows of which the last one is written."""
MAX_CARRIED_S = 7 * 86_400.0
"""Maximum age of a file (s): older data no longer describes the medium."""
CARRIED_REL_SD = 0.01
"""Relative standard deviation of a loop's volume after clamping, transport and reopening: tubing ends drip."""


def written(rig_path: Path, data: Path, file: Path) -> dict[str, Any]:
    """Write the records of the culture from the journal in `data` into `file`; return them."""
    from choroid.simulation.plan import copied  # the twin's method of reading a journal in use

    rig = load_checked_rig(rig_path, models=MODELS)
    with tempfile.TemporaryDirectory(prefix="choroid-handover-") as folder:
        copied(data, Path(folder))
        told = asyncio.run(_told(rig, Path(folder) / "journal.db"))
    text = json.dumps({**told, "sha256": _hash(told)}, ensure_ascii=False, indent=1)
    file.write_text(text + "\n", encoding="utf-8")
    return told


async def _told(rig: Rig, journal_path: Path) -> dict[str, Any]:
    journal = Journal(journal_path, Clock(follow_system=True), durable=False)
    try:
        newest = next(journal.entries(newest_first=True, limit=1), None)
        if newest is None:
            raise UserError(
                "the journal is empty. Likely cause: no controller has run here. Next: name the right --data"
            )
        clock = Clock(follow_system=False, epoch=datetime.fromisoformat(newest.utc))
        ledger = Ledger(rig, journal, clock)
        volumes, parcels = ledger.volumes(), ledger.parcels()
        estimator = Estimator(rig, ledger=ledger, journal=journal, clock=clock, store=StateStore())
        lots = {row.body["vessel"]: dict(row.body) for row in journal.entries(kinds=("ledger.loaded",))}
        hours = list(journal.entries(kinds=(ROW,), newest_first=True, limit=2 * WINDOW_H))
        last = {kind: journal.last(kind) for kind in KINDS}
        return {
            "handover": FORMAT,
            "rig": rig.name,
            "at": newest.utc,
            "vessels": {part: {**asdict(volumes[name]), **asdict(parcels[name])} for part, name in _parts(rig).items()},
            "contents": {part: _own_names(ledger.medium(name), rig) for part, name in _parts(rig).items()},
            "medium": estimator.now().to_json(),
            "batches": lots,
            "last": {kind: None if row is None else dict(row.body) for kind, row in last.items()},
            "baseline": [dict(row.body) for row in reversed(hours)],
        }
    finally:
        journal.close()


def taken(rig_path: Path, data: Path, file: Path, *, who: str, now: datetime | None = None) -> dict[str, Any]:
    """Take `file` into the journal in `data`; return its content. An incomplete file changes nothing.

    Args:
        rig_path: The rig file.
        data: Data folder of the rig.
        file: The hand-over file.
        who: Person who takes it over.
        now: Present time (UTC); default: the machine's.

    Raises:
        UserError: The file is invalid, too old or already taken, or a volume does not fit.
    """
    rig = load_checked_rig(rig_path, models=MODELS)
    told = _read(file)
    data.mkdir(parents=True, exist_ok=True)
    asyncio.run(_take(rig, data / "journal.db", told, who, now))
    return told


async def _take(rig: Rig, path: Path, told: Mapping[str, Any], who: str, now: datetime | None) -> None:
    clock = Clock(follow_system=now is None, epoch=now)
    carried_s = max((clock.utc() - datetime.fromisoformat(told["at"])).total_seconds(), 0.0)
    if carried_s > MAX_CARRIED_S:
        raise UserError(
            f"the file is of {told['at']}, {carried_s / 86_400:.0f} days ago; nothing was taken. Likely cause: an old"
            " file, or a clock that is wrong. Next: write it again where the culture is, or set the clock"
        )
    journal = Journal(path, clock, durable=True)
    try:
        parts = _parts(rig)
        if set(parts) != set(told["vessels"]):
            raise UserError(
                f"the file has {', '.join(told['vessels'])}; {rig.name} has {', '.join(parts)}; nothing was taken. Likely"
                " cause: the rigs differ in the number of chambers. Next: take it over on a rig with as many chambers"
            )
        for part, vessel in told["vessels"].items():
            limit_ul = rig.vessels[parts[part]].limit_ul
            if not 0.0 <= vessel["ul"] <= limit_ul:
                raise UserError(
                    f"{vessel['ul'] / 1000:.2f} mL were handed over in the {part}, “{parts[part]}” of {rig.name} holds"
                    f" {limit_ul / 1000:g} mL. Next: move the culture to a rig that is large enough, or remove medium"
                )
        if any(row.body["sha256"] == _hash(told) for row in journal.entries(kinds=("handover.taken",))):
            raise UserError("this file was taken here before; nothing was done")
        ledger = Ledger(rig, journal, clock)
        estimator = Estimator(rig, ledger=ledger, journal=journal, clock=clock, store=StateStore())
        media = {part: _older(rig, parts[part], told["contents"][part], carried_s) for part in told["vessels"]}
        there = MediaState.from_json(told["medium"])
        for part, vessel in told["vessels"].items():
            sd_ul = max(vessel["sd_ul"], CARRIED_REL_SD * vessel["ul"])
            reason = f"handed over by {told['rig']} at {told['at']}"
            user = who or "handover"
            ledger.reconcile(parts[part], vessel["ul"], sd_ul, user=user, reason=reason, medium=media[part])
        estimator.take_over(there, carried_s)
        for hour in told["baseline"]:
            journal.append(ROW, hour)
        body = {key: told[key] for key in ("rig", "at", "vessels", "batches", "last")}
        journal.append("handover.taken", {**body, "sha256": _hash(told), "user": who})
    finally:
        journal.close()


def as_text(told: Mapping[str, Any]) -> str:
    """Return the file as text."""
    lines = [f"the culture of {told['rig']}, as of {told['at']}"]
    for part, vessel in told["vessels"].items():
        lines.append(
            f"  {part:<8}{vessel['ul'] / 1000:>8.2f} ± {vessel['sd_ul'] / 1000:.2f} mL, {vessel['passes']:.1f} times given"
            f" back, {vessel['age_s'] / 86_400:.1f} d old, {vessel['insulin']:.0%} of its insulin"
        )
    lines += [f"  {name}: lot {lot['lot']}" for name, lot in told["batches"].items()]
    grade = told["last"]["note.grade"]
    if grade is not None:
        lines.append(f"  last grade {grade['grade']}, limited by {grade['limiting']}")
    lines.append(f"  {len(told['baseline'])} hours of its baseline")
    lines.append("  not in this file: what it was stimulated with; copy stimulation.db into the other data directory")
    return "\n".join(lines)


def _parts(rig: Rig) -> dict[str, str]:
    """Return the parts that move with the culture: part → vessel of this rig.

    The chambers are `chamber` if there is one, else `chamber 1`, `chamber 2` and so on in the order of the rig file.

    Raises:
        UserError: the rig has no loop.
    """
    if rig.loop is None:
        raise UserError(
            f"{rig.name} has no loop: the file describes circulating medium. Next: move the chambers by hand, and enter their"
            " volumes with `choroid vessel measure`"
        )
    names = ["chamber"] if len(rig.tissue) == 1 else [f"chamber {number}" for number in range(1, len(rig.tissue) + 1)]
    return {"loop": rig.loop, **dict(zip(names, rig.tissue, strict=True))}


def _own_names(medium: dict[str, Any], rig: Rig) -> dict[str, Any]:
    """Return the medium with a unique name if it has no lot: elsewhere, one named after its vessel gets the rig's
    name too.
    """
    for each in (*medium["parcels"], *medium["lots"]):
        if each["lot"].endswith(AT_THE_START):
            each["lot"] = f"{each['lot']}, {rig.name}"
    return medium


def _older(rig: Rig, vessel: str, medium: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return the medium of a vessel `seconds` later, as if it had been carried as warm as it is kept there."""
    try:
        parcel = Parcel(**medium["parcel"])
    except TypeError as error:
        raise UserError(
            f"the file says of the {vessel} what this release does not know ({error}); nothing was taken. Likely cause: a"
            " later release wrote it. Next: use that release here as well"
        ) from error
    return {**medium, "parcel": asdict(MediumAgeing(rig).older(vessel, parcel, seconds))}


def _read(file: Path) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        claimed = told.pop("sha256")
        sound = told["handover"] == FORMAT and claimed == _hash(told) and told["medium"]["version"] == VERSION
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise UserError(
            f"{file} is not a complete hand-over file of format {FORMAT}; nothing was taken. Likely cause: it was edited,"
            " truncated, or written by another release. Next: write it again with `choroid handover RIG --write FILE`"
        )
    return told


def _hash(told: Mapping[str, Any]) -> str:
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
