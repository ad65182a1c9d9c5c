"""Sections of a report about the medium and its tissue: volumes, grades, viability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo
from html import escape

from choroid.report.chart import chart
from choroid.report.pieces import MAX_ROWS, ML, Rows, ml, section, table
from choroid.report.wording import moment, percent
from controller.figures.course import Slot
from controller.figures.records import Period
from controller.figures.sources import Booked
from controller.figures.story import ScoreRecord
from controller.ledger.flow_paths import FlowPaths
from protocols.care_rating import LABEL
from protocols.tissue.statement import LABEL as ESTIMATE_LABEL
from protocols.tissue.statement import MEANING

LETTERS = "DCBA"
MIN_SHOWN_UL = 5.0


def medium(period: Period, zone: tzinfo) -> str:
    """Return volumes by vessel, line and batch."""
    if period.ledger_begin is None or period.ledger_end is None:
        why = "<p>No data: the journal holds no ledger before the period's end.</p>"
        return section("medium", "Medium", why)
    begin, end = period.ledger_begin, period.ledger_end
    body = _by_vessel(period, begin, end) + _by_line(period) + _totals(begin, end) + _batches(begin, end)
    if period.handled:
        hands: Rows = [
            (
                moment(each.at, zone),
                escape(each.vessel),
                each.what,
                ml(each.ul / ML),
                escape(each.lot),
                escape(each.who),
                escape(each.why),
            )
            for each in period.handled
        ]
        heads = ("@when", "vessel", "what", "#mL", "lot", "who", "why")
        body += "<h3>Filled, set and read by people</h3>" + table(heads, hands, kind="long")
    return section("medium", "Medium", body)


def _by_vessel(period: Period, begin: Booked, end: Booked) -> str:
    """Return the volumes of each vessel."""
    paths = FlowPaths(period.rig)
    changes: dict[str, list[float]] = {name: [] for name in period.rig.vessels}
    for each in period.transfers:
        for name, share in paths.full(each.line).items():
            changes[name].append(share * each.ul)
    rows = []
    for name in period.rig.vessels:
        into = sum(max(change, 0.0) for change in changes[name]) / ML
        out = sum(max(-change, 0.0) for change in changes[name]) / ML
        first, last = begin.volumes[name].ul / ML, end.volumes[name].ul / ML
        rows.append(
            (
                escape(name),
                ml(first),
                ml(into),
                ml(out),
                ml(last - first - into + out),
                ml(last),
                f"± {1.96 * end.volumes[name].sd_ul / ML:.2f}",
            )
        )
    heads: Sequence[str] = (
        "vessel, mL",
        "#at the start",
        "#in",
        "#out",
        "#filled, evaporated, corrected",
        "#at the end",
        "#95 %",
    )
    return "<h3>By vessel</h3>" + table(heads, rows)


def _by_line(period: Period) -> str:
    """Return the transfers along each line; empty without any."""
    lines = period.rig.lines
    moved = []
    for name in lines:
        some = [each for each in period.transfers if each.line == name]
        if some:
            sd = sum(each.sd_ul**2 for each in some) ** 0.5 / ML
            weighed = sum(each.weighed for each in some)
            unclear = sum(each.ended in ("unknown", "overtime", "short", "stopped") for each in some)
            ends = f"{escape(lines[name].from_)} → {escape(lines[name].to)}"
            total = sum(each.ul for each in some) / ML
            cells = (escape(name), ends, str(len(some)), ml(total), f"± {1.96 * sd:.2f}", str(weighed), str(unclear))
            moved.append(cells)
    heads = ("line", "from, to", "#transfers", "#mL", "#95 %", "#seen by the balance", "#not ended as asked")
    return "<h3>By line</h3>" + table(heads, moved) if moved else ""


def _totals(begin: Booked, end: Booked) -> str:
    """Return the changes of the ledger's totals."""
    totals = (
        ("drawn from the loop", end.totals.drawn_ul - begin.totals.drawn_ul),
        ("given back", end.totals.given_back_ul - begin.totals.given_back_ul),
        ("of that, used medium (recycled)", end.totals.recycled_ul - begin.totals.recycled_ul),
        ("fresh", end.totals.fresh_ul - begin.totals.fresh_ul),
        ("discarded", end.totals.discarded_ul - begin.totals.discarded_ul),
        ("filled in by people", end.totals.loaded_ul - begin.totals.loaded_ul),
        ("taken as samples for assays", end.totals.sampled_ul - begin.totals.sampled_ul),
        ("evaporated (declared rate)", end.totals.evaporated_ul - begin.totals.evaporated_ul),
        ("corrected by balance and people (gain > 0)", end.totals.unaccounted_ul - begin.totals.unaccounted_ul),
    )
    return "<h3>Totals of the ledger</h3>" + table(("", "#mL"), [(name, ml(ul / ML)) for name, ul in totals])


def _batches(begin: Booked, end: Booked) -> str:
    """Return where each lot of medium went in the period and where it is."""
    before = {lot["lot"]: lot["passed_ul"] for lot in begin.batches}
    rows: Rows = [
        (
            escape(lot["lot"]),
            escape(lot["medium"]),
            escape(lot["expires_utc"][:10]),
            escape(
                ", ".join(
                    f"{line} {ml((ul - before.get(lot['lot'], {}).get(line, 0.0)) / ML)}"
                    for line, ul in lot["passed_ul"].items()
                )
            ),
            escape(", ".join(f"{vessel} {ml(ul / ML)}" for vessel, ul in lot["now_ul"].items() if ul >= MIN_SHOWN_UL)),
        )
        for lot in end.batches
    ]
    if not rows:
        return "<h3>By batch</h3><p>No data: no lot number is on record.</p>"
    heads = ("lot", "medium", "expires", "went along, mL", "is now in, mL")
    return "<h3>By batch</h3>" + table(heads, rows, kind="long")


def grades(period: Period, zone: tzinfo) -> str:
    """Return the grades of batches and their limiting variables."""
    if not period.grades:
        return section("grades", "Grades", "<p>No data: no batch was graded in the period.</p>")
    slots = [Slot(grade.at, rank, rank, rank) for grade in period.grades if (rank := LETTERS.find(grade.grade)) >= 0]
    plot = chart(
        "grade",
        "",
        [Slot(slot.at, float(slot.mean), float(slot.mean), float(slot.mean)) for slot in slots],
        (period.begin, period.end),
        zone=zone,
        dots=True,
        least=0.0,
        most=3.0,
        names=LETTERS,
    )
    limiting = Counter(grade.limiting for grade in period.grades)
    body = plot + table(
        ("limiting variable", "#batches"), [(escape(name), str(count)) for name, count in limiting.most_common()]
    )
    return section("grades", "Grades", body + _below_a(period, zone))


def _below_a(period: Period, zone: tzinfo) -> str:
    """Return the table of the newest batches below grade A; an empty text without one."""
    worse = [grade for grade in period.grades if grade.grade != "A"][-MAX_ROWS:]
    if not worse:
        return ""
    rows = [
        (
            moment(each.at, zone),
            each.grade,
            percent(each.confidence),
            escape(each.limiting),
            escape("; ".join(each.reasons)),
        )
        for each in worse
    ]
    heads = ("@when", "grade", "#inputs known", "limited by", "reasons")
    return "<h3>Batches below A</h3>" + table(heads, rows, kind="long")


def viability(period: Period, zone: tzinfo) -> str:
    """Return the estimate of viability over time, and the care rating below it."""
    estimates, ratings = period.scores.viability, period.scores.care_rating
    if not estimates and not ratings:
        return section("viability", "Viability", "<p>No data: no score was journalled in the period.</p>")
    body = "<p>No data: no estimate was journalled in the period.</p>"
    if estimates:
        body = _estimate_text(estimates, zone) + _score_chart(
            "viability; the band is its 90 % interval", estimates, period, zone
        )
    if ratings:
        body += "<h3>Care rating</h3>" + _rating_text(ratings, zone)
        body += _score_chart("care rating; the band is its interval", ratings, period, zone)
    return section("viability", "Viability", body)


def _score_chart(title: str, records: Sequence[ScoreRecord], period: Period, zone: tzinfo) -> str:
    slots = [Slot(each.at, each.score, each.low, each.high) for each in records]
    return chart(title, "", slots, (period.begin, period.end), zone=zone, least=0.0, most=1.0)


def _estimate_text(estimates: Sequence[ScoreRecord], zone: tzinfo) -> str:
    """Return what was said of the tissue at the end, and the lowest estimate."""
    lowest = min(estimates, key=lambda each: each.score)
    versions = ", ".join(sorted({each.version for each in estimates}))
    return (
        f"<p><strong>{escape(estimates[-1].text)}</strong></p><p>Lowest median {lowest.score:.2f} ({lowest.low:.2f} to"
        f" {lowest.high:.2f}) on {moment(lowest.at, zone)}; harmful then: {escape(lowest.limiting)}."
        f" {escape(MEANING)}. {escape(ESTIMATE_LABEL.capitalize())}; {escape(versions)}.</p>"
    )


def _rating_text(ratings: Sequence[ScoreRecord], zone: tzinfo) -> str:
    """Return mean, minimum and known inputs of the care rating as a paragraph."""
    worst = min(ratings, key=lambda each: each.score)
    mean = sum(each.score for each in ratings) / len(ratings)
    coverage = sum(each.coverage for each in ratings) / len(ratings)
    versions = ", ".join(sorted({each.version for each in ratings}))
    return (
        f"<p>Mean {mean:.3f}, least {worst.score:.3f} on {moment(worst.at, zone)} (limited by {escape(worst.limiting)});"
        f" {percent(coverage)} of its inputs were known on average, missing ones count as failed."
        f" {escape(LABEL.capitalize())}; {escape(versions)}.</p>"
    )
