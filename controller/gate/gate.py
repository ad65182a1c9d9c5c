"""The safety gate: the only path to an actuator.

Intent → kernel → journal → device → readback → journal. Only the gate holds the drivers' actuator objects. A continuous
flow and an open valve are leases: the requester must renew them before they expire, or the gate commands the basal state.
A repeated request for the present state renews the lease and costs neither a journal row nor a byte on the wire. A pulse is
ended by its device if that can keep a time (:class:`~drivers.commands.Guarantee`), else by the gate.

Every action is one journal row (`act`), written before the device receives it. A second row (`act.outcome`) follows for a
dose, and for anything that did not go as intended. A pulse that went as intended has none: a day of heater pulses stays
readable, and a missing outcome means "as intended" or "this process died". A refusal that repeats for the same reason is
recorded once.

A journal that cannot be written (full or slow disk) does not stop life support: heart, heat, gas and everything that comes
to rest go on, with an alarm. A dose is not given before its row is durable (D2). While a dose waits for that, its output is
free for other commands; any of them cancels the dose.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from math import inf
from types import MappingProxyType

from controller.gate.actuation import LEVEL_HOLD_S, Actuation
from controller.gate.bypass import Bypasses
from controller.gate.enforcement import enforce, underway
from controller.gate.fallback import Fallback
from controller.gate.foreign import Foreign
from controller.gate.outcome import Outcome
from controller.gate.outputs import GatedOutput, Transfer
from controller.gate.probes import ProbeOutcome, Probes
from controller.gate.recording import Recorder, act_row
from controller.journal.context import RigContext
from controller.safety.interlocks import watch
from controller.safety.kernel import comes_to_rest, decide, emergency_holds, transfer_limit_s
from controller.safety.probe_rules import ProbeIntent
from controller.safety.quiet import quiet_until_s
from controller.safety.terms import (
    Intent,
    KernelVolume,
    Limits,
    PumpTrust,
    Trip,
    Underway,
    Verdict,
    View,
    Watch,
)
from drivers.commands import Command, Dispense, Level, PumpStatus, Run, Status, Stop, Switch, SwitchStatus
from drivers.device import Actuator
from drivers.errors import DeviceError

logger = logging.getLogger(__name__)

ASTRAY_POLLS = 2
"""Number of consecutive statuses that must contradict the command: a single one may have crossed it on the wire."""
CONFIRM_S = 0.25
"""Delay (s) after which a status that contradicts the command is read again."""
UNBOOKED_S = 600.0
"""Maximum time (s) that an ended transfer still counts against the free volume while the ledger has not booked it."""


VALVE_LEASE_S = 30.0
"""A valve stays open no longer than this after its transfer has last asked for it."""


def _leases_s(limits: Limits) -> dict[str, float]:
    """Return the lease time of each continuous output (s)."""
    return dict.fromkeys(limits.switches, VALVE_LEASE_S) | {heart.pump: heart.lease_s for heart in limits.hearts}


class Gate:
    """The safety gate of one rig.

    Args:
        context: the state, which the gate updates with what the actuators report; the journal, where every action is
            recorded; the clock, for bypasses.
        actuators: the drivers' actuators by name.
        limits: the kernel's limits, with the basal state of each actuator; one without rests.
        volumes: the ledger's present volumes. If given, :meth:`booked` must be called for each transfer that the ledger has
            taken in. Without it the kernel sees the volumes of the last snapshot.
        calibrated: the trust in each pump's calibration (F5). Without it pumps are taken to move the commanded volume.
        probes: the probes that can be calibrated.
    """

    def __init__(
        self,
        context: RigContext,
        *,
        actuators: Mapping[str, Actuator],
        limits: Limits,
        volumes: Callable[[], Mapping[str, KernelVolume]] | None = None,
        calibrated: Callable[[], Mapping[str, PumpTrust]] = dict,
        probes: Probes | None = None,
    ) -> None:
        store, journal, clock, alarm = context.store, context.journal, context.clock, context.alarm
        leases_s = _leases_s(limits)
        self._now_s = asyncio.get_running_loop().time
        self._outputs = {
            # An actuator without a basal state in the rig file, such as a spare relay, rests.
            name: GatedOutput(name, actuator, limits.basal.get(name, Stop()), leases_s.get(name), self._now_s())
            for name, actuator in actuators.items()
        }
        self._transferring = tuple(
            output
            for name, output in self._outputs.items()
            if (pump := limits.pumps.get(name)) is not None and pump.role == "transfer"
        )
        self._actuation = Actuation(limits, store, self._now_s, books=volumes is not None)
        self._limits = limits
        self._store = store
        self._record = Recorder(journal, alarm)
        self._fallback = Fallback(
            self._outputs, limits, self._actuation, self._record, alarm, self._now_s, lambda: self._watch.trips
        )
        self._clock = clock
        self._alarm = alarm
        self._volumes = volumes
        self._calibrated = calibrated
        self._probes = probes
        self._foreign = Foreign(limits, alarm, self._now_s)
        self._refused: dict[tuple[str, str], str] = {}
        self._watch = Watch()
        self._observed_changes = -1
        """What :attr:`StateStore.changes` was at the last evaluation of the interlocks."""
        self._quiet_until_s = -inf
        """Until when (loop s) another evaluation without a change only repeats the last one."""
        self.emergency: str | None = None
        self.emergency_known = True
        """Whether the emergency stop is known to stand; otherwise it holds only what moves fluid."""
        self.bypasses = Bypasses(limits, clock, self._record, self._now_s)
        for output in self._outputs.values():
            self._actuation.show(output)

    # --- intents ----------------------------------------------------------------------------------------

    async def submit(self, intent: Intent) -> Outcome:
        """Carry out `intent` if the kernel permits it. Never raises for a refusal or a device error: see the outcome."""
        output = self._outputs.get(intent.actuator)
        if output is None:
            return Outcome(False, None, (f"no actuator is called {intent.actuator}",))
        async with output.lock:
            verdict = decide(intent, self.view(), self._limits)
            if verdict.accepted and (refusal := self._refusal(intent, output)) is not None:
                verdict = Verdict(False, None, (refusal,), refusal)
            if not verdict.accepted or verdict.command is None:
                return Outcome(False, None, verdict.reasons, self._note_refusal(intent, verdict))
            self._refused.pop((intent.actuator, intent.requester), None)
            command, verdict = verdict.command, self._actuation.with_shortfall(output, verdict)
            if not isinstance(command, Dispense):
                output.announced = None
                if self._actuation.already(output, command):
                    self._renew(output, command)
                    return Outcome(True, command, verdict.reasons)
                if (wrong := self._actuation.departed(output, command)) is not None:
                    self._foreign.commanded_again(output, wrong)
                return await self._carry_out(output, intent, verdict, command)
            if output.announced is not None:
                return Outcome(False, None, ("another dose of this pump waits for its row in the journal",))
            seq = output.announced = self._record.write("act", act_row(intent, verdict))
            if self._record.on_disk(seq):
                output.announced = None
                return await self._bring(output, intent, command, verdict, seq)
        return await self._dose(output, intent, verdict, command, seq)

    async def basal(self, actuator: str, reason: str) -> Outcome:
        """Bring one actuator to its basal state, or to rest if an interlock forbids the basal state."""
        return await self.submit(Intent(actuator, self._fallback.state_of(self._outputs[actuator]), "gate", reason))

    async def stop(self, actuator: str, reason: str, *, requester: str = "gate") -> Outcome:
        """Bring one actuator to rest."""
        return await self.submit(Intent(actuator, Stop(), requester, reason))

    async def calibrate(self, intent: ProbeIntent) -> ProbeOutcome:
        """Calibrate a probe (:mod:`controller.gate.probes`)."""
        if self._probes is None:
            return ProbeOutcome((f"{intent.point} cannot be calibrated from here: no probe can",))
        return await self._probes.calibrate(intent)

    async def status(self, actuator: str) -> Status:
        """Read the status of one device. Raises DeviceError."""
        asked_s = self._now_s()
        output = self._outputs[actuator]
        status = await output.actuator.status()
        if isinstance(status, PumpStatus) and any(output is each for each in self._transferring):
            status = await self._actuation.confirmed_total(output, status)
        self.saw(actuator, status, asked_s)
        return status

    async def poll(self, actuator: str) -> None:
        """Read the status of one device as sampling does. A failure is recorded in the state, never raised.

        A status that contradicts the command is read again soon, so that a lasting contradiction is known within one period.
        """
        try:
            await self.status(actuator)
            if self._outputs[actuator].astray:
                await asyncio.sleep(CONFIRM_S)
                await self.status(actuator)
        except DeviceError as error:
            self._actuation.lost(actuator, str(error))
        except Exception as error:  # a defect in one driver must cost only that driver's output (C3)
            logger.exception("driver of %s failed while its status was read", actuator)
            self._actuation.lost(actuator, f"its driver fails: {error!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all actuators."""
        return tuple(self._outputs)

    def revolution_ul(self, actuator: str) -> float | None:
        """Return the volume of one turn of a pump's head by its own specification (µL), or None if unknown."""
        output = self._outputs.get(actuator)
        return None if output is None else output.actuator.revolution_ul

    @property
    def trips(self) -> tuple[Trip, ...]:
        """The interlocks that are tripped, held or latched."""
        return self._watch.trips

    @property
    def shortfalls(self) -> Mapping[str, str]:
        """The continuous outputs that give less than they are commanded, with how much is missing."""
        return self._actuation.delivered.shortfalls

    @property
    def unsettled(self) -> str:
        """Why the outputs have to be watched at full rate, for people; empty while each rests or holds its command."""
        if self.emergency is not None:
            return "an emergency stop stands"
        if self._watch.crossings:
            return f"{self._watch.crossings[0].interlock} waits for a second reading"
        if self.bypasses.names:
            return "an interlock is bypassed"
        for output in self._outputs.values():
            if output.transfer is not None or output.announced is not None:
                return f"{output.name} gives a dose"
            if output.debt is not None or output.astray:
                return f"{output.name} does not follow its command"
        return ""

    # --- emergency --------------------------------------------------------------------------------------

    async def estop(self, user: str, reason: str) -> None:
        """Bring everything to its basal state at once, and refuse all else until :meth:`reset` (A9, I5)."""
        self.emergency, self.emergency_known = f"{user}: {reason}", True
        self._alarm("emergency_stop", "gate", self.emergency)
        # Wait for nothing here: neither for the journal nor for the lock of an output.
        await self._fallback.everything_now()
        self._record.write("safety.estop", {"user": user, "reason": reason})

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Outputs that an emergency stop underway has commanded and that have not answered yet."""
        return tuple(sorted(self._fallback.unanswered))

    def reset(self, user: str, reason: str) -> None:
        """End an emergency stop and clear latched interlocks; the journal records who and why (I5)."""
        latched = [trip.interlock for trip in self._watch.trips if trip.latched]
        self._record.write("safety.reset", {"user": user, "reason": reason, "latched": latched})
        self.emergency, self.emergency_known = None, True
        self._foreign.reset()
        self._watch = self._watch.reset()

    def restore(self, emergency: str | None, latched: Mapping[str, str], *, known: bool = True) -> None:
        """Restore what the previous process had latched: the emergency stop, and interlocks with their details (I5)."""
        self.emergency, self.emergency_known = emergency, known
        trips = [
            Trip(rule.name, rule.point, latched[rule.name], self._now_s(), rule.trips, latched=True, present=False)
            for rule in self._limits.interlocks
            if rule.name in latched
        ]
        self._watch = Watch(tuple(trips))
        self._quiet_until_s = -inf

    # --- once a second ----------------------------------------------------------------------------------

    def observe(self) -> tuple[Trip, ...]:
        """Evaluate all interlocks (I1), unless nothing has changed. Return the trips that :meth:`tick` has to enforce."""
        changes = self._store.changes
        if changes != self._observed_changes or self._now_s() >= self._quiet_until_s:
            view = self._view(self._store.state.volumes)
            self._watch = watch(view, self._limits)
            self._observed_changes, self._quiet_until_s = changes, quiet_until_s(view, self._watch, self._limits)
        return self._watch.trips

    async def tick(self, trips: tuple[Trip, ...]) -> None:
        """Enforce interlocks, leases and the time limits of transfers, and retry pending states."""
        if self.enforce(trips):
            await self.settle()

    def enforce(self, trips: tuple[Trip, ...]) -> bool:
        """Do the part of :meth:`tick` that sends nothing. Return whether :meth:`settle` has something to do."""
        now_s = self._now_s()
        for trip in trips:
            for name in trip.actuators:
                if (output := self._outputs.get(name)) is not None:
                    enforce(trip, output, self._actuation, now_s)
        due = False
        for output in self._outputs.values():
            if not output.untimed:
                self._enforce_times(output, now_s)
                due = due or output.due(now_s)
        return due

    def _enforce_times(self, output: GatedOutput, now_s: float) -> None:
        """End what outlasts its lease, or the time limit of a transfer (A5)."""
        transfer = output.transfer
        if output.lease_until_s is not None and now_s > output.lease_until_s:
            output.lease_until_s = None
            lost = isinstance(output.commanded, Level)
            why = f"no command has reached it for {LEVEL_HOLD_S:g} s" if lost else "its lease was not renewed"
            self._alarm("lease_expired", output.name, f"{why}; it goes to its basal state")
            output.owe(self._fallback.state_of(output), "its lease ran out", now_s)
        if transfer is not None and transfer.ended_s is None and now_s > transfer.deadline_s:
            self._alarm("transfer_overlong", output.name, f"{transfer.dose.dose_id} ran longer than it may")
            output.owe(Stop(), "the transfer ran longer than it may (A5)", now_s)

    async def settle(self) -> None:
        """Command the pending state of every output that is due, all at the same time."""
        await self._fallback.settle()

    def ending(self, min_doses_ul: Mapping[str, float]) -> dict[str, float]:
        """Return the pumps whose dose should end by itself (:meth:`Fallback.ending`)."""
        return self._fallback.ending(min_doses_ul)

    async def keep_emergency(self) -> None:
        """Bring what the standing emergency stop holds to its basal state."""
        held = [name for name in self._outputs if not self._stopped(name)]
        await self._fallback.everything("emergency stop", {}, held)

    def _stopped(self, actuator: str) -> bool:
        return emergency_holds(actuator, self._limits, known=self.emergency_known)

    async def fall_back(self, reason: str, ending: Mapping[str, float] = MappingProxyType({})) -> tuple[str, ...]:
        """Bring every output to its basal state: the controller is about to exit. Return those that failed.

        The doses of `ending` (see :meth:`ending`) end by themselves first.
        """
        return await self._fallback.everything(reason, ending)

    # --- what is known ----------------------------------------------------------------------------------

    def view(self) -> View:
        """Return what the kernel knows at this moment."""
        return self._view(self._store.state.volumes if self._volumes is None else self._volumes())

    def _view(self, volumes: Mapping[str, KernelVolume]) -> View:
        underway = tuple(self._underway())
        now_s, readings, pumps = self._now_s(), self._store.readings, self._calibrated()
        seen, bypassed, known = self._actuation.seen, self.bypasses.names, self.emergency_known
        return View(now_s, readings, volumes, seen, underway, self.emergency, self._watch, pumps, bypassed, known)

    def _underway(self) -> list[Underway]:
        unbooked_s = 0.0 if self._volumes is None else UNBOOKED_S
        return list(underway(self._transferring, self._now_s(), unbooked_s))

    def booked(self, actuator: str) -> None:
        """Forget the ended transfer of a pump: the ledger's volumes now contain it."""
        output = self._outputs.get(actuator)
        if output is not None and output.transfer is not None and output.transfer.ended_s is not None:
            output.transfer = None

    def saw(self, name: str, status: Status, asked_s: float | None = None) -> None:
        """Take in a status that was requested at `asked_s` (loop s). A status older than the last command is dropped."""
        output = self._outputs[name]
        now_s = self._now_s()
        asked_s = now_s if asked_s is None else asked_s
        if output.lock.locked() or asked_s < output.read_back_s:
            return
        self._actuation.take_in(output, status, asked_s)
        if output.commanded is None:
            if name in self._limits.heaters and status == SwitchStatus(True) and not output.ends_pulses:
                output.owe(output.rest, "it was on when this process began, and nothing else ends it", now_s)
            elif name in self._limits.selectors and output.seen is not None and output.seen.on:
                output.owe(output.rest, "it was not at rest when this process began", now_s)
        elif output.debt is None:
            self._compare(output, status, asked_s, now_s)

    def _compare(self, output: GatedOutput, status: Status, asked_s: float, now_s: float) -> None:
        """Compare a polled status with the last command, and respond to a lasting contradiction."""
        wrong = self._actuation.disagrees(output, status, asked_s)
        if isinstance(output.commanded, Level) and output.lease_until_s is not None:
            # Its last command was lost, or only the reply to it: in the second case it follows the command.
            if wrong is None:
                output.lease_until_s = None
                self._actuation.show(output)
            return
        output.astray = 0 if wrong is None else output.astray + 1
        if wrong is not None and output.astray >= ASTRAY_POLLS:
            output.astray = 0
            if self._foreign.contradicted(output, status, wrong):
                output.owe(self._fallback.state_of(output), f"readback: {wrong}", now_s)

    # --- inside -----------------------------------------------------------------------------------------

    def _refusal(self, intent: Intent, output: GatedOutput) -> str | None:
        """Return why an intent that the kernel permits is refused, or None."""
        if (foreign := self._foreign.refusal(intent, output)) is not None or comes_to_rest(intent.command):
            return foreign
        valves = self._fallback.valves
        return valves.turning(output) if isinstance(intent.command, Dispense) else valves.refusal_to_turn(output)

    def _renew(self, output: GatedOutput, command: Command) -> None:
        lasting = isinstance(command, Run) or (isinstance(command, Switch) and command.on and command.for_s is None)
        if lasting and command != output.basal:
            output.renew(self._now_s())
        else:
            output.lease_until_s = None

    async def _dose(
        self, output: GatedOutput, intent: Intent, verdict: Verdict, command: Dispense, seq: int | None
    ) -> Outcome:
        """Give a dose as soon as its row `seq` is durable, unless something forbids it by then."""
        why: str | None = "its command was cancelled"
        try:
            why = await self._record.refusal(seq)
        finally:
            if why is not None:
                output.announced = None if output.announced == seq else output.announced
                self._record.write("act.outcome", {"act": seq, "error": f"not sent: {why}"})
        if why is not None:
            return Outcome(False, None, (*verdict.reasons, why), seq)
        async with output.lock:
            if output.announced != seq:
                why = "it was stopped while its row was written"
            else:
                output.announced = None
                now, turning = decide(intent, self.view(), self._limits), self._fallback.valves.turning(output)
                if now.accepted and now.command == command and turning is None:
                    return await self._bring(output, intent, command, verdict, seq)
                why = now.limiting or turning or "the limits have changed while its row was written"
            self._record.write("act.outcome", {"act": seq, "error": f"not sent: {why}"})
            return Outcome(False, None, (*verdict.reasons, why), seq)

    async def _carry_out(self, output: GatedOutput, intent: Intent, verdict: Verdict, command: Command) -> Outcome:
        if comes_to_rest(command) and (pressing := await self._fallback.valves.stilled(output)) is not None:
            output.owe(command, f"{intent.requester}: {intent.reason}", self._now_s())
            return Outcome(True, command, verdict.reasons, error=self._fallback.valves.wait(output, pressing))
        return await self._bring(output, intent, command, verdict, self._record.write("act", act_row(intent, verdict)))

    async def _bring(
        self, output: GatedOutput, intent: Intent, command: Command, verdict: Verdict, seq: int | None
    ) -> Outcome:
        """Send a recorded command and read back the result."""
        if isinstance(command, Dispense):
            output.transfer = Transfer(command, self._now_s() + transfer_limit_s(command), intent.positions)
            self._quiet_until_s = -inf
        try:
            error = await self._actuation.bring(output, command)
        except asyncio.CancelledError:
            self._record.write("act.outcome", {"act": seq, "error": "cancelled"})
            output.owe(self._fallback.state_of(output), "its command was cancelled half-way", self._now_s())
            raise
        if error is not None:
            return await self._failed(output, command, verdict, seq, error)
        output.debt = None
        self._renew(output, command)
        self._actuation.show(output)
        status = output.status
        if isinstance(command, Dispense) and status is not None:
            self._record.write("act.outcome", {"act": seq, "status": asdict(status)})
        if self.emergency is not None and self._stopped(output.name) and not _rests(output, command):
            output.owe(self._fallback.state_of(output), "emergency stop", self._now_s())
            await self._fallback.pay(output)
        return Outcome(True, command, verdict.reasons, seq, status)

    async def _failed(
        self, output: GatedOutput, command: Command, verdict: Verdict, seq: int | None, error: str
    ) -> Outcome:
        """Bring the actuator to rest after a command that may or may not have taken effect; alarm and record it (A7)."""
        self._record.write("act.outcome", {"act": seq, "error": error})
        self._alarm("command_failed", output.name, error)
        if self._actuation.hold(output, command):
            return Outcome(True, command, verdict.reasons, seq, None, error)
        rest = self._fallback.state_of(output)
        output.owe(rest, f"after a command that failed: {error}", self._now_s())
        if output.debt is not None and rest == command:
            output.debt.put_off(self._now_s())
        else:
            await self._fallback.pay(output)
        return Outcome(True, command, verdict.reasons, seq, None, error)

    def _note_refusal(self, intent: Intent, verdict: Verdict) -> int | None:
        """Record a refusal; repeats for the same reason are recorded once."""
        key, reason = (intent.actuator, intent.requester), (verdict.limiting or "").partition(":")[0]
        if self._refused.get(key) == reason and not isinstance(intent.command, Dispense):
            return None
        self._refused[key] = reason
        return self._record.write("act.refused", act_row(intent, verdict))


def _rests(output: GatedOutput, command: Command) -> bool:
    return comes_to_rest(command) or command == output.basal
