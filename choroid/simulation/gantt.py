"""A plan as a diagram: one lane per kind of step and branch, time from left to right. Plain SVG without
dependencies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

LANE, LEFT, WIDTH, TOP = 26, 170, 900, 46
"""Pixels: height of a lane, room for names, width of the time axis, room above."""
COLOURS = {"kidney": "#3a6ea5", "gut": "#4f9d69", "liver": "#b8860b", "sleep": "#c9ced6", "ask": "#b03a2e"}
STERILE = "#7d3c98"
TICKS_S = (60, 300, 600, 1800, 3600, 2 * 3600, 6 * 3600, 12 * 3600, 86_400, 2 * 86_400, 7 * 86_400)


def gantt(title: str, steps: Sequence[Mapping[str, Any]], *, span_s: float, sterile: Collection[str] = ()) -> str:
    """SVG text of `steps` (`verb`, `begin_s`, `end_s`, perhaps `branch` and `ml`) over `span_s` seconds.

    Bars of transfers along the lines `sterile` (those that pass the sterile filter) stand out. Readings have no colour: the
    tip of a bar tells what it is, when, and how much.
    """
    lanes = list(dict.fromkeys((step.get("branch", ""), step["verb"]) for step in steps))
    lanes.sort(key=lambda lane: lane[0])  # the lanes of a branch stay together, those of the protocol first
    span_s = max(span_s, 1.0)
    height = TOP + LANE * len(lanes) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 30} {height}" font-family="sans-serif"'
        ' font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{LEFT + WIDTH + 30}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="22" font-size="15" fill="#1d2733">{escape(title)}</text>',
    ]
    tick_s = next((tick for tick in TICKS_S if span_s / tick <= 12), TICKS_S[-1])
    at_s = 0
    while at_s <= span_s:
        x = LEFT + WIDTH * at_s / span_s
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{height - 30}" stroke="#e3e7ec"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle" fill="#5b6672">{_time(at_s)}</text>')
        at_s += tick_s
    for row, (branch, verb) in enumerate(lanes):
        y = TOP + LANE * row
        name = f"{branch}: {verb}" if branch else verb
        parts.append(f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end" fill="#1d2733">{escape(name)}</text>')
        for step in steps:
            if (step.get("branch", ""), step["verb"]) == (branch, verb):
                parts.append(_bar(step, y, span_s, STERILE if step.get("line") in sterile else _colour(verb)))
    return "\n".join([*parts, "</svg>", ""])


def _bar(step: Mapping[str, Any], y: int, span_s: float, colour: str) -> str:
    x = LEFT + WIDTH * step["begin_s"] / span_s
    width = max(WIDTH * (step["end_s"] - step["begin_s"]) / span_s, 1.5)
    volume = f", {step['ml']:.2f} mL {step['from']} → {step['to']}" if step.get("ml") is not None else ""
    tip = f"{step['verb']}{volume}, {_time(step['begin_s'])} to {_time(step['end_s'])} {step.get('text', '')}".strip()
    return (
        f'<rect x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{LANE - 8}" rx="2" fill="{colour}">'
        f"<title>{escape(tip)}</title></rect>"
    )


def _colour(verb: str) -> str:
    return next((colour for start, colour in COLOURS.items() if verb.startswith(start)), "#8895a3")


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}" if not rest else f"{hours}:{minutes:02}:{rest:02}"
