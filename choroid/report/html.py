"""The report as one HTML file: no script, no external resources, and a style sheet for paper."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from html import escape

from choroid.report.chart import chart
from choroid.report.findings import ReportFinding
from choroid.report.images import images
from choroid.report.medium import grades, medium, viability
from choroid.report.pieces import mark, section, table
from choroid.report.sections import alarms, calibrations, faults, people, protocols, record, summary
from choroid.report.style import CSS
from choroid.report.wording import duration, interval, moment, number, percent, unit_text
from controller.figures.figure import Figure
from controller.figures.organs import OrganFigures, bands_of
from controller.figures.records import Period


def organs(period: Period, zone: tzinfo) -> str:
    """Return each organ's figures and plots, the worst first."""
    order = sorted(period.organs, key=lambda organ: -organ.verdict)
    return section("organs", "Organs", "".join(_organ(period, organ, zone) for organ in order), page=True)


def _organ(period: Period, organ: OrganFigures, zone: tzinfo) -> str:
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
    head = f'<h3 id="organ-{organ.name}">{escape(organ.title)} <span class="faint">{escape(organ.does)}</span></h3>'
    return f'<section class="organ">{head}{table(heads, rows, kind="figures")}{plots}</section>'


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
        mark(figure.verdict) if figure.verdict else "",
        f'<span class="basis">{escape(figure.basis + limit)}</span>',
    )


def _missing_row(labels: Sequence[str], why: str) -> Sequence[str]:
    """Return one row for the figures without data for the same reason."""
    return (escape(", ".join(labels)), "no data", "", "", "", "", f'<span class="basis">{escape(why)}</span>')


SECTIONS = (
    ("summary", "Summary"),
    ("alarms", "Alarms"),
    ("people", "Interventions"),
    ("protocols", "Protocols"),
    ("medium", "Medium"),
    ("grades", "Grades"),
    ("viability", "Viability"),
    ("images", "Images"),
    ("organs", "Organs"),
    ("calibrations", "Calibrations"),
    ("faults", "Faults and gaps"),
    ("methods", "Methods"),
    ("record", "Record"),
)


def sections(period: Period) -> tuple[tuple[str, str], ...]:
    """Return anchor and name of the sections that the report of a period has."""
    return tuple(each for each in SECTIONS if each[0] != "images" or period.images)


def html(
    period: Period, found: Sequence[ReportFinding], methods: str, *, zone: tzinfo, made_at: float, release: str
) -> str:
    """Return the whole report. `made_at` is UTC seconds; all times but those of `methods` are shown in `zone`."""
    rig = period.rig
    title = f"{rig.name}: {moment(period.begin, zone)} to {moment(period.end, zone)}"
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{CSS}</style></head><body>",
        f'<header><h1>{escape(rig.name)}</h1><p class="faint">{escape(rig.description)}</p>',
        f"<p>{moment(period.begin, zone)} to {moment(period.end, zone)} ({escape(str(zone))},"
        f" {duration(period.end - period.begin)}); written {moment(made_at, zone)} by Choroid {escape(release)}</p>",
        "<nav>" + "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name in sections(period)) + "</nav></header>",
        summary(period, found),
        alarms(period),
        people(period, zone),
        protocols(period, zone),
        medium(period, zone),
        grades(period, zone),
        viability(period, zone),
        images(period, zone),
        organs(period, zone),
        calibrations(period, made_at, zone),
        faults(period, zone),
        section("methods", "Methods", f"<p>{escape(methods)}</p>"),
        record(period, zone),
        "</body></html>\n",
    ]
    return "\n".join(parts)
