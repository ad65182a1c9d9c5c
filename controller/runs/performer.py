"""What the steps of a run do: move liquid, measure, wait, note, ask.

Each obeys its run: it holds where it is held and goes on from there, also after a restart. Branches that would use the
same vessel, pump or valve take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.estimator.estimator import NO_LOOP, Estimator
from controller.gate.gate import Gate
from controller.journal.journal import Journal
from controller.ledger.ledger import Alarm, Ledger
from controller.rig.description import Rig
from controller.runs.questions import question_text
from controller.safety.probe_rules import ProbeIntent
from controller.steps.barrier import FilterRecord
from controller.steps.branches import BRANCH, Claims
from controller.steps.chamber_control import ChamberControl, GivenUp
from controller.steps.recovery import StepProblem, Trouble
from controller.steps.run_control import RunControl
from controller.steps.schedule import longest_s
from controller.steps.steps import StepRecord
from controller.transfers.carry_over import carry_over_refusal
from controller.transfers.routes import Route, route_of
from controller.transfers.transfers import Transfers
from controller.transfers.weighing import ACCURACY_SD, settled
from drivers.commands import Calibrate, PumpStatus
from protocols.answers import APPROVAL, UPLOADED, AnswerForm
from protocols.chamber_verbs import MAX_CARRY_OVER_PCT
from protocols.host import ProtocolError
from protocols.interval import Interval
from protocols.retreat import RETREAT
from protocols.table import OF_CHAMBERS, way_of_step
from protocols.tissue_loss import TissueLoss

MEASURE_PATIENCE_S = 60.0
LATE_S = 1.0
"""What a wait may overshoot without being late."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """Holds the parts of the controller that all runs of a rig use."""

    rig: Rig
    journal: Journal
    clock: Clock
    ledger: Ledger
    store: StateStore
    gate: Gate
    transfers: Transfers
    estimator: Estimator | None
    alarm: Alarm
    tissue_loss: Callable[[], TissueLoss | None]
    """Returns what the estimate of the tissue says of a loss; None where nothing estimates it."""


class DrivenRun(RunControl, Protocol):
    """Declares the methods of a run that the performer of its steps calls."""

    @property
    def started_s(self) -> float:
        """Loop time at which it began."""

    async def hold(self, message: str) -> None:
        """Hold until a person resumes it."""

    async def wait_out(self, deadline_s: float) -> None:
        """Wait until a loop time, and hold in between when it is held."""

    def wake_branches(self) -> None:
        """Wake the branches that wait for each other."""


class Performer:
    """Carries out the steps of one run on the rig (:class:`protocols.host.Actions`)."""

    def __init__(self, run: DrivenRun, bench: RunContext) -> None:
        self._run = run
        self._bench = bench
        self._claims = Claims()
        self._barrier = FilterRecord(bench.rig, bench.journal)
        self._loop = asyncio.get_running_loop()
        kidney = bench.rig.organs.kidney
        self._batch = None if kidney is None else kidney.vessel
        """The vessel through which every batch passes: a reading in it waits until another branch's dose is over."""

    def route(self, verb: str) -> Route:
        """Return the route on which a verb moves liquid."""
        return route_of(self._bench.transfers.routes, verb)

    async def transfer(self, step: StepRecord) -> dict[str, Any]:
        """Move liquid; `{ul, low, high}`, and `peak_kpa` where it passes the filter and was watched."""
        route, volume_ul = self.route(way_of_step(step.verb, step.args)), float(step.args["volume_ul"])
        run: RunControl = self._run
        if step.args.get("alone"):
            run = ChamberControl(self._run, step, str(step.args[OF_CHAMBERS[step.verb].place]))
        async with self._claim(*route.exclusive):
            self._may_carry_over(step, route, volume_ul)
            try:
                ul, low, high = await self._bench.transfers.transfer(run, step, route, volume_ul)
            except GivenUp as given_up:
                self._bench.alarm("chamber_left_out", given_up.chamber, given_up.why)
                ul, low, high = step.moved_ul
                return {"ul": ul, "low": low, "high": high, "failed": given_up.why}
        moved: dict[str, Any] = {"ul": ul, "low": low, "high": high}
        return moved if step.peak_kpa is None else {**moved, "peak_kpa": round(step.peak_kpa, 3)}

    def _may_carry_over(self, step: StepRecord, route: Route, volume_ul: float) -> None:
        """Raise :class:`ProtocolError` if too much of a dose would be what the shared line held before."""
        if route.path is None or step.acts:
            return
        bound_pct = float(step.args.get("max_carry_over_pct", MAX_CARRY_OVER_PCT))
        other_ul = self._bench.ledger.carry_over_ul(route.path, volume_ul)
        if refusal := carry_over_refusal(self._bench.rig, route.path, volume_ul, other_ul, bound_pct):
            raise ProtocolError(f"step {step.n} ({step.verb}): {refusal}")

    def volume(self, chamber: str) -> dict[str, float]:
        """Return the volume of a chamber in the ledger."""
        volume = self._bench.ledger.volumes()[chamber]
        return {"ul": volume.ul, "sd_ul": volume.sd_ul}

    def _claim(self, *names: str | None) -> contextlib.AbstractAsyncContextManager[None]:
        """Have vessels, pumps and valves to this branch alone."""
        return self._claims.hold(names, BRANCH.get(), self._run.wake_branches)

    async def measured(self, point: str, settle_s: float) -> dict[str, Any]:
        """Wait for a settled reading; start over when the run was held in between. During another branch's dose, a reading
        in the vessel of the batches would be of no one medium.
        """
        device = self._bench.rig.devices.get(point.partition(".")[0])
        if device is None:
            raise ProtocolError(f"no sensor is called “{point}”. Next: use device.point as in the rig file")
        async with self._claim(self._batch if device.at == self._batch else None):
            while True:
                await self._run.checkpoint()
                await self._run.wait(settle_s) if settle_s > 0 else None
                if self._run.interrupted:
                    continue
                patience_s = max(MEASURE_PATIENCE_S, 6 * device.every_s)
                reading = await settled(self._bench.store, point, every_s=device.every_s, patience_s=patience_s)
                if not self._run.interrupted:
                    break
        interval = None if reading.value is None else Interval.around(reading.value, reading.sd).to_json()
        return {"point": point, "unit": reading.unit, "interval": interval, "detail": reading.detail}

    async def flow_of(self, pump: str) -> dict[str, Any]:
        """Return the flow that a pump reported at its last poll (µL/min)."""
        deadline_s = self._loop.time() + MEASURE_PATIENCE_S
        while pump not in self._bench.store.actuators and self._loop.time() < deadline_s:
            await self._run.wait(1.0)  # right after the start it has not been asked yet
        seen = self._bench.store.actuators.get(pump)
        point = f"{pump}.flow"
        if seen is None or not isinstance(seen.status, PumpStatus):
            return {"point": point, "unit": "uL/min", "interval": None, "detail": f"{pump} never answered"}
        interval = Interval.around(seen.status.flow_ul_min, ACCURACY_SD["uL/min"]).to_json()
        return {"point": point, "unit": "uL/min", "interval": interval, "detail": ""}

    async def calibrated(self, step: StepRecord, point: str) -> dict[str, Any]:
        """Set a probe's own calibration through the gate; `{before, after, places}`. Twice in the same buffer is as once."""
        command = Calibrate(step.args["place"], step.args["value"])
        intent = ProbeIntent(point, command, step.args["valid_s"], f"run:{self._run.id}", f"step {step.n} {step.verb}")
        tries: dict[Trouble, int] = {}
        async with self._claim(self._batch):
            while True:
                await self._run.checkpoint()
                found = await self._bench.gate.calibrate(intent)
                if found.accepted and found.error is None and found.status is not None:
                    return {"before": found.before, "after": found.after, "places": found.status.places}
                trouble = Trouble.WORN if found.worn else Trouble.FAILED if found.accepted else Trouble.REFUSED
                problem = StepProblem(trouble, point, found.reasons or (found.error or "it gave no answer",))
                before = tries.get(trouble, 0)
                tries[trouble] = before + 1
                await self._run.trouble(problem, before)

    async def slept(self, step: StepRecord, seconds: float) -> None:
        """Wait for the step's recorded deadline, however often the controller was restarted meanwhile."""
        if step.deadline_s is None:
            step.deadline_s = self._loop.time() + self._left_s(step, seconds)
        await self._run.wait_out(step.deadline_s)

    async def slept_until(self, step: StepRecord, elapsed_s: float) -> float:
        """Wait until `elapsed_s` after the run's start; how late it was (s)."""
        deadline_s = self._run.started_s + elapsed_s
        late_s = max(0.0, self._loop.time() - deadline_s)
        await self._run.wait_out(deadline_s)
        if late_s == 0.0:  # it had to wait, and was held beyond its time perhaps
            over_s = self._loop.time() - deadline_s
            late_s = over_s if over_s >= LATE_S else 0.0
        return round(late_s, 3)

    async def slept_until_clock(self, step: StepRecord) -> str:
        """Wait for the time of day that the step has recorded; returns it."""
        if step.deadline_s is None:
            max_s = 0.0 if step.until is None else longest_s(step.until, step.args)
            step.deadline_s = self._loop.time() + self._left_s(step, max_s)
        await self._run.wait_out(step.deadline_s)
        return step.until or ""

    def _left_s(self, step: StepRecord, seconds: float) -> float:
        """Return the seconds left of a sleep that another process began, by UTC, and never more than all of it (E7)."""
        if step.until is None:
            return seconds
        left_s = (datetime.fromisoformat(step.until) - self._bench.clock.utc()).total_seconds()
        return min(max(left_s, 0.0), seconds)

    def barrier(self) -> dict[str, Any]:
        """Return the state of the sterile filter, as its recorded passes show it."""
        return self._barrier.read()

    def noted(self, step: StepRecord, kind: str, data: Mapping[str, Any]) -> None:
        """Write a note to the journal, once."""
        if not step.noted:
            self._bench.journal.append(f"note.{kind}", {**data, "step": step.n}, run=self._run.id)
            step.noted = True
            if kind == RETREAT:
                self._bench.alarm(kind, str(data["where"]), str(data["text"]))

    async def asked(self, step: StepRecord, message: str, answer: AnswerForm | None) -> dict[str, Any] | None:
        """Hold until a person resumes, or until the answer is recorded; one from before a restart counts."""
        text = question_text(step.n, message)
        if answer is None:
            if not self._run.answered(text):
                await self._run.hold(text)
            return None
        while step.answer is None:
            await self._run.hold(text)
        told = {"value": step.answer, "text": step.reply.get("text", answer.text(step.answer))}
        if answer.kind in UPLOADED:
            return {**told, "file": step.answer}
        return told if answer.kind != APPROVAL else {**told, "user": step.reply["user"], "reason": step.reply["reason"]}

    async def estimated(self) -> dict[str, Any]:
        """Return the soft sensor's estimate, of settled readings, with the loss of viability that the estimate of the
        tissue shows.
        """
        async with self._claim(self._batch):
            await self._run.checkpoint()
            media = await self._estimator.estimate(run=self._run.id)
            return replace(media, tissue=self._bench.tissue_loss()).to_json()

    @property
    def _estimator(self) -> Estimator:
        if (found := self._bench.estimator) is None:
            raise ProtocolError(f"{NO_LOOP}. Next: use a recipe without “estimate”, or add a loop to the rig file")
        return found
