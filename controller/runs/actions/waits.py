"""Wait for a duration, for a time since the start of the run, or for a time of day."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from controller.runs.action import Action
from controller.runs.context import LiveRun
from controller.runs.paper import Paper
from controller.steps.schedule import local_text, longest_s, next_time
from controller.steps.steps import StepRecord
from protocols.language import Lab

LATE_S = 1.0
"""What a wait may overshoot without being late."""


class Sleep(Action, verbs=(Lab.sleep,), needs=("seconds",)):
    """Waits for a duration."""

    async def perform(self, live: LiveRun, step: StepRecord, args: Mapping[str, Any]) -> None:
        """Wait for the step's recorded deadline, however often the controller was restarted meanwhile."""
        if step.deadline_s is None:
            step.deadline_s = live.now_s + _left_s(live, step, args["seconds"])
        await live.run.wait_out(step.deadline_s)

    async def rehearse(self, paper: Paper, step: StepRecord, args: Mapping[str, Any]) -> None:
        paper.advance(args["seconds"])


class SleepUntil(Action, verbs=(Lab.sleep_until,), needs=("elapsed_s",)):
    """Waits for a time since the run's start; the result is how late it was (s)."""

    async def perform(self, live: LiveRun, step: StepRecord, args: Mapping[str, Any]) -> float:
        deadline_s = live.run.started_s + float(args["elapsed_s"])
        late_s = max(0.0, live.now_s - deadline_s)
        await live.run.wait_out(deadline_s)
        if late_s == 0.0:  # it had to wait, and was held beyond its time perhaps
            over_s = live.now_s - deadline_s
            late_s = over_s if over_s >= LATE_S else 0.0
        return round(late_s, 3)

    async def rehearse(self, paper: Paper, step: StepRecord, args: Mapping[str, Any]) -> float:
        ahead_s = float(args["elapsed_s"]) - paper.now_s
        paper.advance(max(0.0, ahead_s))
        return max(0.0, -ahead_s)


class SleepUntilClock(Action, verbs=(Lab.sleep_until_clock,), needs=("at", "zone", "after")):
    """Waits for a time of day, and returns it (UTC, ISO 8601)."""

    async def perform(self, live: LiveRun, step: StepRecord, args: Mapping[str, Any]) -> str:
        """Wait for the time that the step has recorded."""
        if step.deadline_s is None:
            max_s = 0.0 if step.until is None else longest_s(step.until, step.args)
            step.deadline_s = live.now_s + _left_s(live, step, max_s)
        await live.run.wait_out(step.deadline_s)
        return step.until or ""

    async def rehearse(self, paper: Paper, step: StepRecord, args: Mapping[str, Any]) -> str:
        now = paper.began + timedelta(seconds=paper.now_s)
        due = next_time(now, args)
        paper.advance((due - now).total_seconds())
        return due.isoformat(timespec="milliseconds")

    def text(self, args: Mapping[str, Any], result: Any) -> str:
        return local_text(result, args["zone"])


def _left_s(live: LiveRun, step: StepRecord, seconds: float) -> float:
    """Return the seconds left of a sleep that another process began, by UTC, and never more than all of it (E7)."""
    if step.until is None:
        return seconds
    left_s = (datetime.fromisoformat(step.until) - live.bench.clock.utc()).total_seconds()
    return min(max(left_s, 0.0), seconds)
