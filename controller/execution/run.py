"""One run of a protocol: its state, its steps, and how it is driven, held, ended and taken up again.

The protocol function is run from its beginning each time; steps that the journal knows answer at once with what is
recorded, the first that is not finished goes on by its policy. A command (pause, stop, abort) changes the state at once
and is obeyed at the next moment at which everything can be brought to rest.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from controller.clock import Clock
from controller.execution.estimator import Estimator
from controller.execution.journal import Journal
from controller.execution.ledger import Alarm, Ledger
from controller.execution.organs import Lab, Perform
from controller.execution.recovery import POLICIES, Problem, advise
from controller.execution.routes import Route
from controller.execution.schedule import LONGEST_DAY_S, next_time
from controller.execution.states import Event, RunState, after
from controller.execution.steps import StepRecord
from controller.execution.transfers import Transfers
from controller.execution.views import PROGRESS_STEPS, RunView, StepView, look, step_view
from controller.execution.weighing import ACCURACY_SD, Store, settled
from controller.rig.description import Rig
from drivers.device import PumpStatus
from protocols.interval import Interval
from protocols.language import ProtocolError, RunEnded, VesselVolume
from protocols.registry import Recipe

__all__ = ["Bench", "History", "Run", "RunView", "StepView"]

MEASURE_PATIENCE_S = 60.0
REST_AGAIN_S = 10.0
LATE_S = 1.0
"""What a wait may overshoot without being late."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What every run of a rig shares."""

    rig: Rig
    journal: Journal
    clock: Clock
    ledger: Ledger
    store: Store
    transfers: Transfers
    estimator: Estimator
    alarm: Alarm


@dataclass(slots=True)
class History:
    """What a run brings along: nothing when it is new, its journal rows when it is taken up again."""

    started_utc: str
    state: RunState = RunState.IDLE
    steps: dict[int, StepRecord] = field(default_factory=dict)
    volumes: dict[str, Any] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)


class Run:
    """See the module. Made and commanded by :class:`controller.execution.runner.Runner`."""

    def __init__(
        self,
        bench: Bench,
        run_id: str,
        protocol: str,
        recipe: Recipe | None,
        params: Mapping[str, float],
        history: History,
    ) -> None:
        self.id = run_id
        self.protocol = protocol
        self.params = dict(params)
        self.state = history.state
        self.started_utc = history.started_utc
        self.messages: deque[str] = deque(history.messages, maxlen=50)
        self._bench = bench
        self._recipe = recipe
        self._steps = history.steps
        self._first_volumes: Mapping[str, Any] = history.volumes
        self._volumes: Mapping[str, Any] = history.volumes
        self._n = 0
        self._busy = False
        self._worker: asyncio.Task[Any] | None = None
        self._changed = asyncio.Event()
        self._lab = Lab(self, bench.rig)
        self._loop = asyncio.get_running_loop()
        gone_s = (bench.clock.utc() - datetime.fromisoformat(history.started_utc)).total_seconds()
        self._started_s = self._loop.time() - max(gone_s, 0.0)

    # --- commands ---------------------------------------------------------------------------------------

    def command(self, event: Event, user: str, reason: str) -> None:
        """A person's word; raises :class:`controller.execution.states.IllegalTransition`."""
        self._go(event, user=user, reason=reason)

    @property
    def interrupted(self) -> bool:
        """Whether everything has to come to rest now (a stop lets the running transfer end)."""
        return self.state in (RunState.HOLDING, RunState.ABORTING)

    def view(self) -> RunView:
        """The run as it stands."""
        latest = range(max(1, len(self._steps) - PROGRESS_STEPS + 1), len(self._steps) + 1)
        return RunView(
            id=self.id,
            protocol=self.protocol,
            state=self.state,
            step=len(self._steps),
            started_utc=self.started_utc,
            params=self.params,
            progress=tuple(step_view(self._steps[n], ended=self.state.ended) for n in latest),
            messages=tuple(self.messages),
        )

    # --- life -------------------------------------------------------------------------------------------

    async def live(self) -> None:
        """Drive the run to its end; returns when its state has ended."""
        try:
            await self._take_up()
            while True:
                self._n, self._volumes = 0, self._first_volumes
                try:
                    await self._once()
                except Exception as error:
                    # The protocol itself failed: nothing moves, and a person decides. Resuming runs it again.
                    await self._end_stray_verb()
                    what = str(error) or type(error).__name__
                    await self._hold(f"the protocol stopped: {what}. Next: mend the cause and resume, or abort the run")
                    continue
                if not self.state.ended:
                    await self.checkpoint()
                    self._go(Event.FINISHED)
                return
        except RunEnded:
            await self._come_to_rest()
            await self._settle(f"the run is {self.state}", give_up=True)
            self._go(Event.RESTED)

    def failed(self, error: Exception) -> None:
        """A defect of the runner: hold, with what is known, so that the next start takes the run up where it is."""
        self._tell(
            f"the runner failed: {error!r}. Next: keep the journal, restart the controller, report it", hold=True
        )

    async def _settle(self, reason: str, *, give_up: bool = False) -> list[Problem]:
        """Find out what came of doses that were left open; what cannot be known for certain comes back as problems."""
        resolve = self._bench.transfers.resolve
        left = [step for step in self._steps.values() if step.open_act is not None]
        found = [await resolve(self.id, step, reason=reason, give_up=give_up) for step in left]
        return [problem for problem in found if problem is not None]

    async def _end_stray_verb(self) -> None:
        """A verb that the protocol began and did not await must not go on behind a held run."""
        stray, self._worker = self._worker, None
        if stray is not None and stray is not asyncio.current_task() and not stray.done():
            stray.cancel()
            await asyncio.gather(stray, return_exceptions=True)
        self._busy = False

    async def _once(self) -> None:
        if self._recipe is None:
            await self._hold(
                f"the protocol “{self.protocol}” is not what it was when this run began. Likely cause: its file or Choroid"
                " was changed. Next: put the old text back and restart the controller, or abort the run and start anew"
            )
            raise ProtocolError("it still is not what it was")
        await self._recipe.function(self._lab, self.params)

    async def _take_up(self) -> None:
        """After a restart: find out what came of an open dose, then go on as the state says."""
        if self.state is RunState.IDLE:
            self._go(Event.START)
            return
        problems = await self._settle("the controller was restarted")
        await self._bench.transfers.rest(f"run:{self.id}", "the controller was restarted")
        for problem in problems:
            self._tell(advise(problem, 99).message, hold=True)
        if problems and self.state is RunState.RESTARTING:
            self._go(Event.FAULT)
        await self.checkpoint()

    async def checkpoint(self) -> None:
        """Obey what was commanded: hold here, or end."""
        while True:
            if self.state in (RunState.STOPPING, RunState.ABORTING):
                raise RunEnded
            if self.state is RunState.HOLDING:
                await self._come_to_rest()
                for problem in await self._settle("the run is held"):
                    self._tell(advise(problem, 99).message, hold=True)
                if self.state is RunState.HOLDING:
                    self._go(Event.RESTED)
            elif self.state is RunState.HELD:
                await self._changed.wait()
            elif self.state is RunState.RESTARTING:
                self._go(Event.RESTARTED)
            else:
                return

    async def _come_to_rest(self) -> None:
        """Everything the run can move stands, by readback; as long as it does not, try again and say so."""
        told = False
        while restless := await self._bench.transfers.rest(f"run:{self.id}", f"the run is {self.state}"):
            if not told:
                self._bench.alarm("command_failed", restless[0], f"it does not come to rest for run {self.id}")
                self._tell(f"{', '.join(restless)} cannot be seen to be at rest; switch it off by hand", hold=False)
                told = True
            await asyncio.sleep(REST_AGAIN_S)

    async def wait(self, seconds: float) -> None:
        """Wait `seconds` of loop time, or until a command comes."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def trouble(self, problem: Problem, tries: int) -> None:
        """Wait what the policy says, or hold."""
        advice = advise(problem, tries)
        if advice.after_s is None:
            await self._hold(advice.message)
        else:
            self._tell(advice.message, hold=False)
            await self._wait_out(self._loop.time() + advice.after_s)

    async def _hold(self, message: str) -> None:
        self._tell(message, hold=True)
        if self.state in (RunState.RUNNING, RunState.RESTARTING):
            self._go(Event.FAULT)
        await self.checkpoint()

    def _tell(self, message: str, *, hold: bool) -> None:
        if hold:
            self._bench.alarm("run_held", self.id, message)
        if not self.messages or self.messages[-1] != message:
            self.messages.append(message)
            self._bench.journal.append("run.message", {"text": message}, run=self.id)

    def _go(self, event: Event, **why: str) -> None:
        state = after(self.state, event)
        self._bench.journal.append("run.state", {"event": event, "from": self.state, "to": state, **why}, run=self.id)
        self.state = state
        self._changed.set()
        self._changed = asyncio.Event()

    # --- steps ------------------------------------------------------------------------------------------

    async def step(self, verb: str, args: Mapping[str, Any], perform: Perform) -> Any:
        """The next step: what is recorded of it, or do it now."""
        if self._busy:
            raise ProtocolError(f"{verb} was asked while another verb was at work. Next: await one verb at a time")
        self._busy = True
        self._worker = asyncio.current_task()
        try:
            self._n += 1
            step = self._steps.get(self._n)
            if step is not None and (step.verb != verb or dict(step.args) != dict(args)):
                raise ProtocolError(
                    f"step {self._n} was {step.verb}{dict(step.args)} and is now {verb}{dict(args)}: the protocol does not"
                    " repeat itself. Likely cause: it uses something else than what the lab told it"
                )
            if step is None or not step.done:
                step = await self._do(step, verb, args, perform)
            if step.volumes is not None:
                self._volumes = step.volumes
            return step.result
        finally:
            self._busy = False

    async def _do(self, step: StepRecord | None, verb: str, args: Mapping[str, Any], perform: Perform) -> StepRecord:
        await self.checkpoint()
        await self._unaltered()
        if step is None:
            step = StepRecord(self._n, verb, args)
            body = {"n": step.n, "verb": verb, "args": args, "policy": POLICIES[verb]}
            now = self._bench.clock.utc()
            until = None
            if verb == "sleep":
                until = now + timedelta(seconds=args["seconds"])
            elif verb == "sleep_until_clock":
                until = next_time(now, args["at"], args["zone"], args["after"], since_s=self._since_turn_s(args))
            if until is not None:
                body["until"] = step.until = until.isoformat(timespec="milliseconds")
                # From here on it is a matter of the monotonic clock: a step of UTC does not move it (E7).
                step.deadline_s = self._loop.time() + (until - now).total_seconds()
            self._bench.journal.append("step", body, run=self.id)
            self._steps[step.n] = step
        result = await perform(step)
        volumes = look(self._bench.rig, self._bench.ledger)
        self._bench.journal.append("step.done", {"n": step.n, "result": result, "volumes": volumes}, run=self.id)
        step.done, step.result, step.volumes = True, result, volumes
        await asyncio.sleep(0)  # a protocol of nothing but notes must not keep the loop to itself
        return step

    def _since_turn_s(self, args: Mapping[str, Any]) -> float | None:
        """How long ago (s) the turn before ended its wait for the same time of day, if it did so in this process."""
        if args["after"] is None:
            return None
        for n in range(self._n - 1, 0, -1):
            step = self._steps[n]
            same = step.verb == "sleep_until_clock" and all(step.args[key] == args[key] for key in ("at", "zone"))
            if same:
                return None if step.deadline_s is None else self._loop.time() - step.deadline_s
        return None

    async def _unaltered(self) -> None:
        """Hold as long as the protocol's file is not what it was: how its new text would have gone on is not guessed."""
        while self._recipe is not None and (path := self._recipe.altered()) is not None:
            await self._hold(
                f"{path.name} was changed or removed while its run is under way. Likely cause: somebody edits it. Next: put"
                " the old text back and resume, or abort the run and start anew"
            )

    # --- what the organs ask ----------------------------------------------------------------------------

    def route(self, verb: str) -> Route:
        """Which way a verb moves liquid."""
        return self._bench.transfers.routes[verb]

    async def transfer(self, step: StepRecord, verb: str, volume_ul: float) -> dict[str, float | None]:
        """Move liquid; `{ul, low, high}`, and `peak_kpa` where it passes the filter and was watched."""
        ul, low, high = await self._bench.transfers.transfer(self, step, self.route(verb), volume_ul)
        moved: dict[str, float | None] = {"ul": ul, "low": low, "high": high}
        return moved if step.peak_kpa is None else {**moved, "peak_kpa": round(step.peak_kpa, 3)}

    async def measured(self, point: str, settle_s: float) -> dict[str, Any]:
        """A settled reading; starts over when the run was held in between."""
        device = self._bench.rig.devices.get(point.partition(".")[0])
        if device is None:
            raise ProtocolError(f"no sensor is called “{point}”. Next: use device.point as in the rig file")
        while True:
            await self.checkpoint()
            await self.wait(settle_s) if settle_s > 0 else None
            if self.interrupted:
                continue
            patience_s = max(MEASURE_PATIENCE_S, 6 * device.every_s)
            reading = await settled(self._bench.store, point, every_s=device.every_s, patience_s=patience_s)
            if not self.interrupted:
                break
        interval = None if reading.value is None else Interval.around(reading.value, reading.sd).to_json()
        return {"point": point, "unit": reading.unit, "interval": interval, "detail": reading.detail}

    async def flow_of(self, pump: str) -> dict[str, Any]:
        """What a pump says of its flow (µL/min), as last polled."""
        deadline_s = self._loop.time() + MEASURE_PATIENCE_S
        while pump not in self._bench.store.actuators and self._loop.time() < deadline_s:
            await self.wait(1.0)  # right after the start it has not been asked yet
        seen = self._bench.store.actuators.get(pump)
        point = f"{pump}.flow"
        if seen is None or not isinstance(seen.status, PumpStatus):
            return {"point": point, "unit": "uL/min", "interval": None, "detail": f"{pump} never answered"}
        interval = Interval.around(seen.status.flow_ul_min, ACCURACY_SD["uL/min"]).to_json()
        return {"point": point, "unit": "uL/min", "interval": interval, "detail": ""}

    async def slept(self, step: StepRecord, seconds: float) -> None:
        """Wait for the step's recorded deadline, however often the controller was restarted meanwhile."""
        if step.deadline_s is None:
            step.deadline_s = self._loop.time() + self._left_s(step, seconds)
        await self._wait_out(step.deadline_s)

    async def slept_until(self, step: StepRecord, elapsed_s: float) -> float:
        """Wait until `elapsed_s` after the run's start; how late it was (s)."""
        deadline_s = self._started_s + elapsed_s
        late_s = max(0.0, self._loop.time() - deadline_s)
        await self._wait_out(deadline_s)
        if late_s == 0.0:  # it had to wait, and was held beyond its time perhaps
            over_s = self._loop.time() - deadline_s
            late_s = over_s if over_s >= LATE_S else 0.0
        return round(late_s, 3)

    async def slept_until_clock(self, step: StepRecord) -> str:
        """Wait for the time of day that the step has recorded; returns it."""
        if step.deadline_s is None:
            step.deadline_s = self._loop.time() + self._left_s(step, LONGEST_DAY_S)
        await self._wait_out(step.deadline_s)
        return step.until or ""

    def _left_s(self, step: StepRecord, seconds: float) -> float:
        """Seconds left of a sleep that another process began: what UTC says, never more than all of it (E7)."""
        if step.until is None:
            return seconds
        left_s = (datetime.fromisoformat(step.until) - self._bench.clock.utc()).total_seconds()
        return min(max(left_s, 0.0), seconds)

    async def _wait_out(self, deadline_s: float) -> None:
        """Wait until a loop time; holds in between when the run is held."""
        while True:
            await self.checkpoint()
            left_s = deadline_s - self._loop.time()
            if left_s <= 0:
                return
            await self.wait(left_s)

    def noted(self, step: StepRecord, kind: str, data: Mapping[str, Any]) -> None:
        """Write a note to the journal, once."""
        if not step.noted:
            self._bench.journal.append(f"note.{kind}", {**data, "step": step.n}, run=self.id)
            step.noted = True

    async def asked(self, step: StepRecord, message: str) -> None:
        """Hold until a person resumes; a message that was told before a restart has been waited for already."""
        text = f"step {step.n}: {message}"
        if text not in self.messages:
            await self._hold(text)

    async def estimated(self) -> dict[str, Any]:
        """The soft sensor's estimate, of settled readings."""
        await self.checkpoint()
        return (await self._bench.estimator.estimate(run=self.id)).to_json()

    def volumes_now(self) -> Mapping[str, VesselVolume]:
        """Volumes as of the last step's end."""
        return {role: VesselVolume(**data) for role, data in self._volumes.items()}
