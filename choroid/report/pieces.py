"""Parts of a report's sections: headings, tables, marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from controller.figures.figure import FigureStatus

ML = 1000.0
MAX_ROWS = 60
"""Longer tables show their newest rows and the total number."""
CELLS = {"#": "n", "@": "w"}

Rows = Iterable[Sequence[str]]


def section(anchor: str, title: str, body: str, *, page: bool = False) -> str:
    """Return one section of the page."""
    kind = ' class="page"' if page else ""
    return f'<section id="{anchor}"{kind}><h2>{title}</h2>{body}</section>'


def table(heads: Sequence[str], rows: Rows, *, kind: str = "") -> str:
    """Return a table whose cells are already HTML.

    A head that starts with # is of numbers, one with @ of text that is not wrapped. Only a table of a `kind` is
    broken over pages.
    """
    classes = [f' class="{CELLS.get(head[:1], "t")}"' for head in heads]
    top = "".join(f"<th{side}>{escape(head.lstrip('#@'))}</th>" for head, side in zip(heads, classes, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{side}>{cell}</td>" for cell, side in zip(row, classes, strict=True)) + "</tr>"
        for row in rows
    )
    head_row = f"<thead><tr>{top}</tr></thead>" if any(heads) else ""
    return f'<table class="{kind}">' + f"{head_row}<tbody>{body}</tbody></table>"


def mark(verdict: FigureStatus) -> str:
    """Return a verdict as a coloured word."""
    word = "not judged" if verdict is FigureStatus.NONE else verdict.name.lower()
    return f'<span class="mark {verdict.name.lower()}">{word}</span>'


def ml(value: float) -> str:
    """Millilitres."""
    return f"{value:.2f}".replace("-0.00", "0.00")


def seconds(utc: str) -> float:
    """Return UTC text as seconds."""
    return datetime.fromisoformat(utc).timestamp()
