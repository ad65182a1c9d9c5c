"""Manual tasks with due times: what a person does to the rig again and again, and confirms.

The time of a task begins when a controller first knows it, and again with each confirmation; both are rows of the journal, so
it goes on while no controller runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.rig.description import Rig
from controller.rig.upkeep import ManualTask
from controller.steps.schedule import local_text, next_time

OPENED, DONE = "task.opened", "task.done"
KINDS = (OPENED, DONE)
MAX_NAMED = 4
"""Maximum number of vessels that an alarm names."""


class UnknownTask(Exception):
    """The rig has no such task. The message says what, the likely cause and the next action."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of one manual task."""

    name: str
    spec: ManualTask
    since_utc: str
    """When it was last confirmed, or became known."""
    done_by: str
    """Who confirmed it last; empty before the first time."""
    due_utc: str
    overdue_utc: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "name": self.name,
            "text": self.spec.text,
            "feeds": list(self.spec.feeds),
            "done_utc": self.since_utc if self.done_by else None,
            "done_by": self.done_by,
            "due_utc": self.due_utc,
            "overdue_utc": self.overdue_utc,
        }


class ManualTasks:
    """The manual tasks of one rig."""

    def __init__(self, rig: Rig, *, journal: Journal, clock: Clock) -> None:
        self._rig = rig
        self._journal = journal
        self._clock = clock
        self._since: dict[str, tuple[str, str]] = {}
        """By task: time of its last confirmation and who gave it; or when it became known, and an empty name."""
        specs = rig.upkeep.tasks
        for entry in journal.entries(kinds=KINDS) if specs else ():
            if (name := entry.body["task"]) in specs and (entry.kind == DONE or name not in self._since):
                self._since[name] = entry.utc, entry.body.get("by", "")

    def states(self) -> list[TaskState]:
        """Return every task; one that is new begins now."""
        return [self._state(name, spec) for name, spec in self._rig.upkeep.tasks.items()]

    def confirm(self, name: str, *, user: str, note: str) -> None:
        """Record that a person has done a task; its time begins again.

        Raises:
            UnknownTask: the rig has no such task.
        """
        if name not in self._rig.upkeep.tasks:
            known = ", ".join(self._rig.upkeep.tasks) or "none: the rig file has no upkeep.tasks"
            raise UnknownTask(f"there is no task “{name}”. Likely cause: a typing error. Next: choose among {known}")
        state = self._state(name, self._rig.upkeep.tasks[name])
        body = {"task": name, "by": user, "note": note, "due_utc": state.due_utc, "feeds": list(state.spec.feeds)}
        self._journal.append(DONE, body)
        self._since[name] = self._clock.utc_text(), user

    def causes(self, now_utc: str) -> Mapping[tuple[str, str], str]:
        """Return the causes of alarms: tasks that are due, and tasks that are overdue."""
        causes: dict[tuple[str, str], str] = {}
        now = datetime.fromisoformat(now_utc)
        for state in self.states():
            if now < datetime.fromisoformat(state.due_utc):
                continue
            late = now >= datetime.fromisoformat(state.overdue_utc)
            due = local_text(state.due_utc, self._rig.time_zone)
            causes["task_overdue" if late else "task_due", state.name] = f"{_what(state.spec)}; due since {due}"
        return causes

    def _state(self, name: str, spec: ManualTask) -> TaskState:
        if name not in self._since:
            self._journal.append(OPENED, {"task": name})
            self._since[name] = self._clock.utc_text(), ""
        since_utc, by = self._since[name]
        due = self._due(spec, since_utc, confirmed=bool(by))
        overdue = due + timedelta(seconds=spec.grace_s)
        return TaskState(name, spec, since_utc, by, due.isoformat(), overdue.isoformat())

    def _due(self, spec: ManualTask, since_utc: str, *, confirmed: bool) -> datetime:
        since = datetime.fromisoformat(since_utc)
        if spec.at is None:
            return since + timedelta(seconds=spec.every_s or 0.0)
        after = since_utc if confirmed else None
        args = {"at": f"{spec.at:%H:%M}", "zone": self._rig.time_zone, "days": spec.days, "after": after}
        return next_time(since, args)


def _what(spec: ManualTask) -> str:
    if not spec.feeds:
        return spec.text
    more = len(spec.feeds) - MAX_NAMED
    vessels = ", ".join(spec.feeds[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{spec.text} ({vessels})"
