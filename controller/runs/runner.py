"""The runner: starts protocols, takes commands for them, and takes them up again after a restart.

One run at a time: all liquid passes through one vessel and one filter.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from controller.attachments.store import Attachment
from controller.core.run_states import RunEvent, RunState
from controller.estimator.assays import Assays
from controller.estimator.estimator import estimator_of
from controller.gate.gate import Gate
from controller.journal.context import RigContext
from controller.journal.terms import Entry
from controller.ledger.ledger import Ledger
from controller.recipes.on_rig import check_on
from controller.recipes.parameters import parse_params
from controller.runs.assay_requests import AssayRequests
from controller.runs.catalogue import ProtocolCatalogue
from controller.runs.context import RunContext
from controller.runs.people import Person, is_shared
from controller.runs.python_conversation import IsolatedProtocol
from controller.runs.rehearsal import HOURS, rehearse
from controller.runs.replies import AssayReply, by_decision, by_file, by_text
from controller.runs.run import DISK_ERRORS, ProtocolRun, RunHistory
from controller.runs.views import RunView, volumes_view
from controller.steps.steps import answered_of, held_for_of, records_of
from controller.tissue.record import TissueRecord
from controller.transfers.continuous import ContinuousBookings
from controller.transfers.routes import Trust
from controller.transfers.strays import Strays
from controller.transfers.transfers import Transfers
from protocols.answers import ASSAY
from protocols.parameters import with_defaults
from protocols.registry import Recipe
from protocols.steps import Approve
from protocols.tissue_loss import TissueLoss

DISK_AGAIN_S = 10.0
DISK_BACK = "the journal could not be written for a while; what was open is looked into, then the run goes on"


class RunnerError(Exception):
    """A command to the runner that cannot be followed: what, likely cause, next action."""


class Calibrations(Protocol):
    """Answers questions about the calibrations of a rig's pumps."""

    def trust(self, pump: str) -> Trust:
        """Return the trust in volumes of a pump."""

    def refusal(self, pump: str, utc: str) -> str | None:
        """Return why a pump would be refused volumes at a time (UTC, ISO 8601), or None."""


class Runner:
    """Runs of one rig.

    Args:
        context: The rig, its state and records.
        gate: The one path to the actuators.
        ledger: The books.
        catalogue: The protocols that may be started.
        calibrations: Those of the pumps; without them every pump is trusted.
        tissue: What lives in the chambers now.
        tissue_loss: Returns what the estimate of the tissue says of a loss.
        rehearsing: Whether a run that would be stopped is refused; otherwise it is begun and held (for tests of the holding).
    """

    def __init__(
        self,
        context: RigContext,
        *,
        gate: Gate,
        ledger: Ledger,
        catalogue: ProtocolCatalogue,
        calibrations: Calibrations | None = None,
        tissue: TissueRecord | None = None,
        tissue_loss: Callable[[], TissueLoss | None] = lambda: None,
        rehearsing: bool = True,
    ) -> None:
        rig, journal, clock, store, alarm = context.rig, context.journal, context.clock, context.store, context.alarm
        self._rehearsing = rehearsing
        self._calibrated = None if calibrations is None else calibrations.refusal
        trust = None if calibrations is None else calibrations.trust
        self._catalogue = catalogue
        self.estimator = estimator_of(
            rig, ledger=ledger, journal=journal, clock=clock, store=store, tissue=tissue, alarm=alarm
        )
        self.assays = Assays(rig, estimator=self.estimator, ledger=ledger, journal=journal, clock=clock, alarm=alarm)
        transfers = Transfers(rig, gate=gate, store=store, ledger=ledger, journal=journal, alarm=alarm, trust=trust)
        self._bench = RunContext(
            rig, journal, clock, ledger, store, gate, transfers, self.estimator, alarm, tissue_loss
        )
        self.strays = Strays(
            transfers.by_line, ledger=ledger, alarm=alarm, open_lines=transfers.open_lines, gain=transfers.gain
        )
        self.continuous = ContinuousBookings(
            rig, ledger=ledger, journal=journal, trust=trust, open_lines=transfers.open_lines
        )
        self.requests = AssayRequests(journal, clock, lambda: None if (run := self._unended) is None else run.id)
        self._journal = journal
        self._runs: dict[str, ProtocolRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._starting = asyncio.Lock()
        """A rehearsal of branches lets others to the loop: a second start must not come between the look and the run."""

    @property
    def catalogue(self) -> Mapping[str, Recipe]:
        """Every protocol that may be started, by name."""
        return self._catalogue.all()

    async def start(self, protocol: str | Recipe, params: Mapping[str, str | float], user: str, reason: str) -> str:
        """Begin a run; returns its id. `params` by name: text with unit, or numbers in inner units.

        A protocol by name is taken up again after a restart; one given as such is held then. Raises
        :class:`RunnerError` while another run is active, and what :func:`get`, :func:`parse_params` and
        :func:`check_on` raise, and :class:`JournalUnwritten` while rows cannot be written.
        """
        async with self._starting:
            return await self._start(protocol, params, user, reason)

    async def _start(self, protocol: str | Recipe, params: Mapping[str, str | float], user: str, reason: str) -> str:
        """Start a run as :meth:`start` does; the caller makes sure that this happens once at a time."""
        active = self._unended
        if active is not None:
            raise RunnerError(
                f"run {active.id} ({active.protocol}) is {active.state}. Likely cause: it was started before."
                " Next: wait until it has ended, or abort it"
            )
        await self._journal.commit()  # a run whose rows no disk takes is not begun
        recipe = protocol if isinstance(protocol, Recipe) else await self._catalogue.to_start(protocol, user, reason)
        _require_starter(recipe, user)
        values = parse_params(recipe, params)
        check_on(recipe, self._bench.rig, values)
        if self._rehearsing:
            await self._rehearse(recipe, values)
        run_id = f"run-{self._journal.next_seq}"
        volumes = volumes_view(self._bench.rig, self._bench.ledger)
        body = {
            "protocol": recipe.name,
            "params": values,
            "source_sha256": recipe.source_sha256,
            "user": user,
            "reason": reason,
            "volumes": volumes,
        }
        if isinstance(recipe.function, IsolatedProtocol):
            body["text_sha256"] = recipe.function.source.sha256
        if recipe.version_sha256:
            body["version_sha256"] = recipe.version_sha256
        self._journal.append("run.start", body, run=run_id)
        history = RunHistory(started_utc=self._bench.clock.utc_text(), volumes=volumes, starter=user)
        self._live(ProtocolRun(self._bench, run_id, recipe.name, recipe, values, history))
        await asyncio.sleep(0)  # it is running when this returns
        return run_id

    async def _rehearse(self, recipe: Recipe, values: Mapping[str, float]) -> None:
        """Refuse what `choroid plan` refuses: a run that the gate would stop for want of room or medium (E5)."""
        bench = self._bench
        good = {point: seen.value for point, newest in bench.store.readings.items() if (seen := newest.good)}
        out = await rehearse(
            recipe,
            bench.rig,
            values,
            volumes=bench.ledger.volumes(),
            readings=good,
            estimate=None if self.estimator is None else self.estimator.latest,
            calibrated=self._calibrated,
            now=bench.clock.utc(),
            contents=bench.ledger.line_contents(),
        )
        if out.breaches:
            vessels = (
                " Likely cause: a vessel is too full or too empty for it. Next: `choroid plan` shows the whole course; refill"
                " or empty the vessel, or choose other parameters"
            )
            said = any("Next:" in breach for breach in out.breaches)  # the breach is no matter of room
            raise RunnerError(
                f"{recipe.name} would be stopped within {HOURS:g} h; nothing was moved. {'; '.join(out.breaches)}."
                f"{'' if out.uncalibrated or said else vessels}"
                f"{''.join(f' The {each.text}.' for each in out.assumed)}"
            )

    async def pause(self, run_id: str, user: str, reason: str) -> None:
        """Bring everything the run moves to rest, then hold it; what moved is measured and recorded."""
        self._run(run_id).command(RunEvent.PAUSE, user, reason)

    async def resume(self, run_id: str, user: str, reason: str) -> None:
        """Let a held run go on with what remains; raises :class:`RunnerError` while it waits for an answer."""
        run = self._run(run_id)
        asked = run.question
        if asked is not None and asked.answer is not None:
            raise RunnerError(
                f"run {run_id} waits for an answer to step {asked.n}: {asked.message}. Next: answer {asked.answer.wants}"
            )
        run.command(RunEvent.RESUME, user, reason)

    async def answer(
        self,
        run_id: str,
        given: str | Attachment | bool,
        by: str | Person,
        reason: str,
        *,
        step: int | None = None,
        taken: str = "",
        sure: bool = False,
    ) -> None:
        """Answer the open question of a held run; the run goes on if nothing else holds it.

        Args:
            run_id: The run.
            given: A text with its unit; a file that was kept; or whether the person approves.
            by: Who answers; a decision needs the person's role.
            reason: Why, for the record; a rejection needs one.
            step: Number of the question's step, for a caller who has read it before.
            taken: Time of the sample of an assay (default: now).
            sure: Whether to use an assay even if it contradicts the estimate.

        Raises:
            AnswerRefused: The answer is not valid, or the run asks for none; the run goes on waiting.
            AssayError: The result of an assay is impossible, or is not used; the run goes on waiting.
            RunnerError: Another question is open than that of `step`.
            IllegalTransition: The run is not held.
        """
        run, person = self._run(run_id), by if isinstance(by, Person) else Person(by)
        now = run.question
        if step is not None and now is not None and now.n != step:
            raise RunnerError(
                f"run {run_id} asks step {now.n}, not step {step}: {now.message}. Likely cause: the other question was"
                " answered meanwhile. Next: read the present question"
            )
        asked = run.asked()
        form = asked.answer
        if form is None:
            return
        if isinstance(given, Attachment):
            reply = by_file(form, given)
        elif isinstance(given, bool):
            reply = by_decision(form, approved=given, by=person, starter=run.starter, reason=reason)
        elif form.kind == ASSAY:
            at = taken or self._bench.clock.utc_text()
            reply = AssayReply(self.assays).entered(run_id, asked, given, by=person, reason=reason, taken=at, sure=sure)
        else:
            reply = by_text(form, given)
        run.answered_by(asked, reply, person.name, reason)

    def enter_assay(
        self,
        analyte: str,
        value: str,
        *,
        vessel: str,
        taken: str,
        user: str,
        reason: str = "",
        zone: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        """Enter a laboratory result as :meth:`Assays.enter`; it answers the question of a held run that asks for it.

        A sample that was taken before the question was asked does not answer it.
        """
        run, replies = self._unended, AssayReply(self.assays)
        asked = None if run is None or run.state is not RunState.HELD else run.question
        if run is None or asked is None or not replies.fits(asked, analyte, vessel):
            return self.assays.enter(
                analyte, value, vessel=vessel, taken=taken, user=user, reason=reason, zone=zone, **more
            )
        steps = self._journal.entries(run=run.id, kinds=("step",), newest_first=True)
        asked_utc = next(row.utc for row in steps if row.body["n"] == asked.n)
        since = datetime.fromisoformat(asked_utc).replace(microsecond=0)
        step = (run.id, asked.n) if self.assays.moment(taken, zone) >= since else None
        row = self.assays.enter(
            analyte, value, vessel=vessel, taken=taken, user=user, reason=reason, zone=zone, step=step, **more
        )
        if step is not None:
            run.answered_by(asked, replies.by_row(asked, row), user, reason)
        return row

    async def abort(self, run_id: str, user: str, reason: str) -> None:
        """Bring everything to rest and end the run."""
        self._run(run_id).command(RunEvent.ABORT, user, reason)

    async def stop(self, run_id: str, user: str, reason: str) -> None:
        """End the run after the step that is at work."""
        self._run(run_id).command(RunEvent.STOP, user, reason)

    def get(self, run_id: str) -> RunView:
        """Return one run; raise :class:`RunnerError` for an unknown one."""
        return self._run(run_id).view()

    def list(self) -> list[RunView]:
        """Return every run since this process began, and the unfinished ones from before; oldest first."""
        return [run.view() for run in self._runs.values()]

    @property
    def active(self) -> RunView | None:
        """The run that has not ended."""
        run = self._unended
        return None if run is None else run.view()

    @property
    def latest(self) -> RunView | None:
        """The run that has not ended, or else the one that was begun last; None when there was none."""
        run = self._unended or next(reversed(self._runs.values()), None)
        return None if run is None else run.view()

    @property
    def _unended(self) -> ProtocolRun | None:
        return next((run for run in self._runs.values() if not run.state.ended), None)

    async def wait(self, run_id: str) -> RunView:
        """Wait until a run has ended."""
        await asyncio.shield(self._tasks[run_id])
        return self.get(run_id)

    async def recover(self, doubt: str = "") -> None:
        """Take up what the journal has begun and not ended; returns at once, the runs go on by themselves.

        With a `doubt`, those that ran are held with it as the message.

        Call it once, when the gate and the sampling are at work. Where no row can be written they wait for that first (D2).
        """
        for entry in list(self._journal.entries(kinds=("run.start",))):
            if entry.run is not None and entry.run not in self._runs:
                self._recover(entry.run, entry, doubt)

    def _recover(self, run_id: str, started: Entry, doubt: str) -> None:
        run = self._rebuilt(run_id, started)
        if run is None:
            return
        run.doubt = doubt
        unwritten: Exception | None = None
        try:
            self._take_up(run, "the controller was restarted")
        except DISK_ERRORS as error:
            unwritten = error
        self._live(run, unwritten)

    @staticmethod
    def _take_up(run: ProtocolRun, why: str) -> None:
        if run.state is not RunState.IDLE:
            run.command(RunEvent.RECOVER, "controller", why)

    def _rebuilt(self, run_id: str, started: Entry) -> ProtocolRun | None:
        """Return a run in the state of its journal rows, ready to be continued; None when it has ended."""
        rows = list(self._journal.entries(run=run_id))
        state = RunState.IDLE
        for row in rows:
            if row.kind == "run.state":
                state = RunState(row.body["to"])
        if state.ended:
            return None
        body: Mapping[str, Any] = started.body
        recipe = self._catalogue.of_run(body)
        steps = records_of(rows)
        self._bench.transfers.left_open(steps.values())
        history = RunHistory(
            started_utc=started.utc,
            state=state,
            steps=steps,
            volumes=body["volumes"],
            messages=[row.body["text"] for row in rows if row.kind == "run.message"],
            answered=answered_of(rows),
            held_for=held_for_of(rows),
            starter=str(body.get("user", "")),
        )
        params = (
            body["params"] if recipe is None or "text_sha256" in body else with_defaults(recipe.params, body["params"])
        )
        return ProtocolRun(self._bench, run_id, body["protocol"], recipe, params, history)

    @property
    def transferring(self) -> bool:
        """Whether a dose is underway, or its outcome is not booked yet."""
        return bool(self._bench.transfers.open_lines)

    @property
    def min_doses_ul(self) -> dict[str, float]:
        """The minimum dose (µL) of each transfer pump whose dose may end after the runs are closed."""
        return self._bench.transfers.min_doses_ul

    async def close(self) -> None:
        """Let go of the runs without ending them: they are taken up again at the next start, as after a crash."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _live(self, run: ProtocolRun, unwritten: Exception | None = None) -> None:
        self._runs[run.id] = run
        self._tasks[run.id] = asyncio.create_task(self._watched(run, unwritten), name=run.id)

    async def _watched(self, run: ProtocolRun, unwritten: Exception | None) -> None:
        """Drive a run to its end; with `unwritten`, why a row of it could not be written, once rows can be again."""
        try:
            while True:
                if unwritten is None:
                    try:
                        await run.live()
                        return
                    except DISK_ERRORS as error:
                        unwritten = error
                taken_up = await self._disk_back(run.id, unwritten)
                if taken_up is None:
                    return
                run, unwritten = taken_up, None
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # Only a defect of the runner itself comes here: nothing may be lost for it silently.
            with contextlib.suppress(Exception):
                run.failed(error)
            raise

    async def _disk_back(self, run_id: str, error: Exception) -> ProtocolRun | None:
        """Keep everything at rest until rows can be written again, after one of this run could not; then continue as after
        a crash (D2).
        """
        bench = self._bench
        bench.alarm("journal_unwritten", "journal", f"run {run_id} waits: {type(error).__name__}: {error}")
        while True:
            await bench.transfers.rest(f"run:{run_id}", "the journal cannot be written")
            await asyncio.sleep(DISK_AGAIN_S)
            with contextlib.suppress(*DISK_ERRORS):
                await self._journal.commit()
                self._journal.append("run.message", {"text": DISK_BACK, "hold": False}, run=run_id)
                rows = self._journal.entries(run=run_id, kinds=("run.start",))
                run = self._rebuilt(run_id, next(iter(rows)))
                if run is not None:
                    self._runs[run_id] = run
                    self._take_up(run, "the journal can be written again")
                return run

    def _run(self, run_id: str) -> ProtocolRun:
        run = self._runs.get(run_id)
        if run is None:
            raise RunnerError(
                f"no run is called “{run_id}”. Likely cause: a slip, or it ended before the controller was restarted."
                f" Next: choose among {', '.join(self._runs) or 'none: start one'}"
            )
        return run


def _require_starter(recipe: Recipe, user: str) -> None:
    """Refuse a start under a shared name of a recipe that asks for the approval by another person than the starter."""
    steps = () if recipe.program is None else recipe.program.all_steps()
    if is_shared(user) and any(isinstance(step, Approve) and step.other_person for step in steps):
        raise RunnerError(
            f"{recipe.name} asks for the approval by another person than the one who starts it, and “{user}” does not tell"
            " which person that is. Next: start it with a token of your own"
        )
