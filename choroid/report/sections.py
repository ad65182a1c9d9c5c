"""Sections of a report about events: findings, alarms, people, protocols, calibrations, faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from html import escape

from choroid.report.findings import ReportFinding
from choroid.report.pieces import MAX_ROWS, mark, seconds, section, table
from choroid.report.wording import duration, moment, number, percent, unit_text
from controller.figures.course import Course
from controller.figures.figure import Figure, FigureStatus
from controller.figures.records import Period
from controller.rig.loading import effective_hash

NOTE = (
    "Organ figures are human-metric-compatible: they are the figures by which the human device of that name is judged,"
    " computed from this rig's records. Intervals are 95 %. Limits marked “proposed” are this project's, not a standard's."
)


def summary(period: Period, found: Sequence[ReportFinding]) -> str:
    """Return the summary of the period: findings, and each organ's worst figure."""
    body = '<div class="grid">' + "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for value, name in _tiles(period, found)
    )
    body += "</div>" + _findings(found) + _organs(period)
    return section("summary", "Summary", body + f'<p class="basis">{escape(NOTE)}</p>')


def _grade_counts(period: Period) -> str:
    graded = Counter(grade.grade for grade in period.grades)
    return ", ".join(f"{graded[letter]} {letter}" for letter in "ABCD" if graded[letter]) or "none"


def _tiles(period: Period, found: Sequence[ReportFinding]) -> tuple[tuple[str, str], ...]:
    """Return the figures at the top of the summary, each with its name; of organs that the rig has."""
    counts = Counter(finding.verdict for finding in found)
    viability = period.scores.viability
    organs = period.rig.organs
    raised = sum(alarm.count for alarm in period.alarms)
    return (
        (f"{counts[FigureStatus.BAD]} bad, {counts[FigureStatus.WATCH]} to watch", "findings"),
        (f"{raised} raised, {sum(alarm.standing for alarm in period.alarms)} standing", "alarms"),
        *(((_grade_counts(period), "batches graded"),) if organs.kidney is not None else ()),
        (
            f"{viability[-1].low:.2f} to {viability[-1].high:.2f}" if viability else "no data",
            "viability at the end, 90 % interval",
        ),
        *_tile(period, "kidney", "fresh_saved", "of the scheduled fresh medium saved", _share),
        *_tile(period, "kidney", "bound_ratio", "fresh medium, ratio to the mass-balance bound", _told),
        *_tile(period, "gut", "fresh", "fresh medium used", _told),
        (percent(_coverage(period)), "of the period covered, all series"),
        (f"{period.chain.rows:,} rows".replace(",", "\u202f") if period.chain.ok else "broken", "journal chain"),
    )


def _findings(found: Sequence[ReportFinding]) -> str:
    """Return the list of findings."""
    if not found:
        return "<p>Nothing stands out: every figure that has a limit is within it.</p>"
    items = "".join(
        f'<li>{mark(finding.verdict)}<a href="#{finding.section}">{escape(finding.text)}</a></li>' for finding in found
    )
    return f'<ul class="findings">{items}</ul>'


def _organs(period: Period) -> str:
    """Return the table of organs, the worst first."""
    organs = [
        (
            f'<a href="#organ-{organ.name}">{organ.name}</a>',
            escape(organ.does),
            mark(organ.verdict),
            str(sum(figure.value is not None for figure in organ.figures)),
            str(sum(figure.value is None for figure in organ.figures)),
        )
        for organ in sorted(period.organs, key=lambda organ: -organ.verdict)
    ]
    return table(("organ", "", "worst figure", "#figures", "#without data"), organs)


def alarms(period: Period) -> str:
    """Return the number of each alarm and the time until its acknowledgement."""
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
        return section("alarms", "Alarms", "<p>No alarm stood at any time in the period.</p>")
    heads = (
        "alarm", "@priority", "#raised", "#causes", "#seen", "#seen after, median", "#at the latest", "#due within", "#late",
        "stands",
    )  # fmt: skip
    return section("alarms", "Alarms", table(heads, rows))


def people(period: Period, zone: tzinfo) -> str:
    """Return the interventions by people, with their reasons."""
    if not period.actions:
        return section("people", "Interventions by people", "<p>No person intervened in the period.</p>")
    rows = [
        (moment(action.at, zone), escape(action.who), escape(action.what), escape(action.why), str(action.seq))
        for action in period.actions
    ]
    told = (
        f"<p>The newest {len(period.actions)} of {len(period.actions) + period.actions_omitted}.</p>"
        if period.actions_omitted
        else ""
    )
    heads = ("@when", "who", "what", "why", "#journal row")
    return section("people", "Interventions by people", told + table(heads, rows, kind="long"))


def protocols(period: Period, zone: tzinfo) -> str:
    """Return the runs of protocols and their messages."""
    if not period.runs:
        return section("protocols", "Protocols run", "<p>No protocol was under way in the period.</p>")
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
    body = table(heads, rows)
    messages = [
        (moment(at, zone), escape(run.id), escape(text)) for run in period.runs for at, text in run.messages[-MAX_ROWS:]
    ]
    if messages:
        body += "<h3>What they said</h3>" + table(("@when", "@run", "message"), messages, kind="long")
    return section("protocols", "Protocols run", body)


def calibrations(period: Period, now: float, zone: tzinfo) -> str:
    """Return each calibration and its validity."""
    if not period.calibrations:
        text = "<p>No data: no calibration is on record (<code>choroid device calibrate-pump</code>).</p>"
        return section("calibrations", "Calibrations", text + _probes(period, zone))
    rows = []
    for each in period.calibrations:
        expires = seconds(each.expires_utc)
        state = "run out" if expires <= now else f"for another {duration(expires - now)}"
        true = f"true = {each.gain:.4g} × read" + (f" {each.offset:+.3g} {each.unit}" if each.offset else "")
        at, until = moment(seconds(each.at_utc), zone), moment(expires, zone)
        rows.append((escape(each.point), escape(each.method), at, escape(each.by), escape(true), until, state))
    heads = ("point", "by", "@when", "who", "result", "@valid until", "")
    return section("calibrations", "Calibrations", table(heads, rows) + _probes(period, zone))


def _probes(period: Period, zone: tzinfo) -> str:
    """Return what the probes said of their own health."""
    if not period.probes:
        return ""
    rows = [
        (
            escape(each.point),
            moment(each.at, zone),
            escape(", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in each.figures.items())),
            escape("; ".join(each.faults)) or "fit for use",
            f"{each.unfit} of {each.read}",
        )
        for each in period.probes
    ]
    return "<h3>Health of the probes</h3>" + table(("point", "@when", "figures", "", "#unfit"), rows, kind="long")


def faults(period: Period, zone: tzinfo) -> str:
    """Return trips, failures, refusals, and gaps in the data."""
    faults = period.faults
    body = ""
    for head, some in (
        ("Interlocks that tripped", faults.trips),
        ("Commands that failed", faults.failures),
        ("Commands that the gate refused", faults.refusals),
    ):
        if some:
            rows = [(moment(at, zone), escape(text)) for at, text in some[-MAX_ROWS:]]
            more = f" (the newest {MAX_ROWS} of {len(some)})" if len(some) > MAX_ROWS else ""
            body += f"<h3>{head}{more}</h3>" + table(("@when", "what"), rows, kind="long")
    if faults.untold:
        body += f"<p>{faults.untold} more are in the journal.</p>"
    if not body:
        body = "<p>No interlock tripped, no command failed or was refused.</p>"
    return section("faults", "Faults and gaps in the data", body + _gaps(period, zone))


def _gaps(period: Period, zone: tzinfo) -> str:
    """Return the series that do not cover the whole period, the least covered first."""
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
    head = "<h3>Gaps in the data</h3>"
    if gaps:
        return head + table(("series", "#covered", "#gaps", "the longest"), gaps, kind="long")
    return head + f"<p>None: all {len(period.courses)} series cover the whole period.</p>"


def record(period: Period, zone: tzinfo) -> str:
    """Return the state of the journal, and which rig and release it was."""
    chain = period.chain
    said = f"verified, {chain.rows:,} rows".replace(",", "\u202f") if chain.ok else f"BROKEN: {chain.problem}"
    rows = [
        ("journal chain", escape(said)),
        ("head of the chain (sha256)", f"<code>{chain.head}</code>"),
        ("rig file given here (sha256)", f"<code>{effective_hash(period.rig)}</code>"),
    ]
    body = table(("", ""), rows)
    starts = [
        (moment(at, zone), escape(rig), escape(release or "not told"), f"<code>{digest}</code>")
        for at, rig, digest, release in period.faults.starts[-MAX_ROWS:]
    ]
    if starts:
        body += "<h3>Starts of the controller</h3>" + table(
            ("@when", "rig", "release", "rig description (sha256)"), starts
        )
    else:
        body += "<p>The controller was not started in the period; it ran through or not at all.</p>"
    return section("record", "Record", body)


def _tile(period: Period, organ: str, key: str, name: str, shown: Callable[[Figure], str]) -> Iterator[tuple[str, str]]:
    """Yield a figure by organ and key with its name; nothing on a rig without it."""
    for each in period.organs:
        if each.name == organ:
            yield from ((shown(figure), name) for figure in each.figures if figure.key == key)


def _share(figure: Figure) -> str:
    return "no data" if figure.value is None else f"{figure.value:.0f} %"


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
