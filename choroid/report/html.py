"""The report as one HTML file: no script, nothing from elsewhere, and a style sheet for paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo
from html import escape

from choroid.report.chart import chart
from choroid.report.findings import Finding
from choroid.report.style import CSS
from choroid.report.wording import duration, interval, moment, number, percent, unit_text
from controller.figures.course import Course, Slot
from controller.figures.figure import Figure, Verdict
from controller.figures.organs import Organ, bands_of
from controller.figures.records import Period
from controller.figures.sources import Booked
from controller.rig.loading import effective_hash
from protocols.viability import LABEL

ML = 1000.0
MOST_ROWS = 60
"""Longer tables tell their newest rows and how many there are."""
LETTERS = "DCBA"
LEAST_SHOWN_UL = 5.0
CELLS = {"#": "n", "@": "w"}
NOTE = (
    "Organ figures are human-metric-compatible: they are the figures by which the human device of that name is judged,"
    " computed from this rig's records. Intervals are 95 %. Limits marked “proposed” are this project's, not a standard's."
)
SECTIONS = (
    ("summary", "Summary"),
    ("alarms", "Alarms"),
    ("people", "Interventions"),
    ("protocols", "Protocols"),
    ("medium", "Medium"),
    ("grades", "Grades"),
    ("viability", "Viability"),
    ("organs", "Organs"),
    ("calibrations", "Calibrations"),
    ("faults", "Faults and gaps"),
    ("record", "Record"),
)

Rows = Iterable[Sequence[str]]


def html(period: Period, found: Sequence[Finding], *, zone: tzinfo, made_at: float, release: str) -> str:
    """The whole report. `made_at` is UTC seconds; all times are shown in `zone`."""
    rig = period.rig
    title = f"{rig.name}: {moment(period.begin, zone)} to {moment(period.end, zone)}"
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{CSS}</style></head><body>",
        f'<header><h1>{escape(rig.name)}</h1><p class="faint">{escape(rig.description)}</p>',
        f"<p>{moment(period.begin, zone)} to {moment(period.end, zone)} ({escape(str(zone))},"
        f" {duration(period.end - period.begin)}); written {moment(made_at, zone)} by Choroid {escape(release)}</p>",
        "<nav>" + "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name in SECTIONS) + "</nav></header>",
        _summary(period, found),
        _alarms(period),
        _people(period, zone),
        _protocols(period, zone),
        _medium(period, zone),
        _grades(period, zone),
        _viability(period, zone),
        _organs(period, zone),
        _calibrations(period, made_at, zone),
        _faults(period, zone),
        _record(period, zone),
        "</body></html>\n",
    ]
    return "\n".join(parts)


# --- sections -------------------------------------------------------------------------------------------


def _summary(period: Period, found: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in found)
    graded = Counter(grade.grade for grade in period.grades)
    scores = [score.score for score in period.scores]
    recycled = _figure(period, "kidney", "recycled_share")
    raised = sum(alarm.count for alarm in period.alarms)
    tiles = (
        (f"{counts[Verdict.BAD]} bad, {counts[Verdict.WATCH]} to watch", "findings"),
        (f"{raised} raised, {sum(alarm.standing for alarm in period.alarms)} standing", "alarms"),
        (", ".join(f"{graded[letter]} {letter}" for letter in "ABCD" if graded[letter]) or "none", "batches graded"),
        (f"{min(scores):.2f} to {max(scores):.2f}" if scores else "no data", "viability score (0 to 1)"),
        ("no data" if recycled.value is None else f"{recycled.value:.0f} %", "of medium entering the loop was reused"),
        (_told(_figure(period, "gut", "fresh")), "fresh medium used"),
        (percent(_coverage(period)), "of the period covered, all series"),
        (f"{period.chain.rows:,} rows".replace(",", "\u202f") if period.chain.ok else "broken", "journal chain"),
    )
    body = '<div class="grid">' + "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in tiles
    )
    body += "</div>"
    if found:
        items = "".join(
            f'<li>{_mark(finding.verdict)}<a href="#{finding.section}">{escape(finding.text)}</a></li>'
            for finding in found
        )
        body += f'<ul class="findings">{items}</ul>'
    else:
        body += "<p>Nothing stands out: every figure that has a limit is within it.</p>"
    organs = [
        (
            f'<a href="#organ-{organ.name}">{organ.name}</a>',
            escape(organ.does),
            _mark(organ.verdict),
            str(sum(figure.value is not None for figure in organ.figures)),
            str(sum(figure.value is None for figure in organ.figures)),
        )
        for organ in sorted(period.organs, key=lambda organ: -organ.verdict)
    ]
    body += _table(("organ", "", "worst figure", "#figures", "#without data"), organs)
    return _section("summary", "Summary", body + f'<p class="basis">{escape(NOTE)}</p>')


def _alarms(period: Period) -> str:
    rows = [
        (
            f'{escape(alarm.alarm)}<br><span class="basis">{escape(alarm.detail)}</span>',
            escape(alarm.priority),
            str(alarm.count),
            str(alarm.times),
            str(alarm.acknowledged),
            "" if alarm.median_ack_s is None else duration(alarm.median_ack_s),
            "" if alarm.longest_ack_s is None else duration(alarm.longest_ack_s),
            "" if alarm.within_s is None else duration(alarm.within_s),
            str(alarm.late),
            "yes" if alarm.standing else "",
        )
        for alarm in period.alarms
    ]
    if not rows:
        return _section("alarms", "Alarms", "<p>No alarm stood at any time in the period.</p>")
    heads = (
        "alarm", "@priority", "#raised", "#causes", "#seen", "#seen after, median", "#at the latest", "#due within", "#late",
        "stands",
    )  # fmt: skip
    return _section("alarms", "Alarms", _table(heads, rows))


def _people(period: Period, zone: tzinfo) -> str:
    if not period.deeds:
        return _section("people", "Interventions by people", "<p>Nobody intervened in the period.</p>")
    rows = [
        (moment(deed.at, zone), escape(deed.who), escape(deed.what), escape(deed.why), str(deed.seq))
        for deed in period.deeds
    ]
    told = (
        f"<p>The newest {len(period.deeds)} of {len(period.deeds) + period.deeds_untold}.</p>"
        if period.deeds_untold
        else ""
    )
    heads = ("@when", "who", "what", "why", "#journal row")
    return _section("people", "Interventions by people", told + _table(heads, rows, kind="long"))


def _protocols(period: Period, zone: tzinfo) -> str:
    if not period.runs:
        return _section("protocols", "Protocols run", "<p>No protocol was under way in the period.</p>")
    rows = []
    for run in period.runs:
        held_s = sum(end - begin for begin, end in run.held)
        rows.append(
            (
                escape(run.id),
                escape(run.protocol),
                escape(run.user),
                moment(run.started, zone),
                "" if run.ended is None else moment(run.ended, zone),
                escape(run.state),
                f"{run.done} of {run.steps}",
                f"{len(run.held)} × {duration(held_s)}" if run.held else "",
            )
        )
    heads = ("@run", "protocol", "by", "@started", "@ended", "state at the end", "#steps done", "held")
    body = _table(heads, rows)
    messages = [
        (moment(at, zone), escape(run.id), escape(text))
        for run in period.runs
        for at, text in run.messages[-MOST_ROWS:]
    ]
    if messages:
        body += "<h3>What they said</h3>" + _table(("@when", "@run", "message"), messages, kind="long")
    return _section("protocols", "Protocols run", body)


def _medium(period: Period, zone: tzinfo) -> str:
    if period.ledger_begin is None or period.ledger_end is None:
        why = "<p>No data: the journal holds no ledger before the period's end.</p>"
        return _section("medium", "Medium", why)
    begin, end, lines = period.ledger_begin, period.ledger_end, period.rig.lines
    rows = []
    for name in period.rig.vessels:
        into = sum(each.ul for each in period.transfers if lines[each.line].to == name) / ML
        out = sum(each.ul for each in period.transfers if lines[each.line].from_ == name) / ML
        first, last = begin.volumes[name].ul / ML, end.volumes[name].ul / ML
        rows.append(
            (
                escape(name),
                _ml(first),
                _ml(into),
                _ml(out),
                _ml(last - first - into + out),
                _ml(last),
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
    body = "<h3>By vessel</h3>" + _table(heads, rows)
    moved = []
    for name in lines:
        some = [each for each in period.transfers if each.line == name]
        if some:
            sd = sum(each.sd_ul**2 for each in some) ** 0.5 / ML
            weighed = sum(each.weighed for each in some)
            unclear = sum(each.ended in ("unknown", "overtime", "short", "stopped") for each in some)
            ends = f"{escape(lines[name].from_)} → {escape(lines[name].to)}"
            total = sum(each.ul for each in some) / ML
            cells = (escape(name), ends, str(len(some)), _ml(total), f"± {1.96 * sd:.2f}", str(weighed), str(unclear))
            moved.append(cells)
    if moved:
        heads = ("line", "from, to", "#transfers", "#mL", "#95 %", "#seen by the balance", "#not ended as asked")
        body += "<h3>By line</h3>" + _table(heads, moved)
    totals = (
        ("drawn from the loop", end.totals.drawn_ul - begin.totals.drawn_ul),
        ("given back", end.totals.given_back_ul - begin.totals.given_back_ul),
        ("of that, used medium (recycled)", end.totals.recycled_ul - begin.totals.recycled_ul),
        ("fresh", end.totals.fresh_ul - begin.totals.fresh_ul),
        ("discarded", end.totals.discarded_ul - begin.totals.discarded_ul),
        ("filled in by people", end.totals.loaded_ul - begin.totals.loaded_ul),
        ("evaporated (declared rate)", end.totals.evaporated_ul - begin.totals.evaporated_ul),
        ("corrected by balance and people (gain > 0)", end.totals.unaccounted_ul - begin.totals.unaccounted_ul),
    )
    body += "<h3>Totals of the ledger</h3>" + _table(("", "#mL"), [(name, _ml(ul / ML)) for name, ul in totals])
    body += _batches(begin, end)
    if period.handled:
        hands: Rows = [
            (
                moment(each.at, zone),
                escape(each.vessel),
                each.what,
                _ml(each.ul / ML),
                escape(each.lot),
                escape(each.who),
                escape(each.why),
            )
            for each in period.handled
        ]
        heads = ("@when", "vessel", "what", "#mL", "lot", "who", "why")
        body += "<h3>Filled, set and read by people</h3>" + _table(heads, hands, kind="long")
    return _section("medium", "Medium", body)


def _batches(begin: Booked, end: Booked) -> str:
    """Where each lot of medium went in the period and where it is."""
    before = {lot["lot"]: lot["passed_ul"] for lot in begin.batches}
    rows: Rows = [
        (
            escape(lot["lot"]),
            escape(lot["medium"]),
            escape(lot["expires_utc"][:10]),
            escape(
                ", ".join(
                    f"{line} {_ml((ul - before.get(lot['lot'], {}).get(line, 0.0)) / ML)}"
                    for line, ul in lot["passed_ul"].items()
                )
            ),
            escape(
                ", ".join(f"{vessel} {_ml(ul / ML)}" for vessel, ul in lot["now_ul"].items() if ul >= LEAST_SHOWN_UL)
            ),
        )
        for lot in end.batches
    ]
    if not rows:
        return "<h3>By batch</h3><p>No data: no lot number is on record.</p>"
    heads = ("lot", "medium", "expires", "went along, mL", "is now in, mL")
    return "<h3>By batch</h3>" + _table(heads, rows, kind="long")


def _grades(period: Period, zone: tzinfo) -> str:
    if not period.grades:
        return _section("grades", "Grades", "<p>No data: no batch was graded in the period.</p>")
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
    body = plot + _table(
        ("limiting variable", "#batches"), [(escape(name), str(count)) for name, count in limiting.most_common()]
    )
    worse = [grade for grade in period.grades if grade.grade != "A"][-MOST_ROWS:]
    if worse:
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
        body += "<h3>Batches below A</h3>" + _table(heads, rows, kind="long")
    return _section("grades", "Grades", body)


def _viability(period: Period, zone: tzinfo) -> str:
    if not period.scores:
        return _section("viability", "Viability", "<p>No data: no score was journalled in the period.</p>")
    slots = [
        Slot(
            each.at,
            each.score,
            each.score if each.low is None else each.low,
            each.score if each.high is None else each.high,
        )
        for each in period.scores
    ]
    worst = min(period.scores, key=lambda each: each.score)
    known = [each for each in period.scores if each.low is not None]
    shown = "the band is its interval" if known else "the release that wrote it told no interval"
    mean = sum(each.score for each in period.scores) / len(period.scores)
    coverage = sum(each.coverage for each in period.scores) / len(period.scores)
    versions = ", ".join(sorted({each.version for each in period.scores}))
    body = (
        f"<p>Mean {mean:.3f}, least {worst.score:.3f} on {moment(worst.at, zone)} (limited by {escape(worst.limiting)});"
        f" {percent(coverage)} of its inputs were known on average. {escape(LABEL.capitalize())}; {escape(versions)}.</p>"
    )
    plot = chart(f"viability score; {shown}", "", slots, (period.begin, period.end), zone=zone, least=0.0, most=1.0)
    return _section("viability", "Viability", body + plot)


def _organs(period: Period, zone: tzinfo) -> str:
    order = sorted(period.organs, key=lambda organ: -organ.verdict)
    return _section("organs", "Organs", "".join(_organ(period, organ, zone) for organ in order), page=True)


def _organ(period: Period, organ: Organ, zone: tzinfo) -> str:
    rows = [_figure_row(figure) for figure in organ.figures if figure.value is not None]
    reasons: dict[str, list[str]] = {}
    for figure in organ.figures:
        if figure.value is None:
            reasons.setdefault(figure.why, []).append(figure.label)
    rows += [_missing_row(labels, why) for why, labels in reasons.items()]
    heads = ("figure", "#value", "@unit", "#95 % interval", "#covered", "", "from")
    bands = bands_of(period.rig)
    plots = "".join(
        chart(point, unit_text(course.unit), course.slots, (period.begin, period.end), band=bands.get(point), zone=zone)
        for point in organ.series
        if (course := period.courses.get(point)) is not None
    )
    head = f'<h3 id="organ-{organ.name}">{organ.name.capitalize()} <span class="faint">{escape(organ.does)}</span></h3>'
    return f'<section class="organ">{head}{_table(heads, rows, kind="figures")}{plots}</section>'


def _figure_row(figure: Figure) -> Sequence[str]:
    if figure.value is None:
        raise ValueError(f"{figure.key} has no value")
    limit = f"; {figure.limit}" if figure.limit else ""
    return (
        escape(figure.label),
        number(figure.value, figure.low, figure.high),
        escape(unit_text(figure.unit)),
        interval(figure.value, figure.low, figure.high),
        percent(figure.coverage),
        _mark(figure.verdict) if figure.verdict else "",
        f'<span class="basis">{escape(figure.basis + limit)}</span>',
    )


def _missing_row(labels: Sequence[str], why: str) -> Sequence[str]:
    """Figures without data for one and the same reason."""
    return (escape(", ".join(labels)), "no data", "", "", "", "", f'<span class="basis">{escape(why)}</span>')


def _calibrations(period: Period, now: float, zone: tzinfo) -> str:
    if not period.calibrations:
        text = "<p>No data: no calibration is on record (<code>choroid calibrate</code>).</p>"
        return _section("calibrations", "Calibrations", text)
    rows = []
    for each in period.calibrations:
        expires = _seconds(each.expires_utc)
        state = "run out" if expires <= now else f"for another {duration(expires - now)}"
        true = f"true = {each.gain:.4g} × read" + (f" {each.offset:+.3g} {each.unit}" if each.offset else "")
        at, until = moment(_seconds(each.at_utc), zone), moment(expires, zone)
        rows.append((escape(each.point), escape(each.method), at, escape(each.by), escape(true), until, state))
    heads = ("point", "by", "@when", "who", "result", "@valid until", "")
    return _section("calibrations", "Calibrations", _table(heads, rows))


def _faults(period: Period, zone: tzinfo) -> str:
    faults = period.faults
    body = ""
    for head, some in (
        ("Interlocks that tripped", faults.trips),
        ("Commands that failed", faults.failures),
        ("Commands that the gate refused", faults.refusals),
    ):
        if some:
            rows = [(moment(at, zone), escape(text)) for at, text in some[-MOST_ROWS:]]
            more = f" (the newest {MOST_ROWS} of {len(some)})" if len(some) > MOST_ROWS else ""
            body += f"<h3>{head}{more}</h3>" + _table(("@when", "what"), rows, kind="long")
    if faults.untold:
        body += f"<p>{faults.untold} more are in the journal.</p>"
    if not body:
        body = "<p>No interlock tripped, no command failed or was refused.</p>"
    gaps = [
        (
            escape(point),
            percent(course.coverage),
            str(len(course.gaps)),
            _longest(course, zone),
        )
        for point, course in sorted(period.courses.items(), key=lambda item: item[1].coverage)
        if course.gaps or course.coverage < 0.999
    ]
    body += "<h3>Gaps in the data</h3>"
    if gaps:
        body += _table(("series", "#covered", "#gaps", "the longest"), gaps, kind="long")
    else:
        body += f"<p>None: all {len(period.courses)} series cover the whole period.</p>"
    return _section("faults", "Faults and gaps in the data", body)


def _record(period: Period, zone: tzinfo) -> str:
    chain = period.chain
    said = f"verified, {chain.rows:,} rows".replace(",", "\u202f") if chain.ok else f"BROKEN: {chain.problem}"
    rows = [
        ("journal chain", escape(said)),
        ("head of the chain (sha256)", f"<code>{chain.head}</code>"),
        ("rig file given here (sha256)", f"<code>{effective_hash(period.rig)}</code>"),
    ]
    body = _table(("", ""), rows)
    starts = [
        (moment(at, zone), escape(rig), escape(release or "not told"), f"<code>{digest}</code>")
        for at, rig, digest, release in period.faults.starts[-MOST_ROWS:]
    ]
    if starts:
        body += "<h3>Starts of the controller</h3>" + _table(
            ("@when", "rig", "release", "rig description (sha256)"), starts
        )
    else:
        body += "<p>The controller was not started in the period; it ran through or not at all.</p>"
    return _section("record", "Record", body)


# --- pieces ---------------------------------------------------------------------------------------------


def _section(anchor: str, title: str, body: str, *, page: bool = False) -> str:
    kind = ' class="page"' if page else ""
    return f'<section id="{anchor}"{kind}><h2>{title}</h2>{body}</section>'


def _table(heads: Sequence[str], rows: Rows, *, kind: str = "") -> str:
    """Cells are HTML already. A head that begins with # is of numbers, one with @ of what stays on its line. Only a table
    of a `kind` is broken over pages.
    """
    classes = [f' class="{CELLS.get(head[:1], "t")}"' for head in heads]
    top = "".join(f"<th{side}>{escape(head.lstrip('#@'))}</th>" for head, side in zip(heads, classes, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{side}>{cell}</td>" for cell, side in zip(row, classes, strict=True)) + "</tr>"
        for row in rows
    )
    head_row = f"<thead><tr>{top}</tr></thead>" if any(heads) else ""
    return f'<table class="{kind}">' + f"{head_row}<tbody>{body}</tbody></table>"


def _mark(verdict: Verdict) -> str:
    word = "not judged" if verdict is Verdict.NONE else verdict.name.lower()
    return f'<span class="mark {verdict.name.lower()}">{word}</span>'


def _ml(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00")


def _figure(period: Period, organ: str, key: str) -> Figure:
    """One figure by name; KeyError for one that its organ does not have."""
    figures = {figure.key: figure for each in period.organs if each.name == organ for figure in each.figures}
    return figures[key]


def _told(figure: Figure) -> str:
    if figure.value is None:
        return "no data"
    return f"{number(figure.value, figure.low, figure.high)} {unit_text(figure.unit)}"


def _coverage(period: Period) -> float:
    shares = [course.coverage for course in period.courses.values()]
    return sum(shares) / len(shares) if shares else 0.0


def _longest(course: Course, zone: tzinfo) -> str:
    if not course.gaps:
        return "single readings missed"
    begin, end = max(course.gaps, key=lambda gap: gap[1] - gap[0])
    return f"{moment(begin, zone)}, {duration(end - begin)}"


def _seconds(utc: str) -> float:
    return datetime.fromisoformat(utc).timestamp()
