"""`python -m tests.nerves.make_metrics_page`: write docs/firing-metrics.md from the declarations of the figures."""

from __future__ import annotations

from pathlib import Path

from nerves.metrics.terms import METRICS, Metric

PAGE = Path(__file__).resolve().parents[2] / "docs" / "firing-metrics.md"

HEAD = """\
# Figures of firing of the array

The electrode engine computes these figures of the last minute of spikes every five seconds ([nerves.md](nerves.md)). A
reading goes to history, MQTT and InfluxDB. A figure with a baseline is compared with this culture's own one. A further
figure is added as in [adding.md](adding.md).

| figure | unit | definition | reading | baseline |
|---|---|---|---|---|
"""
FOOT = "\nWritten by `python -m tests.nerves.make_metrics_page` from `nerves/metrics/terms.py`.\n"


def text() -> str:
    """Return the page."""
    return HEAD + "".join(map(_row, METRICS)) + FOOT


def _row(each: Metric) -> str:
    reading = f"`{each.reading}`" if each.reading else "–"
    return f"| `{each.name}` | {each.unit} | {each.meaning} | {reading} | {'yes' if each.baseline else '–'} |\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
