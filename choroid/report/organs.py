"""The section of a report with each organ's figures and plots."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from html import escape

from choroid.report.chart import chart
from choroid.report.pieces import mark, section, table
from choroid.report.wording import interval, number, percent, unit_text
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
