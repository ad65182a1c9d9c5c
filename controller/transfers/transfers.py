"""Moving liquid: one transfer from the gate's leave to the measured microlitre, and finding out what came of one that
was cut short.

Order of things: weigh, ask the pump for its total, open the valve, write `step.act` to the journal, wait until it is on
the disk, then the dose; wait until the pump says that it stands; close the valve; weigh; write `moved`. Whatever happens in
between, the row `step.act` without its `moved` tells that a dose may have been given, and with what to find out how much
(F2).
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
from controller.ledger.witnesses import Moved, Weight, by_balance
from controller.rig.description import Rig
from controller.safety.kernel import transfer_limit_s
from controller.safety.terms import Intent
from controller.steps.recovery import StepProblem, Trouble, advise
from controller.steps.run_control import RunControl
from controller.steps.steps import PORTION, Act, StepRecord
from controller.transfers import judgement
from controller.transfers.delivery import Complete, Give, decide, in_doubt, problem_of
from controller.transfers.routes import Route, Trust, by_line, routes_of
from controller.transfers.strays import OpenLines
from controller.transfers.weighing import weigh
from drivers.commands import Command, Dispense, Guarantee, PumpStatus, Quality, Status, Switch, SwitchStatus
from drivers.errors import DeviceError
from protocols.language import ProtocolError

POLL_S = 2.0
SILENCE_S = 120.0
"""How long a pump is asked in vain before that is a problem."""
SURELY_MOVED_S = 20.0
"""So long before a pump is seen to stand it still ran: polls of some seconds, and the last turn."""
SURELY_RAN = 0.9
"""For this share of its time a pump ran at least that has given its dose: somewhat faster than it was told."""
REST_SHORT = 0.8
"""A pump that stands before this share of its time, with less than this share moved, was stopped by somebody."""


class Transfers:
    """The hands of the runner on one rig. `trust` tells what a pump's calibration is good for; else its model is believed."""

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
        self._gate = gate
        self._store = store
        self._ledger = ledger
        self._journal = journal
        self._alarm = alarm
        self._trusted = trust
        self._mass = rig.organs.kidney.mass
        self._mass_every_s = rig.devices[self._mass.partition(".")[0]].every_s

    async def transfer(
        self, run: RunControl, step: StepRecord, route: Route, wanted_ul: float
    ) -> tuple[float, float, float]:
        """Move `wanted_ul` along `route`, as far as `step` has not done so already. Returns best, low, high (µL).

        What would take longer than the gate lets one dose take is given in equal portions. Returns when the delivered
        volume equals the requested one within the stated uncertainty; else the run holds until a person accepts what was
        delivered (A10).

        Raises:
            ProtocolError: No pump can give `wanted_ul`: it is no number, or less than the minimum.
        """
        if not step.acts and (refusal := route.refusal(wanted_ul)):
            raise ProtocolError(
                f"{route.line}: {wanted_ul:g} µL were requested; {refusal}. Likely cause: a volume was computed and not"
                " checked. Next: request more, or leave the transfer out"
            )
        tries: dict[Trouble, int] = {}
        while True:
            if (
                not step.doubt
            ):  # a run that rests is told of a doubt before, so that people decide on it when they resume
                await run.checkpoint()
            if step.open_act is not None:
                problem = await self.resolve(run.id, step, reason="its outcome was left open")
                if problem is not None and problem.trouble is Trouble.UNKNOWN:
                    continue  # it is booked, and the decision holds the run for it
            else:
                decision = decide(step, route, self._trust(route), wanted_ul)
                if isinstance(decision, Complete):
                    break
                if isinstance(decision, Give):
                    # A pump that gives 5 % too little is asked for 5 % more.
                    asked_ul = max(decision.volume_ul / self._trust(route).gain, route.least_ul)
                    portions = route.portions(asked_ul)
                    problem = await self._act(run, step, route, asked_ul / portions, last=portions == 1)
                else:
                    problem = problem_of(decision, step, route, wanted_ul)
                    if run.answered(advise(problem, 0).message):
                        self._accept(run.id, step, problem)
                        continue
            if problem is None:
                continue
            before = tries.get(problem.trouble, 0)
            tries[problem.trouble] = before + 1
            await run.trouble(problem, before)
        return step.moved_ul

    def _accept(self, run: str, step: StepRecord, problem: StepProblem) -> None:
        """Put on record that a person has taken what was delivered as it is."""
        body = {"n": step.n, "act": step.acts, "problem": problem.trouble.value, "reasons": list(problem.reasons)}
        self._journal.append("step.accepted", {**body, "charged_ul": step.charged_ul}, run=run)
        step.accept()

    async def _act(
        self, run: RunControl, step: StepRecord, route: Route, volume_ul: float, *, last: bool
    ) -> StepProblem | None:
        """One dose; None when it ended as it should or because the run was interrupted."""
        self.open_lines.begin(route.line)
        try:
            return await self._dosed(run, step, route, volume_ul, last=last)
        finally:
            self._closed(step, route)

    async def _dosed(
        self, run: RunControl, step: StepRecord, route: Route, volume_ul: float, *, last: bool
    ) -> StepProblem | None:
        who = f"run:{run.id}"
        why = f"step {step.n} {step.verb}"
        weight = await weigh(self._store, self._mass, every_s=self._mass_every_s) if route.weighed else None
        if weight is not None:
            self._ledger.weighed(weight)
        try:
            before = await self._pump_status(route)
        except DeviceError as error:
            return StepProblem(Trouble.SILENT, route.pump, (str(error),))
        if run.interrupted:
            return None
        if before.running:
            await self._gate.stop(route.pump, f"{why}: it must stand before a dose", requester=who)
            return StepProblem(Trouble.FAILED, route.pump, ("it was running before the dose",))
        if route.valve is not None and (problem := await self._switch(route.valve, True, who, why)):
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
        )
        dose = Dispense(volume_ul, route.flow_ul_min, f"{run.id}.{act.n}.{act.act}")
        seq = self._journal.append("step.act", act.to_json(), run=run.id)
        step.acts, step.open_act = act.act, act
        try:
            await self._journal.durable(seq)  # which may take seconds
        except JournalUnwritten:
            self._not_given(run, step, act, ("its row is not on the disk",))
            raise
        if run.interrupted:
            self._not_given(run, step, act, ("the run was interrupted",))
            await self._close(route, who, why)
            return None
        outcome = await self._gate.submit(Intent(route.pump, dose, who, why))
        if not outcome.accepted:
            self._not_given(run, step, act, outcome.reasons)
            await self._close(route, who, why)
            return StepProblem(Trouble.REFUSED, route.pump, outcome.reasons)
        if outcome.error is not None:
            problem = await self.resolve(run.id, step, reason=outcome.error)
            unsettled = problem is not None and problem.trouble is not Trouble.UNKNOWN
            return (
                problem
                if unsettled
                else None
                if step.doubt
                else StepProblem(Trouble.FAILED, route.pump, (outcome.error,))
            )
        return await self._follow(run, step, route, act, dose, who, why, last=last)

    def _not_given(self, run: RunControl, step: StepRecord, act: Act, reasons: tuple[str, ...]) -> None:
        """Record that no byte of a dose has left."""
        self._journal.append("step.refused", {"n": act.n, "act": act.act, "reasons": list(reasons)}, run=run.id)
        step.open_act = None

    async def _follow(
        self,
        run: RunControl,
        step: StepRecord,
        route: Route,
        act: Act,
        dose: Dispense,
        who: str,
        why: str,
        *,
        last: bool,
    ) -> StepProblem | None:
        """See a running dose to its end, or bring it to one."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        nominal_s = dose.volume_ul / dose.flow_ul_min * 60.0
        latest_s = begun_s + transfer_limit_s(dose) + POLL_S
        overtime = False
        told_s: float | None = None
        while not await self._stands(route, since_s=begun_s, ask=loop.time() > begun_s + nominal_s):
            if loop.time() > latest_s or (run.interrupted and not self._ends_soon(run, route, act, begun_s)):
                overtime = not run.interrupted
                told_s = loop.time() if told_s is None else told_s
                if loop.time() - told_s > SILENCE_S:
                    return StepProblem(Trouble.SILENT, route.pump, ("it was told to stop and is not seen to stand",))
                reason = "it ran longer than it may" if overtime else "the run is to come to rest"
                await self._gate.stop(route.pump, f"{why}: {reason}", requester=who)
                if not await self._stands(route, since_s=begun_s, ask=True):
                    self._alarm(
                        "command_failed", route.pump, "it was told to stop and still runs; switch it off by hand"
                    )
            self._watch_filter(route, step, since_s=begun_s)
            if route.valve is not None:
                await self._switch(route.valve, True, who, why)  # the valve's lease is renewed as long as it is needed
            await (asyncio.sleep(POLL_S) if run.interrupted else run.wait(POLL_S))
        ran_s = loop.time() - begun_s
        await self._close(route, who, why)
        ended_early = run.interrupted or overtime or ran_s < REST_SHORT * nominal_s
        moving_s = max(begun_s, begun_s + ran_s - SURELY_MOVED_S)
        if not ended_early:
            moving_s = max(moving_s, begun_s + SURELY_RAN * nominal_s - self._mass_every_s - POLL_S)
        told = None
        if ended_early or not last or step.parts:
            # More may be given of this step, or has been: not without what the pump says of what it has given.
            told = await self._told(route)
            if told is None:
                problem = await self.resolve(run.id, step, reason="it does not say how much it has moved")
                late = StepProblem(Trouble.OVERTIME, route.pump) if overtime else None
                return problem if problem is not None and problem.trouble is not Trouble.UNKNOWN else late
        moved, after_ul = await self._measured(
            route, step, act, told, finished=not ended_early, moving_s=moving_s, ran_s=moving_s - begun_s
        )
        short = ended_early and not run.interrupted and moved.ul < REST_SHORT * act.ul
        whole = "unknown" if not moved.certain else "done" if last else PORTION
        end = "stopped" if run.interrupted else "overtime" if overtime else "short" if short else whole
        self._book(run.id, step, act, moved, end, after_ul, doubt=() if moved.certain else judgement.doubt(moved))
        if overtime and moved.certain:
            return StepProblem(Trouble.OVERTIME, route.pump)
        if short and moved.certain:
            return StepProblem(Trouble.SHORT, route.pump, (judgement.between(moved),))
        return None

    async def resolve(self, run: str, step: StepRecord, *, reason: str, give_up: bool = False) -> StepProblem | None:
        """Find out what came of the dose that `step` left open, and book it; a Problem when nobody knows for certain.

        A pump that still runs is waited for, unless it does not end by itself or its valve has to be open: then it is
        stopped. A pump that does not answer, or does not stand, leaves the dose open, to be asked again later; with
        `give_up` it is stopped at once and booked as unknown, with what the balance can tell.
        """
        act = step.open_act
        if act is None:
            return None
        route = self.by_line[act.line]
        self.open_lines.begin(route.line)
        try:
            return await self._resolved(run, step, act, route, reason=reason, give_up=give_up)
        finally:
            self._closed(step, route)

    async def _resolved(
        self, run: str, step: StepRecord, act: Act, route: Route, *, reason: str, give_up: bool
    ) -> StepProblem | None:
        who, why = f"run:{run}", f"step {step.n}: {reason}"
        loop = asyncio.get_running_loop()
        dose = Dispense(act.ul, act.flow_ul_min, f"{run}.{act.n}.{act.act}")
        latest_s = loop.time() + (0.0 if give_up else transfer_limit_s(dose))
        silent_since_s: float | None = None
        status: PumpStatus | None
        while True:
            try:
                status = await self._pump_status(route)
            except DeviceError as error:
                silent_since_s = loop.time() if silent_since_s is None else silent_since_s
                if loop.time() - silent_since_s <= SILENCE_S:
                    await asyncio.sleep(POLL_S)
                    continue
                if not give_up:
                    return StepProblem(Trouble.SILENT, route.pump, (str(error),))
                status = None
                break
            silent_since_s = None
            if not status.running:
                break
            if loop.time() - latest_s > SILENCE_S:
                if not give_up:
                    return StepProblem(Trouble.SILENT, route.pump, ("it was told to stop and still runs",))
                status = None
                break
            if route.valve is not None or not self._ends_itself(route) or loop.time() > latest_s:
                await self._gate.stop(route.pump, why, requester=who)
            await asyncio.sleep(POLL_S)
        await self._close(route, who, why)
        trust = self._trust(route)
        balance, after_ul = await self._balance(route, act, greatest_ul=judgement.greatest_ul(act, trust))
        moved = judgement.left_open(step, act, trust, balance=balance, told=status)
        power_cycle = judgement.lost_power(act, status)
        certain = moved.certain and not power_cycle and not step.unvouched
        power_lost = ("its counter was zeroed: it lost power",) if power_cycle else ()
        doubt = () if certain else (*step.unvouched, *power_lost, *judgement.doubt(moved))
        self._book(run, step, act, moved, "resolved" if certain else "unknown", after_ul, doubt=doubt)
        return None if certain else in_doubt(step, route, step.args.get("volume_ul", act.ul))

    @property
    def min_doses_ul(self) -> dict[str, float]:
        """The minimum dose (µL) of each transfer pump that has no valve to be closed behind it."""
        return {route.pump: route.least_ul for route in self.routes.values() if route.valve is None}

    async def rest(self, who: str, reason: str, verbs: Iterable[str] | None = None) -> list[str]:
        """Bring the transfer pumps and valves of `verbs` (default: all) to rest; returns those whose readback does not
        show it (E2).
        """
        restless = []
        for name, is_pump in self._devices(self.routes if verbs is None else verbs).items():
            try:
                if _active(await self._gate.status(name)):
                    await self._to_rest(name, is_pump, who, reason)
                    if _active(await self._gate.status(name)):
                        restless.append(name)
            except DeviceError:
                restless.append(name)
        return restless

    async def leave(self, who: str, reason: str, names: Iterable[str]) -> None:
        """Order what is not seen to rest to do so, once: the gate owes it from then on, and goes on trying."""
        devices = self._devices(self.routes)
        for name in names:
            await self._to_rest(name, devices[name], who, reason)

    def _devices(self, verbs: Iterable[str]) -> dict[str, bool]:
        """Pumps and valves of `verbs` in order, each pump before its valve; whether it is a pump."""
        routes = [self.routes[verb] for verb in verbs]
        return {name: name == route.pump for route in routes for name in (route.pump, route.valve) if name is not None}

    async def _to_rest(self, name: str, is_pump: bool, who: str, reason: str) -> None:
        if is_pump:
            await self._gate.stop(name, reason, requester=who)
        else:
            await self._switch(name, False, who, reason)

    def left_open(self, steps: Iterable[StepRecord]) -> None:
        """Steps of a process before this one: what their pumps go on to give belongs to their doses."""
        for step in steps:
            if step.open_act is not None:
                self.open_lines.begin(step.open_act.line)

    def gain(self, route: Route) -> float:
        """What a route's pump moves for each µL that it counts."""
        return self._trust(route).gain

    # --- inside -----------------------------------------------------------------------------------------

    def _closed(self, step: StepRecord, route: Route) -> None:
        if step.open_act is None:
            self.open_lines.end(route.line)

    def _trust(self, route: Route) -> Trust:
        if self._trusted is not None:
            return self._trusted(route.pump)
        return Trust(1.0, route.rel_sd, route.dose_sd_ul, "factory")

    async def _pump_status(self, route: Route) -> PumpStatus:
        status = await self._gate.status(route.pump)
        if not isinstance(status, PumpStatus):
            raise TypeError(f"{route.pump} answered {type(status).__name__}, a pump's status was asked")
        return status

    def _ends_soon(self, run: RunControl, route: Route, act: Act, begun_s: float) -> bool:
        """Whether a paused dose is better left to end by itself: soon, and with a rest that could not be given later."""
        left_s = begun_s + act.ul / act.flow_ul_min * 60.0 - asyncio.get_running_loop().time()
        left_ul = left_s / 60.0 * act.flow_ul_min
        return (
            not run.aborted and self._ends_itself(route) and -POLL_S < left_s <= END_SOON_S and left_ul < route.least_ul
        )

    def _ends_itself(self, route: Route) -> bool:
        """Whether the pump ends a dose that whoever began it has let go of."""
        view = self._store.actuators.get(route.pump)
        return view is not None and view.guarantee is Guarantee.DEVICE

    async def _stands(self, route: Route, *, since_s: float, ask: bool) -> bool:
        """Whether the pump says, after `since_s`, that it stands; `ask` it now rather than read its last poll."""
        if ask:
            try:
                return not (await self._pump_status(route)).running
            except DeviceError:
                return False
        seen = self._store.actuators.get(route.pump)
        return (
            seen is not None and seen.at_s > since_s and isinstance(seen.status, PumpStatus) and not seen.status.running
        )

    def _watch_filter(self, route: Route, step: StepRecord, *, since_s: float) -> None:
        """Keep the highest pressure that the filter has seen in this step."""
        if self._rig.lines[route.line].filter is None:
            return
        seen = self._store.readings.get(self._rig.organs.immune.pressure)
        if seen is not None and seen.at_s > since_s and seen.quality is Quality.GOOD:
            step.peak_kpa = seen.value if step.peak_kpa is None else max(step.peak_kpa, seen.value)

    async def _switch(self, valve: str, on: bool, who: str, why: str) -> StepProblem | None:
        command: Command = Switch(on)
        outcome = await self._gate.submit(Intent(valve, command, who, why))
        if not outcome.accepted:
            return StepProblem(Trouble.REFUSED, valve, outcome.reasons)
        if outcome.error is not None:
            return StepProblem(Trouble.FAILED, valve, (outcome.error,))
        return None

    async def _close(self, route: Route, who: str, why: str) -> None:
        """The valve is closed as soon as its pump stands; a valve that will not close is an alarm of the gate's."""
        if route.valve is not None:
            await self._switch(route.valve, False, who, why)

    async def _balance(self, route: Route, act: Act, *, greatest_ul: float) -> tuple[Moved | None, Weight | None]:
        if not route.weighed or act.mass_g is None:
            return None, None
        after = await weigh(self._store, self._mass, every_s=self._mass_every_s)
        before = Weight(act.mass_g, act.mass_sd_g)
        return by_balance(before, after, sign=route.weighed, greatest_ul=greatest_ul), after

    async def _measured(
        self,
        route: Route,
        step: StepRecord,
        act: Act,
        told: PumpStatus | None,
        *,
        finished: bool,
        moving_s: float,
        ran_s: float,
    ) -> tuple[Moved, Weight | None]:
        """What a dose that this process watched has moved, and the weight after it when that is to be believed.

        `told` is what the pump says after it; one that ended well is asked when the balance has hardly seen it. At
        `moving_s` (loop time) it was surely still moving: a balance that has shown exactly the same since is stuck.
        """
        trust = self._trust(route)
        balance, after = await self._balance(route, act, greatest_ul=2 * act.ul * trust.gain + 1000.0)
        seen = self._store.readings.get(self._mass)
        stuck = balance is not None and seen is not None and seen.same_since_s <= moving_s
        if told is None and (balance is None or stuck or judgement.hardly_seen(balance, act, trust)):
            told = await self._told(route)
        if stuck and seen is not None:
            self._alarm(
                "balance_drift",
                self._mass,
                f"it has shown exactly {seen.value:g} g since before {route.pump} stopped: it is stuck, or nothing moved."
                " Likely cause: a jammed balance, an empty bottle, a shut line. Next: look at the balance and the line",
            )
        moved = judgement.watched(
            step, act, trust, balance=balance, told=told, finished=finished, stuck=stuck, ran_s=ran_s
        )
        return moved, None if stuck else after

    async def _told(self, route: Route) -> PumpStatus | None:
        """What the pump says now, if it answers."""
        try:
            return await self._pump_status(route)
        except DeviceError:
            return None

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


def _active(status: Status) -> bool:
    return (isinstance(status, PumpStatus) and status.running) or (isinstance(status, SwitchStatus) and status.on)
