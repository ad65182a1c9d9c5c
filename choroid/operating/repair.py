"""`choroid repair`: examine and repair a damaged or lost journal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.running.journal_opening import JOURNAL
from controller.core.clock import Clock
from controller.journal.repair import Survey, apply, begin_new_journal, survey

OLD_FILES = "old_files"
"""Key of the folder with the old files in the JSON answer."""


def repair(data: Path, *, do: bool, new_journal: bool = False, reason: str = "") -> dict[str, Any]:
    """Examine the journal in `data`, and repair it if `do`; return findings and actions as plain data.

    Raises:
        UserError: There is no such folder, or a new journal is requested without a reason.
        JournalError: A controller uses the journal, or it cannot be written.
    """
    if not data.is_dir():
        raise UserError(f"there is no data folder {data}. Next: name the folder that `choroid run --data` was given")
    if new_journal and not reason.strip():
        raise UserError('a new journal needs a reason. Next: choroid repair DATA --new-journal --reason "why"')
    return asyncio.run(_repair(data, do=do, new_journal=new_journal, reason=reason))


async def _repair(data: Path, *, do: bool, new_journal: bool, reason: str) -> dict[str, Any]:
    journal, clock = data / JOURNAL, Clock(follow_system=True)
    if new_journal:
        return {
            "needed": True,
            "done": "a new journal begins",
            OLD_FILES: str(begin_new_journal(journal, reason, clock)),
        }
    found = survey(journal)
    answer = _told(found)
    if found.needed and do:
        answer |= {"done": "repaired", OLD_FILES: str(apply(journal, clock))}
    return answer


def _told(found: Survey) -> dict[str, Any]:
    best = found.best
    return {
        "needed": found.needed,
        "journal": str(found.journal),
        "source": best.source,
        "sound_rows": best.rows,
        "sound_until_utc": best.last_utc,
        "damage": best.damage,
        "readable_after": best.readable_after,
        "committed_rows": found.expected,
        "missing_rows": found.missing,
        "other_files": {each.source: each.rows for each in found.others},
        "open_runs": {
            run: {"protocol": best.protocols.get(run, ""), "state": str(best.runs[run])} for run in best.runs
        },
        "open_doses": [
            {"run": dose.run, "step": dose.n, "line": dose.line, "ul": dose.ul} for dose in best.doses.values()
        ],
        "volumes": dict(best.volumes),
        "volumes_utc": best.volumes_utc,
        "degraded": [
            {"file": time.path.name, "rows": len(time.rows), "why": time.why, "damage": time.damage}
            for time in found.degraded
        ],
    }


def as_text(answer: dict[str, Any]) -> str:
    """Return the answer as text."""
    if "journal" not in answer:
        return f"{answer['done']}; the old files are in {answer[OLD_FILES]}"
    lines = _rows(answer)
    for run, told in answer["open_runs"].items():
        lines.append(f"open run                 {run} ({told['protocol']}), {told['state']}: it will be held")
    for dose in answer["open_doses"]:
        lines.append(
            f"dose in doubt            {dose['ul']:g} µL, line {dose['line']}, {dose['run']} step {dose['step']}"
        )
    if answer["volumes"]:
        lines.append(f"volumes at               {answer['volumes_utc']}")
        lines += [f"  {name:<22} {_volume(volume)}" for name, volume in answer["volumes"].items()]
    for time in answer["degraded"]:
        damage = f"; damaged {time['damage']}" if time["damage"] else ""
        lines.append(f"degraded time            {time['file']}: {time['rows']} rows{damage}")
    return "\n".join([*lines, "", _next(answer)])


def _rows(answer: dict[str, Any]) -> list[str]:
    """Return the state of the journal's rows."""
    lines = [
        f"journal                  {answer['journal']}",
        f"valid rows               {answer['sound_rows']}, from {answer['source']}",
        f"last valid row           {answer['sound_until_utc'] or '-'}",
        f"damage                   {answer['damage'] or 'none'}",
    ]
    if answer["missing_rows"]:
        lines.append(
            f"rows lost                {answer['missing_rows']} of {answer['committed_rows']} that were committed"
        )
    if readable := answer["readable_after"]:
        lines.append(f"rows after the damage    {readable} are readable; their chain is broken, so they are not kept")
    return lines


def _next(answer: dict[str, Any]) -> str:
    """Return what was done, and the next action."""
    if "done" in answer:
        return (
            f"{answer['done']}; the old files are kept in {answer[OLD_FILES]}. Next: start the controller, read the\n"
            "levels of all vessels and enter them, then resume or abort what is held"
        )
    if answer["needed"]:
        return "nothing was changed. Next: stop the controller, then `choroid repair DATA --apply`"
    return "nothing to repair"


def _volume(volume: Any) -> str:
    if isinstance(volume, dict) and "ul" in volume and "sd_ul" in volume:
        return f"{volume['ul'] / 1000:.2f} ± {volume['sd_ul'] / 1000:.2f} mL"
    return str(volume)
