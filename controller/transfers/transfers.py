"""Transfers of liquid: one dose after the other, and the outcome of a dose that was cut short.

The order of a dose: weigh, read the pump's total, open the valve, write `step.act` to the journal, wait until that row is on
the disk, dispense, wait until the pump reports rest, close the valve, weigh, write `moved`. A row `step.act` without its
`moved` therefore means that a dose may have been given, and says how to find out how much (F2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from controller.core.state import StateStore
from controller.gate.gate import Gate
from controller.gate.outputs import END_SOON_S
from controller.journal.journal import Journal
from controller.journal.terms import JournalUnwritten
from controller.ledger.ledger import Alarm, Ledger
from controller.ledger.terms import Nominal
from controller.ledger.witnesses import Moved, Weight, agreed, by_balance
from controller.rig.description import Rig
from controller.safety.kernel import transfer_limit_s
from controller.safety.terms import Intent
from controller.steps.recovery import StepProblem, Trouble, advise
from controller.steps.run_control import RunControl
from controller.steps.steps import PORTION, Act, StepRecord
from controller.transfers import judgement
from controller.transfers.delivery import Complete, Decision, Give, decide, in_doubt, problem_of
from controller.transfers.devices import POLL_S, SILENCE_S, LineDevices, active
from controller.transfers.flow_witness import FlowWitness
from controller.transfers.routes import Route, Trust, by_line, route_of_dose, routes_of, trust_of_model
from controller.transfers.strays import OpenLines
from controller.transfers.underway import DoseUnderway, end_of, problem_after
from controller.transfers.weighing import weigh
from drivers.commands import Dispense, PumpStatus, Quality
from drivers.errors import DeviceError
from protocols.host import ProtocolError

SURELY_MOVED_S = 20.0
"""A pump that is seen to stand still ran until at most this long (s) before: polls of some seconds, and the last turn."""
SURELY_RAN = 0.9
"""Minimum share of its nominal time for which a pump that has given its dose has run: it may be a little fast."""
REST_SHORT = 0.8
"""A pump that stands before this share of its time, with less than this share moved, was stopped from outside."""


class Transfers:
    """Executes transfers on one rig. `trust` returns the trust in a pump's calibration; without it, its model's is used."""

    def __init__(
        self,
        rig: Rig,
        *,
        gate: Gate,
        store: StateStore,
        ledger: Ledger,
        journal: Journal,
        alarm: Alarm,
        trust: Callable[[str], Trust] | None = None,
    ) -> None:
        self.routes: Mapping[str, Route] = routes_of(rig)
        self.by_line = by_line(self.routes)
        self.open_lines = OpenLines()
        self._rig = rig
        self._flow = FlowWitness(rig)
        self._devices = LineDevices(gate, store, self.routes)
        self._gate = gate
        self._store = store
        self._ledger = ledger
        self._journal = journal
        self._alarm = alarm
        self._trusted = trust
        kidney = rig.organs.kidney
        self._mass = "" if kidney is None else kidney.mass
        """The balance under the weighed vessel; empty on a rig without one, where no route is weighed."""
        self._mass_every_s = rig.devices[self._mass.partition(".")[0]].every_s if self._mass else 0.0

    async def transfer(
        self, run: RunControl, step: StepRecord, route: Route, wanted_ul: float
    ) -> tuple[float, float, float]:
        """Move `wanted_ul` along `route`, as far as `step` has not done so already.

        A volume that would take longer than the gate permits for one dose is given in equal portions. Returns when the
        delivered volume equals the requested one within the stated uncertainty; else the run holds until a person accepts
        what was delivered (A10).

        Returns:
            Best value, lower and upper bound of the delivered volume (µL).

        Raises:
            ProtocolError: No pump can give `wanted_ul`: it is no number, or below the minimum.
        """
        if not step.acts and (refusal := route.refusal(wanted_ul)):
            raise ProtocolError(
                f"{route.line}: {wanted_ul:g} µL were requested; {refusal}. Likely cause: a volume was computed and not"
                " checked. Next: request more, or leave the transfer out"
            )
        tries: dict[Trouble, int] = {}
        while True:
            if not step.doubt:  # a held run reports a doubt first, so that people decide on it when they resume
                await run.checkpoint()
            if step.open_act is not None:
                problem = await self.resolve(run.id, step, reason="its outcome was left open")
                if problem is not None and problem.trouble is Trouble.UNKNOWN:
                    continue  # it is booked, and the next decision holds the run for it
            else:
                decision = decide(step, route, self._trust(route), wanted_ul)
                if isinstance(decision, Complete):
                    break
                problem = await self._carry_out(decision, run, step, route, wanted_ul)
            if problem is None:
                continue
            before = tries.get(problem.trouble, 0)
            tries[problem.trouble] = before + 1
            await run.trouble(problem, before)
        return step.moved_ul

    async def _carry_out(
        self, decision: Decision, run: RunControl, step: StepRecord, route: Route, wanted_ul: float
    ) -> StepProblem | None:
        """Give the next dose, or return the problem that holds the run, unless a person has accepted it already."""
        if isinstance(decision, Give):
            # A pump that gives 5 % too little is commanded 5 % more.
            asked_ul = max(decision.volume_ul / self._trust(route).gain, route.min_ul)
            portions = route.portions(asked_ul)
            self.open_lines.begin(route.line)
            try:
                return await self._dosed(run, step, route, asked_ul / portions, last=portions == 1)
            finally:
                self._closed(step, route)
        problem = problem_of(decision, step, route, wanted_ul)
        if run.answered(advise(problem, 0).message):
            self._accept(run.id, step, problem)
            return None
        return problem

    def _accept(self, run: str, step: StepRecord, problem: StepProblem) -> None:
        """Record that a person has accepted the delivered volume."""
        body = {"n": step.n, "act": step.acts, "problem": problem.trouble.value, "reasons": list(problem.reasons)}
        self._journal.append("step.accepted", {**body, "charged_ul": step.charged_ul}, run=run)
        step.accept()

    async def _dosed(
        self, run: RunControl, step: StepRecord, route: Route, volume_ul: float, *, last: bool
    ) -> StepProblem | None:
        """Give one dose. Return None if it ended as intended or because the run was interrupted."""
        who = f"run:{run.id}"
        why = f"step {step.n} {step.verb}"
        weight = await weigh(self._store, self._mass, every_s=self._mass_every_s) if route.weighed else None
        if weight is not None:
            self._ledger.weighed(weight)
        try:
            before = await self._devices.pump_status(route)
        except DeviceError as error:
            return StepProblem(Trouble.SILENT, route.pump, (str(error),))
        if run.interrupted:
            return None
        if (problem := await self._ready(route, before, who, why)) is not None:
            return problem
        act = Act(
            n=step.n,
            act=step.acts + 1,
            line=route.line,
            ul=volume_ul,
            flow_ul_min=route.flow_ul_min,
            total_ul=before.delivered_ul,
            host_counted=before.host_counted,
            mass_g=None if weight is None else weight.g,
            mass_sd_g=0.0 if weight is None else weight.sd_g,
            ports=route.ports,
        )
        return await self._give(run, step, route, act, who, why, last=last)

    async def _give(
        self, run: RunControl, step: StepRecord, route: Route, act: Act, who: str, why: str, *, last: bool
    ) -> StepProblem | None:
        """Record a dose, send it once the record is on the disk, and watch it."""
        dose = Dispense(act.ul, act.flow_ul_min, f"{run.id}.{act.n}.{act.act}")
        seq = self._journal.append("step.act", act.to_json(), run=run.id)
        step.acts, step.open_act = act.act, act
        try:
            await self._journal.durable(seq)  # may take seconds
        except JournalUnwritten:
            self._not_given(run, step, act, ("its row is not on the disk",))
            raise
        if run.interrupted:
            self._not_given(run, step, act, ("the run was interrupted",))
            await self._devices.close(route, who, why)
            return None
        outcome = await self._gate.submit(Intent(route.pump, dose, who, why, route.levels))
        if not outcome.accepted:
            self._not_given(run, step, act, outcome.reasons)
            await self._devices.close(route, who, why)
            return StepProblem(Trouble.REFUSED, route.pump, outcome.reasons)
        if outcome.error is not None:
            return await self._after_error(run, step, route, outcome.error)
        begun_s = asyncio.get_running_loop().time()
        return await self._follow(run, DoseUnderway(step, route, act, dose, who, why, last, begun_s))

    async def _ready(self, route: Route, before: PumpStatus, who: str, why: str) -> StepProblem | None:
        """Make sure that the pump stands and its valve is open."""
        if before.running:
            await self._gate.stop(route.pump, f"{why}: it must stand before a dose", requester=who)
            return StepProblem(Trouble.FAILED, route.pump, ("it was running before the dose",))
        return await self._devices.open(route, who, why)

    async def _after_error(self, run: RunControl, step: StepRecord, route: Route, error: str) -> StepProblem | None:
        """Resolve a dose whose command failed. Return what still stands in the way of the step."""
        problem = await self.resolve(run.id, step, reason=error)
        if problem is not None and problem.trouble is not Trouble.UNKNOWN:
            return problem
        return None if step.doubt else StepProblem(Trouble.FAILED, route.pump, (error,))

    def _not_given(self, run: RunControl, step: StepRecord, act: Act, reasons: tuple[str, ...]) -> None:
        """Record that a dose was not sent."""
        self._journal.append("step.refused", {"n": act.n, "act": act.act, "reasons": list(reasons)}, run=run.id)
        step.open_act = None

    async def _follow(self, run: RunControl, dose: DoseUnderway) -> StepProblem | None:
        """Watch a dose to its end, or stop it, and book what it moved."""
        problem = await self._until_rest(run, dose)
        if problem is not None:
            return problem
        ran_s = asyncio.get_running_loop().time() - dose.begun_s
        if ran_s > transfer_limit_s(dose.dose) - POLL_S and not run.interrupted:
            dose.overtime = True  # the gate has stopped it
        await self._devices.close(dose.route, dose.who, dose.why)
        return await self._concluded(run, dose, ran_s)

    async def _until_rest(self, run: RunControl, dose: DoseUnderway) -> StepProblem | None:
        """Wait until the pump stands; stop it when it runs too long or the run is interrupted."""
        loop, route = asyncio.get_running_loop(), dose.route
        latest_s = dose.begun_s + transfer_limit_s(dose.dose) + POLL_S
        stopped_s: float | None = None
        while not await self._devices.stands(
            route, since_s=dose.begun_s, ask=loop.time() > dose.begun_s + dose.nominal_s
        ):
            if loop.time() > latest_s or (run.interrupted and not self._ends_soon(run, dose)):
                dose.overtime = not run.interrupted
                stopped_s = loop.time() if stopped_s is None else stopped_s
                if loop.time() - stopped_s > SILENCE_S:
                    return StepProblem(
                        Trouble.SILENT, route.pump, ("it was commanded to stop and is not seen at rest",)
                    )
                await self._stop(dose)
            self._watch_filter(route, dose.step, since_s=dose.begun_s)
            self._flow.update(dose, self._store.readings)
            if route.valve is not None:
                await self._devices.switch(route.valve, True, dose.who, dose.why)  # renews the valve's lease
            await (asyncio.sleep(POLL_S) if run.interrupted else run.wait(POLL_S))
        return None

    async def _stop(self, dose: DoseUnderway) -> None:
        """Stop the pump of a dose, with an alarm if it goes on."""
        pump = dose.route.pump
        reason = "it ran longer than it may" if dose.overtime else "the run is to come to rest"
        await self._gate.stop(pump, f"{dose.why}: {reason}", requester=dose.who)
        if not await self._devices.stands(dose.route, since_s=dose.begun_s, ask=True):
            self._alarm("command_failed", pump, "it was commanded to stop and still runs; switch it off by hand")

    async def _concluded(self, run: RunControl, dose: DoseUnderway, ran_s: float) -> StepProblem | None:
        """Measure and book a dose whose pump stands."""
        step, act = dose.step, dose.act
        ended_early = run.interrupted or dose.overtime or ran_s < REST_SHORT * dose.nominal_s
        moving_s = self._moving_until_s(dose, ran_s, ended_early=ended_early)
        status = None
        if ended_early or not dose.last or step.parts:
            # More of this step may follow, or was given before: that needs the pump's own total.
            status = await self._devices.status_or_none(dose.route)
            if status is None:
                return await self._uncounted(run, dose)
        moved, after_ul = await self._measured(
            dose.route, step, act, status, finished=not ended_early, moving_s=moving_s, ran_s=moving_s - dose.begun_s
        )
        unseen = () if ended_early or not moved.certain else self._flow.doubt(dose)
        if unseen:
            moved = agreed(None, None, asked_ul=judgement.max_moved_ul(act, self._trust(dose.route)))
        short = ended_early and not run.interrupted and moved.ul < REST_SHORT * act.ul
        end = end_of(dose, moved, short=short, stopped=run.interrupted)
        self._book(
            run.id, step, act, moved, end, after_ul, doubt=unseen or (() if moved.certain else judgement.doubt(moved))
        )
        return problem_after(dose, moved, short=short)

    def _moving_until_s(self, dose: DoseUnderway, ran_s: float, *, ended_early: bool) -> float:
        """Return a time (loop s) at which the pump surely still moved."""
        moving_s = max(dose.begun_s, dose.begun_s + ran_s - SURELY_MOVED_S)
        if ended_early:
            return moving_s
        return max(moving_s, dose.begun_s + SURELY_RAN * dose.nominal_s - self._mass_every_s - POLL_S)

    async def _uncounted(self, run: RunControl, dose: DoseUnderway) -> StepProblem | None:
        """Resolve a dose whose pump does not report its total."""
        problem = await self.resolve(run.id, dose.step, reason="it does not say how much it has moved")
        if problem is not None and problem.trouble is not Trouble.UNKNOWN:
            return problem
        return StepProblem(Trouble.OVERTIME, dose.route.pump) if dose.overtime else None

    async def resolve(self, run: str, step: StepRecord, *, reason: str, give_up: bool = False) -> StepProblem | None:
        """Find out and book the outcome of the dose that `step` left open.

        A pump that still runs is waited for; it is stopped if it does not end by itself or needs an open valve. A pump that
        does not answer, or does not stand, leaves the dose open, to be resolved later. With `give_up` the pump is stopped at
        once and the dose booked as unknown, with what the balance shows.

        Returns:
            A problem if the outcome is not certain, else None.
        """
        act = step.open_act
        if act is None:
            return None
        route = route_of_dose(self.routes.values(), act.line, act.ports)
        self.open_lines.begin(route.line)
        try:
            return await self._resolved(run, step, act, route, reason=reason, give_up=give_up)
        finally:
            self._closed(step, route)

    async def _resolved(
        self, run: str, step: StepRecord, act: Act, route: Route, *, reason: str, give_up: bool
    ) -> StepProblem | None:
        who, why = f"run:{run}", f"step {step.n}: {reason}"
        dose = Dispense(act.ul, act.flow_ul_min, f"{run}.{act.n}.{act.act}")
        latest_s = asyncio.get_running_loop().time() + (0.0 if give_up else transfer_limit_s(dose))
        status = await self._devices.at_rest(route, latest_s, who, why, give_up=give_up)
        if isinstance(status, StepProblem):
            return status
        await self._devices.close(route, who, why)
        trust = self._trust(route)
        balance, after_ul = await self._balance(route, act, max_ul=judgement.max_moved_ul(act, trust))
        moved = judgement.left_open(step, act, trust, balance=balance, status=status)
        power_cycle = judgement.lost_power(act, status)
        certain = moved.certain and not power_cycle and not step.unvouched
        power_lost = ("its counter was zeroed: it lost power",) if power_cycle else ()
        doubt = () if certain else (*step.unvouched, *power_lost, *judgement.doubt(moved))
        self._book(run, step, act, moved, "resolved" if certain else "unknown", after_ul, doubt=doubt)
        return None if certain else in_doubt(step, route, step.args.get("volume_ul", act.ul))

    @property
    def min_doses_ul(self) -> dict[str, float]:
        """The minimum dose (µL) of each transfer pump that has no valve to be moved behind it."""
        free = (route for route in self.routes.values() if route.valve is None and not route.levels)
        return {route.pump: route.min_ul for route in free}

    async def rest(self, who: str, reason: str, verbs: Iterable[str] | None = None) -> list[str]:
        """Bring the transfer pumps and valves of `verbs` (default: all) to rest (E2). Return those not seen at rest."""
        restless = []
        for name in self._outputs(self.routes if verbs is None else verbs):
            try:
                if active(await self._gate.status(name)):
                    await self._devices.to_rest(name, who, reason)
                    if active(await self._gate.status(name)):
                        restless.append(name)
            except DeviceError:
                restless.append(name)
        return restless

    async def leave(self, who: str, reason: str, names: Iterable[str]) -> None:
        """Command actuators to rest once, without waiting for the readback: the gate repeats the command until it
        succeeds.
        """
        for name in names:
            await self._devices.to_rest(name, who, reason)

    def _outputs(self, verbs: Iterable[str]) -> tuple[str, ...]:
        """Return the pumps, valves and selectors of `verbs` in order, each pump before its valves."""
        routes = [self.routes[verb] for verb in verbs]
        names = (name for route in routes for name in (route.pump, route.valve, *route.levels))
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def left_open(self, steps: Iterable[StepRecord]) -> None:
        """Mark the lines of doses that the previous process left open: what their pumps still give belongs to them."""
        for step in steps:
            if step.open_act is not None:
                self.open_lines.begin(step.open_act.line)

    def gain(self, route: Route) -> float:
        """Return the ratio of moved to counted volume of a route's pump."""
        return self._trust(route).gain

    def _closed(self, step: StepRecord, route: Route) -> None:
        if step.open_act is None:
            self.open_lines.end(route.line)

    def _trust(self, route: Route) -> Trust:
        if self._trusted is not None:
            return self._trusted(route.pump)
        return trust_of_model(self._rig, route.pump)

    def _ends_soon(self, run: RunControl, dose: DoseUnderway) -> bool:
        """Return whether a dose should end by itself: it ends soon, and its remainder could not be given later."""
        route, act = dose.route, dose.act
        left_s = dose.begun_s + act.ul / act.flow_ul_min * 60.0 - asyncio.get_running_loop().time()
        left_ul = left_s / 60.0 * act.flow_ul_min
        ends_itself = not run.aborted and self._devices.ends_itself(route)
        return ends_itself and -POLL_S < left_s <= END_SOON_S and left_ul < route.min_ul

    def _watch_filter(self, route: Route, step: StepRecord, *, since_s: float) -> None:
        """Keep the highest pressure before the filter in this step."""
        immune = self._rig.organs.immune
        if immune is None or self._rig.lines[route.line].filter is None:
            return
        seen = self._store.readings.get(immune.pressure)
        if seen is not None and seen.at_s > since_s and seen.quality is Quality.GOOD:
            step.peak_kpa = seen.value if step.peak_kpa is None else max(step.peak_kpa, seen.value)

    async def _balance(self, route: Route, act: Act, *, max_ul: float) -> tuple[Moved | None, Weight | None]:
        if not route.weighed or act.mass_g is None:
            return None, None
        after = await weigh(self._store, self._mass, every_s=self._mass_every_s)
        before = Weight(act.mass_g, act.mass_sd_g)
        return by_balance(before, after, sign=route.weighed, max_ul=max_ul), after

    async def _measured(
        self,
        route: Route,
        step: StepRecord,
        act: Act,
        status: PumpStatus | None,
        *,
        finished: bool,
        moving_s: float,
        ran_s: float,
    ) -> tuple[Moved, Weight | None]:
        """Judge what a watched dose has moved.

        Args:
            route: the line.
            step: the transfer.
            act: the dose.
            status: the pump's status after the dose, if it was read. It is read here when the balance has hardly seen the
                dose.
            finished: whether the pump ended the dose as commanded.
            moving_s: a time (loop s) at which the pump surely still moved. A balance that has not changed since is stuck.
            ran_s: how long the pump ran at least (s).

        Returns:
            What was moved, and the weight after it if that is to be trusted.
        """
        trust = self._trust(route)
        balance, after = await self._balance(route, act, max_ul=2 * act.ul * trust.gain + 1000.0)
        seen = self._store.readings.get(self._mass)
        stuck = balance is not None and seen is not None and seen.same_since_s <= moving_s
        if status is None and (balance is None or stuck or judgement.hardly_seen(balance, act, trust)):
            status = await self._devices.status_or_none(route)
        if stuck and seen is not None:
            self._alarm(
                "balance_drift",
                self._mass,
                f"it has shown exactly {seen.value:g} g since before {route.pump} stopped: it is stuck, or nothing moved."
                " Likely cause: a jammed balance, an empty bottle, a shut line. Next: look at the balance and the line",
            )
        moved = judgement.watched(
            step, act, trust, balance=balance, status=status, finished=finished, stuck=stuck, ran_s=ran_s
        )
        return moved, None if stuck else after

    def _book(
        self,
        run: str,
        step: StepRecord,
        act: Act,
        moved: Moved,
        end: str,
        after: Weight | None,
        *,
        doubt: tuple[str, ...] = (),
    ) -> None:
        detail: dict[str, Any] = {
            "n": act.n,
            "act": act.act,
            "asked_ul": act.ul,
            "low": moved.low,
            "high": moved.high,
            "counted": moved.counted,
            "counter_step": moved.counter_step,
            "end": end,
        }
        if act.ports:
            detail["ports"] = dict(act.ports)
        if doubt:
            detail["doubt"] = list(doubt)
        if step.peak_kpa is not None:
            detail["peak_kpa"] = round(step.peak_kpa, 3)
        nominal = None
        if end in ("done", PORTION) and moved.source in ("balance", "command"):
            trust = self._trust(self.by_line[act.line])
            nominal = Nominal(act.ul * trust.gain, trust.rel_sd, trust.dose_sd_ul, trust.calibration)
        self._ledger.moved(
            act.line, moved.ul, moved.sd_ul, moved.source, nominal=nominal, weight=after, run=run, detail=detail
        )
        step.booked(moved, end, doubt)
