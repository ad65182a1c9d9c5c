"""The report as one HTML file: no script, no external resources, and a style sheet for paper."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from html import escape

from choroid.report.findings import ReportFinding
from choroid.report.images import images
from choroid.report.medium import grades, medium, viability
from choroid.report.organs import organs
from choroid.report.sections import alarms, calibrations, faults, people, protocols, record, summary
from choroid.report.style import CSS
from choroid.report.wording import duration, moment
from controller.figures.records import Period

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
    ("record", "Record"),
)


def sections(period: Period) -> tuple[tuple[str, str], ...]:
    """Return anchor and name of the sections that the report of a period has."""
    return tuple(each for each in SECTIONS if each[0] != "images" or period.images)


def html(period: Period, found: Sequence[ReportFinding], *, zone: tzinfo, made_at: float, release: str) -> str:
    """Return the whole report. `made_at` is UTC seconds; all times are shown in `zone`."""
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
        record(period, zone),
        "</body></html>\n",
    ]
    return "\n".join(parts)
