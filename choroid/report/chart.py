"""A line chart as plain SVG: mean as a line, minimum to maximum as a band, gaps as gaps. No dependencies, prints
sharply.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from html import escape
from itertools import pairwise

from controller.figures.course import Band, Slot

WIDTH, HEIGHT = 720, 170
LEFT, RIGHT, TOP, BOTTOM = 64, 40, 24, 26
LINE, FILL, GOOD = "#1f5f99", "#bcd3e8", "#e8f3ea"
GRID, INK, FAINT = "#e3e7ec", "#1d2733", "#5b6672"
TICKS_S = (60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 2 * 86_400, 7 * 86_400, 14 * 86_400, 30 * 86_400)
MAX_TICKS = 8
BREAK_SLOTS = 2.5
"""Points further apart than this many slots are not joined: unmeasured time is not drawn."""

Span = tuple[float, float]


def chart(
    title: str,
    unit: str,
    slots: Sequence[Slot],
    span: Span,
    *,
    band: Band | None = None,
    zone: tzinfo = UTC,
    dots: bool = False,
    least: float | None = None,
    most: float | None = None,
    names: Sequence[str] = (),
) -> str:
    """Return the SVG of one series over `span` (UTC seconds); `band` is shaded, `dots` marks single points instead
    of a line.

    The scale includes at least `least` to `most`; `names` are the names of the values 0, 1, 2, ….
    """
    low, high, ticks = _scale(slots, band, least, most)

    def x(at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - span[0]) / max(span[1] - span[0], 1e-9)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low)

    name = f"{title}, {unit}" if unit else title
    parts = [
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{escape(name)}"><title>{escape(name)}</title>',
        f'<text x="{LEFT}" y="14" font-size="12" fill="{INK}">{escape(name)}</text>',
    ]
    if band is not None:
        top, bottom = y(min(band.high, high)), y(max(band.low, low))
        parts.append(
            f'<rect x="{LEFT}" y="{top:.1f}" width="{WIDTH - LEFT - RIGHT}" height="{max(bottom - top, 0):.1f}"'
            f' fill="{GOOD}"/>'
        )
    digits = max(0, math.ceil(-math.log10(ticks[1] - ticks[0]) - 1e-9)) if len(ticks) > 1 else 3
    for tick in ticks:
        parts.append(_line(LEFT, y(tick), WIDTH - RIGHT, y(tick), GRID))
        parts.append(_text(LEFT - 6, y(tick) + 4, names[round(tick)] if names else f"{tick:.{digits}f}", "end"))
    for at, text in _times(span, zone):
        parts.append(_line(x(at), TOP, x(at), HEIGHT - BOTTOM, GRID))
        parts.append(_text(x(at), HEIGHT - 9, text, "middle"))
    for piece in _pieces(slots, (span[1] - span[0]) / 400.0):
        parts.extend(_drawn(piece, x, y, dots=dots))
    if not slots:
        parts.append(_text((LEFT + WIDTH) / 2, (TOP + HEIGHT - BOTTOM) / 2, "no data in this period", "middle"))
    return "".join([*parts, "</svg>"])


def _drawn(piece: Sequence[Slot], x: Callable[[float], float], y: Callable[[float], float], *, dots: bool) -> list[str]:
    if dots or len(piece) == 1:
        marks = []
        for slot in piece:
            marks.append(_line(x(slot.at), y(slot.least), x(slot.at), y(slot.most), LINE))
            marks.append(f'<circle cx="{x(slot.at):.1f}" cy="{y(slot.mean):.1f}" r="2" fill="{LINE}"/>')
        return marks
    upper = [f"{x(slot.at):.1f},{y(slot.most):.1f}" for slot in piece]
    lower = [f"{x(slot.at):.1f},{y(slot.least):.1f}" for slot in reversed(piece)]
    mean = " ".join(f"{x(slot.at):.1f},{y(slot.mean):.1f}" for slot in piece)
    return [
        f'<polygon points="{" ".join([*upper, *lower])}" fill="{FILL}"/>',
        f'<polyline points="{mean}" fill="none" stroke="{LINE}" stroke-width="1.2"/>',
    ]


def _pieces(slots: Sequence[Slot], step: float) -> list[list[Slot]]:
    """Return the runs of points that are joined by a line."""
    apart = BREAK_SLOTS * max(step, _usual_step(slots))
    pieces: list[list[Slot]] = []
    for slot in slots:
        if not pieces or slot.at - pieces[-1][-1].at > apart:
            pieces.append([])
        pieces[-1].append(slot)
    return pieces


def _usual_step(slots: Sequence[Slot]) -> float:
    steps = sorted(b.at - a.at for a, b in pairwise(slots))
    return steps[len(steps) // 2] if steps else 0.0


def _scale(
    slots: Sequence[Slot], band: Band | None, least: float | None, most: float | None
) -> tuple[float, float, list[float]]:
    """Return the ends of the value axis and its ticks, at round numbers."""
    low, high = _extent(_values(slots, band, least, most))
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-6), math.ceil(high / step - 1e-6)
    ticks = [step * i for i in range(first, last + 1)]
    return ticks[0], ticks[-1], ticks


def _values(slots: Sequence[Slot], band: Band | None, least: float | None, most: float | None) -> list[float]:
    """Return every value that the axis must contain."""
    values = [slot.least for slot in slots] + [slot.most for slot in slots]
    values += [value for value in (least, most) if value is not None]
    return values if band is None else values + [value for value in (band.low, band.high) if math.isfinite(value)]


def _extent(values: Sequence[float]) -> tuple[float, float]:
    """Return the minimum and the maximum, further apart than rounding errors."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if high - low < 1e-9 * max(abs(high), 1.0):
        margin = 0.05 * abs(high) or 1.0
        return low - margin, high + margin
    return low, high


def _times(span: Span, zone: tzinfo) -> list[tuple[float, str]]:
    """Return the ticks of the time axis, at round times of `zone`."""
    length = span[1] - span[0]
    step = next((tick for tick in TICKS_S if length / tick <= MAX_TICKS), TICKS_S[-1])
    form = "%d %b" if step >= 86_400 else "%d %b %H:%M" if length > 86_400 else "%H:%M"
    offset = datetime.fromtimestamp(span[0], zone).utcoffset()
    shift = offset.total_seconds() if offset is not None else 0.0
    at = math.ceil((span[0] + shift) / step) * step - shift
    ticks = []
    while at <= span[1]:
        ticks.append((at, datetime.fromtimestamp(at, zone).strftime(form)))
        at += step
    return ticks


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" fill="{FAINT}" text-anchor="{anchor}">{escape(text)}</text>'
