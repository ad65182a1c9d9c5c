"""Figures of the sensitivity analysis: the tornado, and the days."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from choroid.common.extras import load_extra

BARS = 24
KINDS = {"weight": "#3b7dd8", "corner": "#d88b3b", "missing": "#b0b4ba"}


def plotting() -> Any:
    """Return matplotlib; raises :class:`~choroid.common.failure.UserError` where it is not installed."""
    return load_extra("matplotlib", "plots", needed_for="--plots", otherwise="leave --plots out")


def draw(answer: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write `tornado.png` and `days.png` into `folder`; returns their paths. Raises :class:`UserError` without matplotlib."""
    matplotlib = plotting()
    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    rows = answer["tornado"][:BARS][::-1]
    middle = answer["nominal"]["happiness"]
    figure, axes = pyplot.subplots(figsize=(9, 0.32 * len(rows) + 1.6))
    for place, row in enumerate(rows):
        low, high = sorted(row["happiness"])
        axes.barh(place, high - low, left=low, color=KINDS[row["kind"]], height=0.7)
    axes.axvline(middle, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [f"{row['name']} ({row['kind']})" for row in rows], fontsize=8)
    axes.set_xlabel("happiness (a care-quality proxy, not evidence of feeling), mean over the moments")
    axes.set_title("weights ±50 %, corners ±20 % of their flank, inputs missing", fontsize=10)
    figure.tight_layout()
    tornado = folder / "tornado.png"
    figure.savefig(tornado, dpi=120)
    pyplot.close(figure)

    days = answer["days"]
    figure, axes = pyplot.subplots(figsize=(9, 4))
    for name, mark in (("care_rating", "o"), ("welfare", "s"), ("happiness", "D")):
        axes.plot(range(len(days)), [found[name] for found in days.values()], mark, label=name)
    axes.set_xticks(range(len(days)), list(days), rotation=40, ha="right", fontsize=8)
    axes.set_ylim(-0.02, 1.02)
    axes.legend(fontsize=8)
    figure.tight_layout()
    by_day = folder / "days.png"
    figure.savefig(by_day, dpi=120)
    pyplot.close(figure)
    return [tornado, by_day]
