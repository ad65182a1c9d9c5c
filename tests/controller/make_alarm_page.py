"""`python -m tests.controller.make_alarm_page`: write docs/alarms.md from the definitions."""

from __future__ import annotations

from pathlib import Path

from controller.alarms import DEFINITIONS, URGENCY, Definition

PAGE = Path(__file__).resolve().parents[2] / "docs" / "alarms.md"

HEAD = """\
# Alarms

An alarm asks a person to do something in time (ISA-18.2); what asks for nothing is a line of the journal. Each says what
happens if nobody acts, what to do, and how long there is. They stand at the top of the page, in `GET /api/alarms` and, with
everything that happened to them, in the journal (rows `alarm.…`).

* **unacknowledged** → *acknowledged*, when somebody has seen it; → *returned*, when its cause is gone and nobody has seen it.
* **acknowledged** → gone with its cause. **returned** → gone when somebody has seen it; → unacknowledged, when the cause is
  back.
* An **event** has no cause that could go: it stands until somebody has seen it, and counts how often it came.
* A cause has to last for the delay given here before it is told, and to be away for another before the alarm returns. One
  that comes for the fourth time within an hour takes twice as long to return, and so on: a flickering cause makes few
  notices.
* While nobody can see whether a cause is still there (its probe is silent), its alarm stays as it is.
* A restart forgets none: what stood when the process before ended stands again, with who acknowledged it.
* A journal that cannot be written silences none.

The three alarms of the interlocks (`temperature`, `over_pressure_heart`, `over_pressure_filter`) take their limits from the
rig file; what they do by themselves is in [safety.md](safety.md).

| alarm | priority | if nobody acts | what to do | within | told after |
|---|---|---|---|---|---|
"""
FOOT = "\nWritten by `python -m tests.controller.make_alarm_page` from `controller/alarms/definitions.py`.\n"


def text() -> str:
    """The page."""
    return HEAD + "".join(map(_row, sorted(DEFINITIONS.values(), key=lambda each: URGENCY[each.priority]))) + FOOT


def _row(each: Definition) -> str:
    told = "at once, once" if each.event else f"{each.on_delay_s:g} s" if each.on_delay_s else "at once"
    cells = (f"`{each.kind}`", each.priority, each.consequence, each.response, each.respond_within, told)
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
