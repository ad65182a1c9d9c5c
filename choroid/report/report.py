"""`choroid report`: read a rig's records of a period and report on them."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.report.findings import ReportFinding, findings
from choroid.report.html import html
from choroid.report.images import growth_over
from choroid.report.methods import methods
from choroid.report.period import asked, zone_of
from choroid.report.wording import interval, moment, number, percent, unit_text
from controller.core.clock import Clock
from controller.core.version import software_version
from controller.figures.course import Course
from controller.figures.figure import FigureStatus
from controller.figures.records import Period, Records
from controller.memory.history_reader import HistoryUnreadable
from controller.rig.loading import effective_hash, load_rig
from drivers.registry import MODELS, load_third_party


def report(
    rig_path: Path,
    data: Path,
    *,
    begin: str | None = None,
    end: str | None = None,
    zone: str | None = None,
    html_path: Path | None = None,
    now: float | None = None,
) -> dict[str, Any]:
    """Return the answer of `choroid report --json`; write the HTML to `html_path` if given.

    `now` (UTC seconds; default: the clock's) is the reference of relative periods.

    Raises:
        UserError: Invalid period.
        RigError: The rig file is invalid.
        JournalError: The journal cannot be read.
    """
    load_third_party()
    rig = load_rig(rig_path, models=MODELS)
    now = utc_now() if now is None else now
    days = None if zone is None else zone_of(zone)
    shown: tzinfo = days or UTC
    try:
        with closing(Records(data)) as records:
            wanted = asked(begin, end, now=now, recorded=records.extent(), zone=days)
            period = records.period(rig, wanted.begin, wanted.end)
            told = methods(period, records)
    except HistoryUnreadable as error:
        raise UserError(str(error)) from None
    found = findings(period, now)
    if html_path is not None:
        text = html(period, found, told["text"], zone=shown, made_at=now, release=software_version())
        html_path.write_text(text, encoding="utf-8")
    return (
        _answer(period, found, now, shown) | {"methods": told} | ({} if html_path is None else {"html": str(html_path)})
    )


def as_text(answer: dict[str, Any]) -> str:
    """Return the report for a terminal: findings, then every organ's figures."""
    lines = [f"{answer['rig']}: {answer['shown_from']} to {answer['shown_to']} ({answer['zone']})", ""]
    lines += [f"  {finding['verdict'].upper():<6}{finding['text']}" for finding in answer["findings"]]
    if not answer["findings"]:
        lines.append("  nothing stands out: every figure that has a limit is within it")
    for name, organ in answer["organs"].items():
        lines += ["", f"{name} ({organ['does']})"]
        for figure in organ["figures"].values():
            if figure["value"] is None:
                lines.append(f"  {figure['label']:<46} no data: {figure['why_no_data']}")
                continue
            low, high = figure["low"], figure["high"]
            value = f"{number(figure['value'], low, high)} {unit_text(figure['unit'])}"
            between = interval(figure["value"], low, high)
            covered = percent(figure["coverage"])
            told = "".join((f"  95 %: {between}" if between else "", f"  covered {covered}" if covered else ""))
            lines.append(f"  {figure['label']:<46} {value}{told}")
    lines += ["", f"journal chain: {answer['journal']['verified'] or answer['journal']['problem']} rows verified"]
    if "html" in answer:
        lines.append(f"written to {answer['html']}")
    return "\n".join(lines)


def _answer(period: Period, found: list[ReportFinding], now: float, zone: tzinfo) -> dict[str, Any]:
    """Return everything as plain data."""
    ends = {"from_utc": _iso(period.begin), "to_utc": _iso(period.end)}
    return {
        "rig": period.rig.name,
        "rig_sha256": effective_hash(period.rig),
        "release": software_version(),
        "made_utc": _iso(now),
        **ends,
        "shown_from": moment(period.begin, zone),
        "shown_to": moment(period.end, zone),
        "zone": str(zone),
        "worst": max((finding.verdict for finding in found), default=FigureStatus.GOOD).name.lower(),
        "findings": [finding.to_json() for finding in found],
        "organs": {organ.name: organ.to_json() | ends for organ in period.organs},
        "alarms": [alarm.to_json() for alarm in period.alarms],
        "interventions": [action.to_json() for action in period.actions],
        "runs": [run.to_json() for run in period.runs],
        "grades": [grade.to_json() for grade in period.grades],
        "viability": _viability(period),
        "care_rating": _care_rating(period),
        "images": [record.to_json() | {"growth": growth_over(record)} for record in period.images],
        "vessels_ml": _vessels(period),
        "series": {point: _series(course) for point, course in sorted(period.courses.items())},
        "calibrations": _calibrations(period),
        "probes": [probe.to_json() for probe in period.probes],
        "starts": _starts(period),
        "journal": {
            "verified": period.chain.rows if period.chain.ok else None,
            "head_sha256": period.chain.head,
            "problem": period.chain.problem,
        },
    }


def _viability(period: Period) -> list[dict[str, Any]]:
    return [
        {"at": each.at, "value": each.score, "low": each.low, "high": each.high, "measured": round(each.coverage, 4)}
        for each in period.scores.viability
    ]


def _care_rating(period: Period) -> list[dict[str, Any]]:
    return [
        {"at": each.at, "score": each.score, "low": each.low, "high": each.high, "coverage": each.coverage}
        for each in period.scores.care_rating
    ]


def _series(course: Course) -> dict[str, Any]:
    return {
        "unit": course.unit,
        "mean": course.mean,
        "least": course.least,
        "most": course.most,
        "coverage": round(course.coverage, 6),
        "gaps": [list(gap) for gap in course.gaps],
    }


def _calibrations(period: Period) -> list[dict[str, Any]]:
    return [
        {"point": each.point, "at_utc": each.at_utc, "expires_utc": each.expires_utc} for each in period.calibrations
    ]


def _starts(period: Period) -> list[dict[str, Any]]:
    return [
        {"at": at, "rig": rig, "rig_sha256": digest, "release": release}
        for at, rig, digest, release in period.faults.starts
    ]


def _vessels(period: Period) -> dict[str, Any]:
    if period.ledger_begin is None or period.ledger_end is None:
        return {}
    return {
        name: {
            "begin": round(period.ledger_begin.volumes[name].ul / 1000.0, 3),
            "end": round(volume.ul / 1000.0, 3),
            "end_sd": round(volume.sd_ul / 1000.0, 3),
        }
        for name, volume in period.ledger_end.volumes.items()
    }


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_now() -> float:
    """Return the time of this machine's clock (UTC s)."""

    async def ask() -> float:
        return Clock(follow_system=True).utc().timestamp()

    return asyncio.run(ask())
