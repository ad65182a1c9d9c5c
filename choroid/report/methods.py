"""The paragraph of methods: what was done in a period, in plain English, each number from the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from choroid.report.pieces import ML
from choroid.report.wording import unit_text
from controller.figures.cultures import CULTURE_ROWS, STARTED, Occupancy
from controller.figures.records import Period, Records
from controller.figures.transfers import BookedTransfer, seconds
from controller.ledger.batches import AT_THE_START
from controller.rig.organ_lines import fresh_medium, organ_lines
from controller.rig.probes import chamber_temperature
from controller.tissue.record import MOVED, PLACED, REMOVED

NOT_RECORDED = "not recorded"
DAY_S = 86_400.0
HASH_DIGITS = 12
VOLUMES = (
    ("feed", "fresh medium given"),
    ("draw", "medium drawn from the loop"),
    ("return", "medium returned to the loop"),
    ("discard", "medium discarded"),
    ("glucose", "glucose stock given"),
    ("base", "bicarbonate stock given"),
    ("dialyse", "dialysate used"),
)
"""Purposes of lines, and how their volumes are called."""


def methods(period: Period, records: Records) -> dict[str, Any]:
    """Return `text`, the paragraph, and `figures`, the numbers in it; None stands for what is not recorded.

    Raises:
        JournalError: The journal cannot be read.
    """
    figures: dict[str, Any] = {}
    sentences = [
        _rig(period, records, figures),
        *_cultures(period, records, figures),
        _medium(period, figures),
        _conditions(period, figures),
        _protocols(period, records, figures),
        _volumes(period, figures),
        _assays(period, records, figures),
        _stimulation(period, figures),
        _viability(period, figures),
        _deviations(period, records, figures),
        _record(period, figures),
    ]
    return {"text": " ".join(each for each in sentences if each), "figures": figures}


def _rig(period: Period, records: Records, figures: dict[str, Any]) -> str:
    started = [(seconds(row.utc), row.body) for row in records.journal.entries(kinds=(STARTED,))]
    # The controller that runs at the begin was started before it.
    running = [body for at, body in started if at < period.begin][-1:]
    bodies = running + [body for at, body in started if period.begin <= at < period.end]
    figures["simulated"] = period.rig.simulated
    figures["days"] = (period.end - period.begin) / DAY_S
    figures["releases"] = sorted({str(body["version"]) for body in bodies if body.get("version")})
    figures["rig_sha256"] = sorted({str(body["rig_hash"]) for body in bodies if body.get("rig_hash")})
    releases = " and ".join(figures["releases"]) or NOT_RECORDED
    hashes = " and ".join(digest[:HASH_DIGITS] for digest in figures["rig_sha256"]) or NOT_RECORDED
    simulated = "This rig is simulated: no organoid lived in it. " if period.rig.simulated else ""
    return (
        f"{simulated}Organoids were kept in the rig “{period.rig.name}” (description sha256 {hashes}; software Choroid"
        f" {releases}) from {_time(period.begin)} to {_time(period.end)} ({figures['days']:.2f} days)."
    )


def _cultures(period: Period, records: Records, figures: dict[str, Any]) -> list[str]:
    rows = list(records.journal.entries(kinds=CULTURE_ROWS))
    extent = records.journal.extent()
    occupancy = Occupancy(period.rig, rows, "" if extent is None else extent[0])
    for row in rows:
        if seconds(row.utc) < period.begin:
            occupancy.apply(row)
    inside = Counter(row.kind for row in rows if period.begin <= seconds(row.utc) < period.end)
    figures["cultures"] = [
        {name: getattr(each, name) for name in each.__slots__} for each in occupancy.cultures.values()
    ]
    figures["placed"], figures["moved"], figures["removed"] = inside[PLACED], inside[MOVED], inside[REMOVED]
    told = [
        f"Chamber “{each.chamber}” held {_count(each.organoids, 'organoid')} ({each.diameter_mm:g} mm in diameter and"
        f" {each.age_d:g} days old when described; batch {each.batch or NOT_RECORDED}, cell line"
        f" {each.cell_line or NOT_RECORDED})."
        for each in occupancy.cultures.values()
    ] or ["No tissue is recorded at the begin."]
    if inside[PLACED] + inside[MOVED] + inside[REMOVED]:
        told.append(
            f"People placed tissue {_count(inside[PLACED], 'time')}, moved it {_count(inside[MOVED], 'time')} and removed it"
            f" {_count(inside[REMOVED], 'time')}."
        )
    return told


def _medium(period: Period, figures: dict[str, Any]) -> str:
    try:
        medium = fresh_medium(period.rig)
    except ValueError:
        medium = NOT_RECORDED
    begin, end = period.ledger_begin, period.ledger_end
    figures["medium"] = None if medium == NOT_RECORDED else medium
    before = {} if begin is None else {lot["lot"]: sum(lot["passed_ul"].values()) for lot in begin.batches}
    figures["lots"] = [
        f"{lot['lot']} ({lot['medium']})"
        for lot in (() if end is None else end.batches)
        if medium in (lot["medium"], NOT_RECORDED)
        and not lot["lot"].endswith(AT_THE_START)
        and sum(lot["passed_ul"].values()) > before.get(lot["lot"], 0.0)
    ]
    figures["bottles"] = sum(each.what in ("refilled with", "topped up with") for each in period.handled)
    named = ", ".join(figures["lots"]) or NOT_RECORDED
    filled = _count(figures["bottles"], "time")
    return f"The medium was “{medium}”, lots {named}; vessels were filled by people {filled}."


def _conditions(period: Period, figures: dict[str, Any]) -> str:
    rig = period.rig
    hearts = [
        (f"flow through {name}", f"{rig.lines[heart.line].pump}.flow") for name, heart in rig.organs.hearts.items()
    ]
    wanted = [*hearts, ("temperature of the chamber", chamber_temperature(rig) or "")]
    lung = rig.organs.lung
    if lung is not None:
        wanted += [("flow of air", lung.air), ("flow of CO2", lung.co2), ("flow of oxygen", lung.o2)]
        wanted += [("dissolved oxygen", lung.oxygen), ("pH", lung.ph)]
    told = []
    figures["conditions"] = {}
    for name, point in wanted:
        course = period.courses.get(point) or period.courses.get(f"{point}.flow")
        if course is None:
            figures["conditions"][name] = None
            told.append(f"{name} {NOT_RECORDED}")
            continue
        figures["conditions"][name] = {
            "point": course.point,
            "mean": course.mean,
            "least": course.least,
            "most": course.most,
            "unit": course.unit,
            "coverage": course.coverage,
        }
        told.append(
            f"{name} {course.mean:.4g} {unit_text(course.unit)} ({course.least:.4g} to {course.most:.4g}; recorded"
            f" {course.coverage:.1%} of the time)"
        )
    return f"Means over the period: {'; '.join(told)}."


def _protocols(period: Period, records: Records, figures: dict[str, Any]) -> str:
    started = {row.run: row.body for row in records.journal.entries(kinds=("run.start",))}
    figures["runs"] = [
        {"run": run.id, "protocol": run.protocol, "sha256": started[run.id].get("source_sha256")} for run in period.runs
    ]
    groups = Counter((each["protocol"], each["sha256"]) for each in figures["runs"])
    named = [
        f"{name} ({f'source sha256 {digest[:HASH_DIGITS]}' if digest else f'source {NOT_RECORDED}'}; {_count(count, 'run')})"
        for (name, digest), count in groups.items()
    ]
    return f"Protocols: {', '.join(named)}." if named else "No protocol ran."


def _volumes(period: Period, figures: dict[str, Any]) -> str:
    purposes = {each.line: each.key for each in organ_lines(period.rig)}
    kidney = period.rig.organs.kidney
    if kidney is not None and kidney.dialyse is not None:
        purposes[kidney.dialyse] = "dialyse"
    figures["volumes"] = {}
    told = []
    for purpose, name in VOLUMES:
        some = [each for each in period.transfers if purposes.get(each.line) == purpose]
        if purpose not in purposes.values():
            continue
        ml, sd = _sum_ml(some)
        figures["volumes"][purpose] = {"transfers": len(some), "ml": ml, "sd_ml": sd}
        told.append(f"{name} {ml:.2f} ± {sd:.2f} mL in {_count(len(some), 'transfer')}" if some else f"{name} 0 mL")
    begin, end = period.ledger_begin, period.ledger_end
    figures["recycled_share"] = None
    if begin is not None and end is not None:
        recycled = end.totals.recycled_ul - begin.totals.recycled_ul
        fresh = end.totals.fresh_ul - begin.totals.fresh_ul
        if recycled + fresh > 0.0:
            figures["recycled_share"] = recycled / (recycled + fresh)
            told.append(f"{figures['recycled_share']:.0%} of what entered the loop was used medium")
    return f"By the ledger (± standard deviation): {'; '.join(told)}." if told else ""


def _assays(period: Period, records: Records, figures: dict[str, Any]) -> str:
    done: Counter[tuple[str, str]] = Counter()
    for row in records.journal.entries(kinds=("assay",)):
        taken = row.body.get("taken_utc")
        within = period.begin <= seconds(taken if isinstance(taken, str) else row.utc) < period.end
        if within and row.body.get("used", True):
            done[str(row.body["analyte"]), str(row.body.get("method") or "")] += 1
    figures["assays"] = [
        {"analyte": name, "method": method or None, "n": n} for (name, method), n in sorted(done.items())
    ]
    named = [f"{name} {n} (method {method or NOT_RECORDED})" for (name, method), n in sorted(done.items())]
    return f"Assays of samples: {', '.join(named)}." if named else "No assay is recorded."


def _stimulation(period: Period, figures: dict[str, Any]) -> str:
    nerves = next((organ for organ in period.organs if organ.name == "nerves"), None)
    found = {} if nerves is None else {each.key: each.value for each in nerves.figures}
    figures["pulses"], figures["charge_nc"] = found.get("pulses"), found.get("charge")
    if figures["pulses"] is None:
        return "Electrical stimulation is not recorded."
    return f"Electrical stimulation: {figures['pulses']:.0f} pulses, {figures['charge_nc'] or 0.0:.4g} nC in all."


def _viability(period: Period, figures: dict[str, Any]) -> str:
    found = period.scores.viability
    figures["viability"] = None
    if not found:
        return "Viability was not estimated."
    versions = sorted({each.version for each in found})
    lowest, last = min(found, key=lambda each: each.score), found[-1]
    figures["viability"] = {"n": len(found), "versions": versions, "lowest": lowest.score, "last": last.score}
    return (
        f"Viability was estimated {_count(len(found), 'time')} ({', '.join(versions)}): lowest median {lowest.score:.2f}, at"
        f" the end {last.score:.2f} (90 % interval {last.low:.2f} to {last.high:.2f})."
    )


def _deviations(period: Period, records: Records, figures: dict[str, Any]) -> str:
    holds = [(begin, end) for run in period.runs for begin, end in run.held]
    first, last = (
        datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds") for at in (period.begin, period.end)
    )
    ends = (first.replace("+00:00", "Z"), last.replace("+00:00", "Z"))
    kinds = Counter(
        row.kind
        for row in records.journal.between(*ends, ("alarm.raised", "safety.trip", "safety.estop", "act.refused"))
    )
    figures["alarms"], figures["interlocks"] = kinds["alarm.raised"], kinds["safety.trip"]
    figures["emergency_stops"], figures["refused"] = kinds["safety.estop"], kinds["act.refused"]
    figures["holds"], figures["held_h"] = len(holds), sum(end - begin for begin, end in holds) / 3600.0
    alarms = sorted({alarm.alarm.partition(":")[0] for alarm in period.alarms})
    named = f" ({', '.join(alarms)})" if alarms else ""
    starts = len(period.faults.starts)
    figures["starts"] = starts
    return (
        f"Deviations: {_count(figures['alarms'], 'alarm')}{named}, {_count(figures['interlocks'], 'interlock trip')},"
        f" {_count(figures['emergency_stops'], 'emergency stop')}, {_count(len(holds), 'hold')} of protocols"
        f" ({figures['held_h']:.1f} hours), {_count(starts, 'start')} of the controller; excluded intervals {NOT_RECORDED}."
    )


def _record(period: Period, figures: dict[str, Any]) -> str:
    figures["journal_rows"] = period.chain.rows if period.chain.ok else None
    if not period.chain.ok:
        return f"The hash chain of the journal does not hold: {period.chain.problem}."
    head = period.chain.head[:HASH_DIGITS]
    return (
        f"All figures are those of the journal ({period.chain.rows} rows verified, head sha256 {head}) and the history."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _sum_ml(some: Sequence[BookedTransfer]) -> tuple[float, float]:
    return sum(each.ul for each in some) / ML, sum(each.sd_ul**2 for each in some) ** 0.5 / ML


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
