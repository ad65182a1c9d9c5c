"""One run of a protocol: its state, its steps, and how it is driven, held, ended and taken up again.

The protocol function is run from its beginning each time; steps that the journal knows answer at once with what is
recorded, the first that is not finished goes on by its policy. A command (pause, stop, abort) changes the state at once
and is obeyed at the next moment at which everything can be brought to rest.

Branches (`lab.together`) are tasks of one run: a hold, a stop and an error are the whole run's. It is held when every
branch has come to a place where it can wait; the last to come there sees that everything stands.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controller.core.run_states import RunEvent, RunState, after
from controller.journal.terms import JournalUnwritten
from controller.recipes.answers import AnswerRefused
from controller.runs.action import actions
from controller.runs.context import LiveRun, RunContext
from controller.runs.facts import RigFacts
from controller.runs.questions import OpenQuestion, of_step, open_question
from controller.runs.replies import QuestionReply
from controller.runs.step_log import StepLog, elapsed_s
from controller.runs.views import RunView
from controller.steps.branches import BRANCH, Branch, abreast, in_verb
from controller.steps.budget import StepBudget
from controller.steps.recovery import StepProblem, advise
from controller.steps.steps import PAUSED, StepRecord
from controller.transfers.routes import Route, route_of
from protocols.host import ProtocolError, RunEnded
from protocols.language import TOGETHER, Lab
from protocols.registry import Recipe
from protocols.results import VesselVolume
from protocols.table import VERBS, way_of_step
from protocols.verbs import Verb

DISK_ERRORS = (JournalUnwritten, sqlite3.Error)
"""What a row that cannot be written, or read, comes as."""
REST_AGAIN_S = 10.0
REST_WITHIN_S = 120.0
"""Maximum time (s) that an ending run waits until the devices that it has used are at rest. A dead pump must not prevent
the next run, which may save the organoid."""
ANSWER_S = 2 * 3600.0
"""Time (s) that a held run waits for an answer before the critical alarm `run_unanswered`."""


@dataclass(slots=True)
class RunHistory:
    """Holds what the journal has of a run at its start: nothing for a new run, its rows for one that continues."""

    started_utc: str
    state: RunState = RunState.IDLE
    steps: dict[str, StepRecord] = field(default_factory=dict)
    """By their place (:mod:`controller.steps.branches`), in the order in which they were begun."""
    volumes: dict[str, Any] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)
    """Messages after which a person has resumed the run."""
    held_for: set[str] = field(default_factory=set)
    """Messages that have held it since it was resumed last."""
    starter: str = ""
    """Name of the person who started it."""


class ProtocolRun:
    """See the module. Made and commanded by :class:`controller.runs.runner.Runner`."""

    def __init__(
        self,
        bench: RunContext,
        run_id: str,
        protocol: str,
        recipe: Recipe | None,
        params: Mapping[str, float],
        history: RunHistory,
    ) -> None:
        self.id = run_id
        self.protocol = protocol
        self.params = dict(params)
        self.state = history.state
        self.started_utc = history.started_utc
        self.starter = history.starter
        self.messages: deque[str] = deque(history.messages, maxlen=50)
        self.doubt = ""
        """Why the run is held when it is taken up after a restart; empty if it goes on."""
        self._bench = bench
        self._recipe = recipe
        self._log = StepLog(bench, run_id, history.steps)
        self._answers = history.answered
        self._held_for = history.held_for
        self._budget = StepBudget()
        self._first_volumes: Mapping[str, Any] = history.volumes
        self._branches: set[Branch] = {Branch()}
        """Those with work of their own: not the ones that wait for branches of theirs."""
        self._at_work: set[Branch] = set()
        """Those with a verb under way."""
        self._resting = False
        self._answer_by_s: float | None = None
        """While it is held: when another person is to be called (loop time)."""
        self._changed = asyncio.Event()
        self._stirred = asyncio.Event()
        self._lab = Lab(self, RigFacts(bench.rig, self.volumes_now))
        self._live = LiveRun(self, bench)
        self._loop = asyncio.get_running_loop()
        self.started_s = self._loop.time() - elapsed_s(bench.journal, bench.clock, run_id)
        """When it began (loop time)."""

    # --- commands ---------------------------------------------------------------------------------------

    def command(self, event: RunEvent, user: str, reason: str) -> None:
        """Execute the command of a person; raise :class:`controller.core.run_states.IllegalTransition` if the state does
        not allow it.
        """
        self._go(event, user=user, reason=reason)

    @property
    def question(self) -> OpenQuestion | None:
        """The question that the held run waits for."""
        return open_question(self._log.steps, self.state, self._held_for)

    def asked(self) -> OpenQuestion:
        """Return the question that waits for an answer.

        Raises :class:`AnswerRefused` or :class:`controller.core.run_states.IllegalTransition`.
        """
        asked = self.question
        after(self.state, RunEvent.RESUME)
        if asked is None or asked.answer is None:
            raise AnswerRefused("the run does not ask for an answer. Next: resume it")
        return asked

    def answered_by(self, asked: OpenQuestion, reply: QuestionReply, user: str, reason: str) -> None:
        """Record the reply to the open question, and resume the run if nothing else holds it."""
        self._log.answer(asked, reply, user, reason)
        if all(of_step(held, asked.n) for held in self._held_for):
            self._go(RunEvent.RESUME, user=user, reason=reason)

    @property
    def interrupted(self) -> bool:
        """Whether everything has to come to rest now (a stop lets the running transfer end)."""
        return self.state in (RunState.HOLDING, RunState.ABORTING)

    @property
    def aborted(self) -> bool:
        """Whether it comes to rest for good."""
        return self.state is RunState.ABORTING

    def answered(self, message: str) -> bool:
        """Return whether a person has resumed the run after `message`; a restart does not forget it."""
        return message in self._answers

    def view(self) -> RunView:
        """Return the present state of the run."""
        return RunView(
            id=self.id,
            protocol=self.protocol,
            state=self.state,
            step=len(self._log.steps),
            started_utc=self.started_utc,
            params=self.params,
            progress=self._log.views(ended=self.state.ended),
            messages=tuple(self.messages),
            question=self.question,
        )

    # --- life -------------------------------------------------------------------------------------------

    async def live(self) -> None:
        """Drive the run to its end; returns when its state has ended."""
        BRANCH.set(next(iter(self._branches)))
        try:
            await self._take_up()
            while True:
                root = Branch(volumes=self._first_volumes)
                self._branches = {root}
                BRANCH.set(root)
                try:
                    await self._once()
                except DISK_ERRORS:
                    await self._end_stray_verbs()
                    raise  # no fault of the protocol: the runner takes the run up again when rows can be written
                except Exception as error:
                    # The protocol itself failed: nothing moves, and a person decides. Resuming runs it again.
                    await self._end_stray_verbs()
                    what = str(error) or type(error).__name__
                    await self.hold(
                        f"the protocol stopped: {what}. Next: remove the cause and resume, or abort the run"
                    )
                    continue
                if not self.state.ended:
                    await self.checkpoint()
                    self._go(RunEvent.FINISHED)
                return
        except RunEnded:
            unseen = await self._come_to_rest()
            await self._settle(f"the run is {self.state}", give_up=True)
            self._go(RunEvent.RESTED, **({"not_seen_at_rest": ", ".join(unseen)} if unseen else {}))

    def failed(self, error: Exception) -> None:
        """Hold the run after a defect of the runner, with what is known, so that the next start continues it where it is."""
        self._tell(
            f"the runner failed: {error!r}. Next: keep the journal, restart the controller, report it", hold=True
        )

    async def _settle(self, reason: str, *, give_up: bool = False) -> list[StepProblem]:
        """Determine what was delivered by doses whose outcome is open. Return a problem for each that cannot be
        determined.
        """
        resolve = self._bench.transfers.resolve
        left = [step for step in self._log.steps.values() if step.open_act is not None]
        found = [await resolve(self.id, step, reason=reason, give_up=give_up) for step in left]
        return [problem for problem in found if problem is not None]

    async def _end_stray_verbs(self) -> None:
        """Cancel verbs that the protocol began and did not await: they must not continue while the run is held."""
        strays = [branch.worker for branch in self._at_work if branch.worker not in (None, asyncio.current_task())]
        for stray in strays:
            stray.cancel()
        await asyncio.gather(*strays, return_exceptions=True)

    async def _once(self) -> None:
        if self._recipe is None:
            await self.hold(
                f"the protocol “{self.protocol}” is not what it was when this run began. Likely cause: its file or Choroid"
                " was changed. Next: put the old text back and restart the controller, or abort the run and start it again"
            )
            raise ProtocolError("it still is not what it was")
        await self._recipe.function(self._lab, self.params)

    async def _take_up(self) -> None:
        """Continue a run after a restart of the controller: determine the outcome of an open dose, then act by the state
        of the run.
        """
        if self.state is RunState.IDLE:
            self._go(RunEvent.START)
            return
        problems = await self._settle("the controller was restarted")
        doubted = self.doubt and self.state is RunState.RESTARTING
        await self._bench.transfers.rest(f"run:{self.id}", "the controller was restarted")
        for problem in problems:
            self._tell(advise(problem, 99).message, hold=True)
        if doubted:
            self._tell(self.doubt, hold=True)
        if (problems or doubted) and self.state is RunState.RESTARTING:
            self._go(RunEvent.FAULT)
        await self.checkpoint()

    async def checkpoint(self) -> None:
        """Obey what was commanded: hold here, or end."""
        branch = self._here()
        while True:
            if self.state in (RunState.STOPPING, RunState.ABORTING):
                raise RunEnded
            if self.state is RunState.HOLDING:
                await self._holding(branch)
            elif self.state is RunState.HELD:
                await self._held()
            elif self.state is RunState.RESTARTING:
                self._go(RunEvent.RESTARTED)
            else:
                return

    async def _holding(self, branch: Branch) -> None:
        """Bring everything to rest once every other branch waits; until then wait for them, or for a command."""
        branch.quiet = True
        self.wake_branches()
        try:
            while self.state is RunState.HOLDING:
                if self._resting or not all(other.quiet for other in self._branches - {branch}):
                    await self._stirred.wait()
                    continue
                self._resting = True
                try:
                    if await self._come_to_rest():
                        continue  # a command came meanwhile: it is obeyed, whatever stands or not
                    for problem in await self._settle("the run is held"):
                        self._tell(advise(problem, 99).message, hold=True)
                finally:
                    self._resting = False
                if self.state is RunState.HOLDING:
                    self._go(RunEvent.RESTED)
        finally:
            branch.quiet = False

    async def _held(self) -> None:
        """Wait for a person; one who does not come is called for again, more loudly."""
        if self._answer_by_s is None:
            await self._changed.wait()
        elif (left_s := self._answer_by_s - self._loop.time()) > 0:
            await self.wait(left_s)
        else:
            self._answer_by_s = None
            last = self.messages[-1] if self.messages else "it was paused"
            self._bench.alarm("run_unanswered", self.id, f"for {ANSWER_S / 3600:g} h without an answer: {last}")

    def _here(self) -> Branch:
        """Return the branch that called this verb."""
        return BRANCH.get()

    def wake_branches(self) -> None:
        """Wake the branches that wait for each other."""
        self._stirred.set()
        self._stirred = asyncio.Event()

    async def _come_to_rest(self) -> list[str]:
        """Bring everything that the run has used to rest, by readback; retry, with a message, until it is at rest.

        What the run has not used is commanded to rest as well, and not waited for.

        Returns:
            What was not seen at rest when a held run was commanded to end meanwhile, or when an ending run has waited for
            :data:`REST_WITHIN_S`.
        """
        who, transfers = f"run:{self.id}", self._bench.transfers
        used, unused = self._transfers_by_use()
        state, why = self.state, f"the run is {self.state}"
        latest_s = self._loop.time() + REST_WITHIN_S
        restless = await transfers.rest(who, why, used)
        for name in await transfers.rest(who, why, unused):
            if name not in restless:
                self._bench.alarm(
                    "command_failed", name, f"it is not seen to be at rest; run {self.id} has not used it and goes on"
                )
        if restless:
            self._bench.alarm("command_failed", restless[0], f"it does not come to rest for run {self.id}")
            self._tell(f"{', '.join(restless)} cannot be seen to be at rest; switch it off by hand", hold=False)
        while restless:
            if state is not self.state:
                return restless  # it was held, and is to end
            if state is not RunState.HOLDING and self._loop.time() >= latest_s:
                await transfers.leave(who, f"{why} and was not seen to rest", restless)
                self._tell(f"{', '.join(restless)} not seen at rest at the end: make sure of it by hand", hold=False)
                return restless
            await self.wait(REST_AGAIN_S)
            restless = await transfers.rest(who, why, used)
        return []

    def _transfers_by_use(self) -> tuple[list[str], list[str]]:
        """Return the transfers that the run has used, and those whose line it has not used; both sorted."""
        routes = self._bench.transfers.routes
        ways = {way_of_step(step.verb, step.args) for step in self._log.steps.values() if step.verb in VERBS}
        used = ways & set(routes)
        used_lines = {routes[verb].line for verb in used}
        return sorted(used), sorted(verb for verb, route in routes.items() if route.line not in used_lines)

    async def wait(self, seconds: float) -> None:
        """Wait `seconds` of loop time, or until a command comes."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def wait_out(self, deadline_s: float) -> None:
        """Wait until a loop time; holds in between when the run is held."""
        while True:
            await self.checkpoint()
            left_s = deadline_s - self._loop.time()
            if left_s <= 0:
                return
            await self.wait(left_s)

    async def trouble(self, problem: StepProblem, tries: int) -> None:
        """Wait what the policy says, or hold."""
        advice = advise(problem, tries)
        if advice.after_s is None:
            await self.hold(advice.message)
        else:
            self._tell(advice.message, hold=False)
            await self.wait_out(self._loop.time() + advice.after_s)

    async def hold(self, message: str) -> None:
        """Hold with a message for people, until a person resumes the run."""
        self._tell(message, hold=True)
        if self.state in (RunState.RUNNING, RunState.RESTARTING):
            self._go(RunEvent.FAULT)
        await self.checkpoint()

    def _tell(self, message: str, *, hold: bool) -> None:
        if hold:
            self._bench.alarm("run_held", self.id, message)
            self._held_for.add(message)
        if not self.messages or self.messages[-1] != message:
            self.messages.append(message)
            body = {"text": message} if hold else {"text": message, "hold": False}
            self._bench.journal.append("run.message", body, run=self.id)

    def _go(self, event: RunEvent, **why: str) -> None:
        state = after(self.state, event)
        self._bench.journal.append("run.state", {"event": event, "from": self.state, "to": state, **why}, run=self.id)
        self.state = state
        if event is RunEvent.RESUME:
            self._answers.update(self.messages)
            self._held_for.clear()
        elif event is RunEvent.PAUSE:
            self._held_for.add(PAUSED)
        self._answer_by_s = self._loop.time() + ANSWER_S if state is RunState.HELD else None
        self._changed.set()
        self._changed = asyncio.Event()
        self.wake_branches()

    # --- steps ------------------------------------------------------------------------------------------

    async def act(self, verb: Verb, args: Mapping[str, Any]) -> Any:
        """Perform the next step of this branch; return the recorded result of one that was performed before a restart."""
        branch, recorded = self._here(), verb.recorded(args)
        if verb is Lab.decide and self._log.undecided(branch, args["what"]):
            return args["choose"]()
        with in_verb(branch, verb.name, self._at_work):
            step = self._log.known(branch, verb, recorded)
            if step is None or not step.done:
                step = await self._begun(branch, step, verb, recorded)
                self._log.finish(step, await actions()[verb.name].perform(self._live, step, args))
                await asyncio.sleep(0)  # a protocol of nothing but notes must not keep the loop to itself
            branch.volumes = step.volumes or branch.volumes
            return step.result

    async def attend(self, coming: asyncio.Future[Any]) -> Any:
        """Wait for what a protocol in a process of its own asks next; hold or end meanwhile if that is commanded."""
        while True:
            await self.checkpoint()
            if coming.done():
                return coming.result()
            changed = asyncio.create_task(self._changed.wait())
            try:
                await asyncio.wait((coming, changed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]], names: Sequence[str]) -> list[Any]:
        """Run coroutines as branches of this one; one step, which is done when all of them are."""
        branch, args = self._here(), {"branches": list(names)}
        try:
            with in_verb(branch, TOGETHER.name, self._at_work):
                step = self._log.known(branch, TOGETHER, args)
                if step is None or not step.done:
                    step = await self._begun(branch, step, TOGETHER, args)
                children = [branch.child(name) for name in names]
                self._branches = self._branches - {branch} | set(children)
                try:
                    results = await abreast(children, works, ended=self._branch_ended)
                finally:
                    self._branches = self._branches - set(children) | {branch}
                if not step.done:
                    self._log.finish(step, None)
                branch.volumes = step.volumes or branch.volumes
                return results
        finally:
            for work in works:
                work.close()

    def _branch_ended(self, branch: Branch) -> None:
        self._branches = self._branches - {branch}
        self.wake_branches()

    async def _begun(self, branch: Branch, step: StepRecord | None, verb: Verb, args: Mapping[str, Any]) -> StepRecord:
        """Return the step, recorded as begun."""
        await self.checkpoint()
        await self._unaltered()
        if step is not None:
            return step
        if too_many := self._budget.spend(self._loop.time()):
            await self.hold(too_many)
        return self._log.begin(branch, verb, args)

    async def _unaltered(self) -> None:
        """Hold as long as the protocol's file is not what it was: how its new text would have gone on is not guessed."""
        while self._recipe is not None and (path := self._recipe.altered()) is not None:
            await self.hold(
                f"{path.name} was changed or removed while its run is under way. Likely cause: a person edits it. Next: put"
                " the old text back and resume, or abort the run and start it again"
            )

    def volumes_now(self) -> Mapping[str, VesselVolume]:
        """Volumes as of the end of this branch's last step."""
        return {role: VesselVolume(**data) for role, data in self._here().volumes.items()}

    def route(self, verb: str) -> Route:
        """Return the route on which a verb moves liquid."""
        return route_of(self._bench.transfers.routes, verb)
