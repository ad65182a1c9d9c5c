"""The rows of one run: what the journal has of each step, those that are added, and how long ago the run began."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from controller.core.clock import Clock
from controller.core.run_states import RunEvent
from controller.journal.journal import Journal
from controller.journal.terms import Entry
from controller.runs.context import RunContext
from controller.runs.questions import OpenQuestion
from controller.runs.replies import QuestionReply
from controller.runs.views import PROGRESS_STEPS, StepView, step_view, volumes_view
from controller.steps.branches import Branch
from controller.steps.schedule import next_time
from controller.steps.steps import StepRecord
from protocols.host import ProtocolError
from protocols.language import Lab
from protocols.verbs import Verb


class StepLog:
    """Steps of one run by place, in the order in which they began; each change is a row of the journal."""

    def __init__(self, bench: RunContext, run_id: str, steps: dict[str, StepRecord]) -> None:
        self.steps = steps
        """By place (:mod:`controller.steps.branches`)."""
        self._bench = bench
        self._run_id = run_id
        self._loop = asyncio.get_running_loop()
        self._shown: dict[str, StepView] = {}
        """Views of the latest steps that are done, by place: they do not change, and pages read them many times a second."""

    def known(self, branch: Branch, verb: Verb, args: Mapping[str, Any]) -> StepRecord | None:
        """Return the record of the branch's next step; raise :class:`ProtocolError` if it was another step."""
        branch.last += 1
        step = self.steps.get(branch.at)
        if step is not None and (step.verb != verb.name or not verb.same(step.args, args)):
            raise ProtocolError(
                f"step {branch.at} was {step.verb}{dict(step.args)} and is now {verb.name}{dict(args)}: the protocol does not"
                " repeat itself. Likely cause: Choroid was updated and decides otherwise, or the protocol uses something else"
                " than what the lab told it. After an update: abort this run and start the protocol again"
            )
        return step

    def undecided(self, branch: Branch, what: str) -> bool:
        """Return whether the branch's next step is on record and is no decision of `what`, which once was no step."""
        step = self.steps.get(f"{branch.path}{branch.last + 1}")
        return step is not None and (step.verb != Lab.decide.name or step.args.get("what") != what)

    def begin(self, branch: Branch, verb: Verb, args: Mapping[str, Any]) -> StepRecord:
        """Record that the branch's next step begins; a wait gets its deadline."""
        step = StepRecord(len(self.steps) + 1, verb.name, args, branch.at)
        body = {"n": step.n, "at": step.at, "verb": verb.name, "args": args, "policy": verb.policy}
        now = self._bench.clock.utc()
        until = None
        if verb is Lab.sleep:
            until = now + timedelta(seconds=args["seconds"])
        elif verb is Lab.sleep_until_clock:
            until = next_time(now, args, since_s=self._since_turn_s(branch, args))
        if until is not None:
            body["until"] = step.until = until.isoformat(timespec="milliseconds")
            # From here on the monotonic clock counts: a step of UTC does not move the deadline (E7).
            step.deadline_s = self._loop.time() + (until - now).total_seconds()
        self._bench.journal.append("step", body, run=self._run_id)
        self.steps[step.at] = step
        return step

    def finish(self, step: StepRecord, result: Any) -> None:
        """Record a step's result, with the volumes after it."""
        volumes = volumes_view(self._bench.rig, self._bench.ledger)
        self._bench.journal.append("step.done", {"n": step.n, "result": result, "volumes": volumes}, run=self._run_id)
        step.done, step.result, step.volumes = True, result, volumes

    def answer(self, asked: OpenQuestion, reply: QuestionReply, user: str, reason: str) -> None:
        """Record the reply to a question."""
        body = {"n": asked.n, "value": reply.value, "text": reply.text, "user": user, "reason": reason, **reply.more}
        self._bench.journal.append("step.answered", body, run=self._run_id)
        self.steps[asked.at].answer, self.steps[asked.at].reply = reply.value, body

    def views(self, *, ended: bool) -> tuple[StepView, ...]:
        """Return the latest steps for people, oldest first; `ended`: whether the run has ended."""
        latest = list(islice(reversed(self.steps.values()), PROGRESS_STEPS))[::-1]
        shown = {step.at: self._shown.get(step.at) or step_view(step, ended=ended) for step in latest}
        self._shown = {step.at: shown[step.at] for step in latest if step.done}
        return tuple(shown.values())

    def _since_turn_s(self, branch: Branch, args: Mapping[str, Any]) -> float | None:
        """Return the time (s) since the turn before ended its wait for the same time of day, if it did so in this process."""
        if args["after"] is None:
            return None
        for n in range(branch.last - 1, 0, -1):
            step = self.steps[f"{branch.path}{n}"]
            same = step.verb == Lab.sleep_until_clock.name and all(
                step.args[key] == args[key] for key in ("at", "zone")
            )
            if same:
                return None if step.deadline_s is None else self._loop.time() - step.deadline_s
        return None


def elapsed_s(journal: Journal, clock: Clock, run_id: str) -> float:
    """Return how long ago a run began (s), by its rows and the present clock.

    Within a process the monotonic clock tells, so a step of UTC counts for nothing (E7). From the last row of one process
    to the first of the next only UTC can tell: one that was set back counts as no time at all. Else the turns to come
    would move away by as much as a dead battery put the clock back.
    """
    gone_s = 0.0
    before: Entry | None = None
    for row in journal.entries(run=run_id):
        if before is not None:
            new_process = row.kind == "run.state" and row.body["event"] in (RunEvent.START, RunEvent.RECOVER)
            gone_s += max(_apart_s(before.utc, row.utc) if new_process else row.at_s - before.at_s, 0.0)
        before = row
    return gone_s if before is None else gone_s + max(_apart_s(before.utc, clock.utc_text()), 0.0)


def _apart_s(sooner: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(sooner)).total_seconds()
