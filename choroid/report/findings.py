"""Findings of a period, the worst first: everything that is not as it should be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from choroid.report.wording import duration, percent, quantity
from controller.figures.figure import FigureStatus
from controller.figures.records import Period
from controller.rig.loading import effective_hash

MIN_COVERAGE = (0.95, 0.80)
"""Coverage limits of a series: below the first it has gaps to check, below the second its figures are doubtful."""
LOW_VIABILITY = (0.8, 0.5)
WIDE = 0.5
"""Width of the 90 % interval from which an estimate of viability says too little."""
MIN_KNOWN = 0.5
"""Minimum known share of the inputs of a care rating: below it the rating shows how little is known of the tissue."""
WORST_LETTERS = {"C": FigureStatus.WATCH, "D": FigureStatus.BAD}


@dataclass(frozen=True, slots=True)
class ReportFinding:
    """One finding: how bad, in which section (its HTML anchor), and what."""

    verdict: FigureStatus
    section: str
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"verdict": self.verdict.name.lower(), "section": self.section, "text": self.text}


def findings(period: Period, now: float) -> list[ReportFinding]:
    """Return everything bad or to be watched, the worst first; `now` (UTC seconds) decides what has expired."""
    found = [
        *_record(period),
        *_alarms(period),
        *_organs(period),
        *_medium(period),
        *_viability(period),
        *_coverage(period),
        *_calibrations(period, now),
        *_runs(period),
    ]
    return sorted(found, key=lambda finding: -finding.verdict)


def _record(period: Period) -> list[ReportFinding]:
    found = []
    if not period.chain.ok:
        found.append(
            ReportFinding(FigureStatus.BAD, "record", f"the journal's chain is broken: {period.chain.problem}")
        )
    starts = period.faults.starts
    here = effective_hash(period.rig)
    if any(start[2] != here for start in starts):
        text = (
            "the rig ran on another description than the file given here (a file edited since, or another release of"
            " Choroid); figures are judged by the set-points of the file"
        )
        found.append(ReportFinding(FigureStatus.WATCH, "record", text))
    if len({start[2] for start in starts}) > 1:
        found.append(ReportFinding(FigureStatus.WATCH, "record", "the rig's description was changed within the period"))
    if len(starts) > 1:
        found.append(ReportFinding(FigureStatus.WATCH, "faults", f"the controller was started {len(starts)} times"))
    return found


def _alarms(period: Period) -> list[ReportFinding]:
    found = []
    for alarm in period.alarms:
        urgent = alarm.priority in ("critical", "high")
        if alarm.standing:
            verdict = FigureStatus.BAD if urgent else FigureStatus.WATCH
            found.append(
                ReportFinding(verdict, "alarms", f"alarm {alarm.alarm} stands at the period's end: {alarm.detail}")
            )
        elif urgent:
            text = f"{alarm.priority} alarm {alarm.alarm}, {alarm.count} ×"
            found.append(ReportFinding(FigureStatus.WATCH, "alarms", text))
        if alarm.late and alarm.within_s is not None:
            text = f"alarm {alarm.alarm} was not acknowledged within {duration(alarm.within_s)}, {alarm.late} ×"
            found.append(ReportFinding(FigureStatus.BAD if urgent else FigureStatus.WATCH, "alarms", text))
    return found


def _organs(period: Period) -> list[ReportFinding]:
    found = []
    for organ in period.organs:
        for figure in organ.figures:
            if figure.verdict >= FigureStatus.WATCH and figure.value is not None:
                text = f"{organ.name}: {figure.label} {quantity(figure.value, figure.unit)}; {figure.limit}"
                found.append(ReportFinding(figure.verdict, f"organ-{organ.name}", text))
    return found


def _medium(period: Period) -> list[ReportFinding]:
    found = []
    for letter, verdict in WORST_LETTERS.items():
        graded = [grade for grade in period.grades if grade.grade == letter]
        if graded:
            text = f"{len(graded)} of {len(period.grades)} batches graded {letter}, the last limited by {graded[-1].limiting}"
            found.append(ReportFinding(verdict, "grades", text))
    return found


def _viability(period: Period) -> list[ReportFinding]:
    """Return what the estimates say: low even at the high end of their interval, or too wide to say anything."""
    found = []
    wide = [each for each in period.scores.viability if each.high - each.low > WIDE]
    if wide:
        count = f"{len(wide)} of {len(period.scores.viability)}"
        text = f"{count} estimates of viability are wider than {WIDE:g}: too little is measured"
        found.append(ReportFinding(FigureStatus.WATCH, "viability", text))
    watch, bad = LOW_VIABILITY
    worst = min(period.scores.viability, key=lambda each: each.high, default=None)
    if worst is not None and worst.high < watch:
        verdict = FigureStatus.BAD if worst.high < bad else FigureStatus.WATCH
        text = f"viability fell to {worst.low:.2f} to {worst.high:.2f}; harmful then: {worst.limiting}"
        found.append(ReportFinding(verdict, "viability", text))
    return found + _care_rating(period)


def _care_rating(period: Period) -> list[ReportFinding]:
    known = [score for score in period.scores.care_rating if score.coverage >= MIN_KNOWN]
    watch, bad = LOW_VIABILITY
    worst = min(known, key=lambda score: score.score, default=None)
    if worst is None or worst.score >= watch:
        return []
    verdict = FigureStatus.BAD if worst.score < bad else FigureStatus.WATCH
    text = f"the care rating fell to {worst.score:.2f}, limited by {worst.limiting}"
    return [ReportFinding(verdict, "viability", text)]


def _coverage(period: Period) -> list[ReportFinding]:
    """Return one line for all series that share a verdict: one lost cable must not fill a page."""
    watch, bad = MIN_COVERAGE
    shares = {point: course.coverage for point, course in period.courses.items()}
    found = []
    for verdict, low, high in ((FigureStatus.BAD, -1.0, bad), (FigureStatus.WATCH, bad, watch)):
        gappy = sorted((share, point) for point, share in shares.items() if low <= share < high)
        if gappy:
            named = ", ".join(f"{point} {percent(share)}" for share, point in gappy[:4])
            more = f" and {len(gappy) - 4} more" if len(gappy) > 4 else ""
            found.append(ReportFinding(verdict, "faults", f"data are missing: {named}{more} of the period covered"))
    return found


def _calibrations(period: Period, now: float) -> list[ReportFinding]:
    found = []
    for record in period.calibrations:
        if record.expired(_iso(now)):
            text = f"the calibration of {record.point} ran out on {record.expires_utc[:10]}"
            found.append(ReportFinding(FigureStatus.WATCH, "calibrations", text))
    for probe in period.probes:
        if probe.faults:
            text = f"{probe.point} is not fit for use: {'; '.join(probe.faults)}"
            found.append(ReportFinding(FigureStatus.BAD, "calibrations", text))
    if not period.calibrations:
        found.append(ReportFinding(FigureStatus.WATCH, "calibrations", "no pump or sensor has a calibration on record"))
    return found


def _runs(period: Period) -> list[ReportFinding]:
    found = []
    for run in period.runs:
        held_s = sum(end - begin for begin, end in run.held)
        if run.state in ("held", "holding"):
            said = f": {run.messages[-1][1]}" if run.messages else ""
            found.append(
                ReportFinding(FigureStatus.BAD, "protocols", f"run {run.id} ({run.protocol}) waits for a person{said}")
            )
        elif held_s > 0:
            text = f"run {run.id} ({run.protocol}) was held {len(run.held)} ×, {duration(held_s)} in all"
            found.append(ReportFinding(FigureStatus.WATCH, "protocols", text))
    return found


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
