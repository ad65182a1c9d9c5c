"""How long a report of ninety days and forty series takes, and how much memory (to reach: < 30 s, < 300 MB).

The records are made up, but as many as a default rig writes: the report's work is in history's levels, whatever the
readings' own density, and in the journal, whose every row is walked to verify the chain.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from choroid.common.child import python
from choroid.common.examples import bench_rig
from controller.figures.organs import shown_series
from controller.journal.journal import Journal
from controller.memory.history import History
from controller.rig.description import Rig, required
from controller.rig.loading import effective_hash, load_rig
from verification.bench.standing_clock import StandingClock

DAYS = 90
SERIES = 40
EVERY_S = 60
DAY_S = 86_400
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SCORES = {
    "viability": {
        "value": 0.93, "low": 0.85, "high": 0.98, "version": "bench", "measured": ["pH"], "unmeasured": [], "causes": {},
        "sentences": [],
    },
    "care_rating": {"score": 0.9, "low": 0.8, "high": 1.0, "coverage": 1.0, "version": "bench"},
}  # fmt: skip
PULSES_A_DAY = 4320
"""Of the heater, each a row of the journal."""
BATCHES_A_DAY = 3
_now = time.perf_counter  # noqa: TID251  (a benchmark measures this machine's real time)


def bench_report() -> dict[str, Any]:
    """Measure the seconds and the maximum memory (MB) of `choroid report` in a process of its own, start-up included."""
    path = bench_rig()
    rig = load_rig(path)
    with tempfile.TemporaryDirectory(prefix="choroid-bench-") as folder:
        data = Path(folder)
        series = _readings(rig, data / "history.db")
        rows = _rows(rig, data / "journal.db")
        page = data / "report.html"
        words = python("choroid", "report", str(path), "--data", str(data), "--html", str(page))
        began = _now()
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)  # noqa: S603  (our own command)
        _, status, usage = os.wait4(process.pid, 0)
        spent_s = _now() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"choroid report ended with {process.returncode}; what it said stands above")
        return {
            "days": DAYS,
            "series": series,
            "journal_rows": rows,
            "seconds": spent_s,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "max_mb": usage.ru_maxrss / 1024.0,
            "html_mb": page.stat().st_size / 1e6,
        }


def _readings(rig: Rig, path: Path) -> int:
    """Forty series, one reading a minute for ninety days; how many there are."""
    points = list(dict.fromkeys(shown_series(rig)))
    points += [f"further_{number}.value" for number in range(SERIES - len(points))]
    history = History(path, StandingClock(EPOCH))
    begin = EPOCH.timestamp()
    for number, point in enumerate(points):
        for day in range(DAYS):
            first = begin + day * DAY_S
            readings = [(first + at, 37.0 + (at // EVERY_S * 7 + number) % 13) for at in range(0, DAY_S, EVERY_S)]
            history.insert(point, "kPa", readings)
    history.close()
    return len(points)


def _rows(rig: Rig, path: Path) -> int:
    """Ninety days of a recycling rig's journal; how many rows."""
    clock = StandingClock(EPOCH)
    journal = Journal(path, clock, durable=False)
    journal.append("controller.started", {"rig": rig.name, "rig_hash": effective_hash(rig), "version": "0"})
    journal.append("ledger.opened", {name: vessel.volume_ul for name, vessel in rig.vessels.items()})
    kidney = required(rig.organs.kidney, "a kidney")
    pulse = {
        "actuator": required(rig.organs.skin, "organs.skin").heater,
        "by": "regulator:temperature",
        "command": '["switch",true,9.6]',
    }
    begun = {"protocol": "recycle", "user": "bench", "reason": "a benchmark", "params": {}}
    journal.append("run.start", begun, run="run-3")
    n = 0
    for number in range(DAYS * PULSES_A_DAY):
        clock.at_s = (number + 0.5) * DAY_S / PULSES_A_DAY
        journal.append("act", {**pulse, "why": "duty 0.48"})
        if number % (PULSES_A_DAY // BATCHES_A_DAY) == 0:
            for line in (kidney.draw, kidney.return_, kidney.discard, required(rig.organs.gut, "organs.gut").feed):
                n += 1
                ul = 18_000.0 if line in (kidney.draw, kidney.return_) else 800.0
                act = {"n": n, "act": 1, "line": line, "ul": ul, "flow_ul_min": 4000.0}
                journal.append("step", {"n": n, "verb": line, "args": {}, "policy": "resume"}, run="run-3")
                journal.append("step.act", act, run="run-3")
                clock.at_s += 5.0
                moved = {"n": n, "act": 1, "line": line, "ul": ul, "sd_ul": 40.0, "asked_ul": ul}
                journal.append("moved", {**moved, "source": "balance", "end": "done"}, run="run-3")
                journal.append("step.done", {"n": n, "result": None, "volumes": {}}, run="run-3")
            journal.append("note.grade", {"grade": "A", "limiting": "none", "confidence": 0.75}, run="run-3")
        if number % (PULSES_A_DAY // 24) == 0:
            journal.append("scores", SCORES)
    rows = journal.next_seq - 1
    journal.close()
    return rows
