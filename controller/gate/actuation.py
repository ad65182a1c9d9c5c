"""Commands and readback of the devices behind the gate, and what is known of them in the state.

This module decides nothing. Only the gate uses it, because only the gate holds the drivers' actuators.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from math import inf

from controller.core.state import ActuatorView, StateStore
from controller.gate.delivered import Delivered
from controller.gate.outputs import GatedOutput
from controller.gate.readback import mismatch, seen
from controller.safety.kernel import comes_to_rest
from controller.safety.terms import Limits, Seen, Verdict
from drivers.commands import FLOW_TOLERANCE, Command, Dispense, Level, PumpStatus, Run, Status, Stop, Switch
from drivers.errors import BadReply, DeviceError

logger = logging.getLogger(__name__)

TOTAL_ASKS = 5
"""Maximum number of reads of a resting pump's total until two in a row agree."""
LEVEL_HOLD_S = 120.0
"""Time (s) that a gas keeps its last level while commands do not arrive; then it goes to its basal flow. The medium follows
the gas within minutes, and short dropouts of a link are over by then."""


class Actuation:
    """Sends commands and records status. With `books` an ended transfer is kept until the ledger has booked it."""

    def __init__(self, limits: Limits, store: StateStore, now_s: Callable[[], float], *, books: bool) -> None:
        self._limits = limits
        self._store = store
        self._now_s = now_s
        self._books = books
        self.seen: dict[str, Seen] = {}
        """The last reported state of each actuator, as the kernel sees it."""
        self.delivered = Delivered()

    async def bring(self, output: GatedOutput, command: Command) -> str | None:
        """Send a command and read it back. Return what went wrong, or None. Only the record of the output changes."""
        output.sent(command, self._now_s())
        try:
            given = self.feasible(output, command)
            await output.actuator.apply(given)
            asked_s = self._now_s()
            status = await output.actuator.status()
        except DeviceError as error:
            return str(error)
        except Exception as error:  # a defect in a driver is handled like any other failure of its device
            logger.exception("driver of %s failed while it was commanded", output.name)
            return f"its driver fails: {error!r}"
        finally:
            output.read_back_s = self._now_s()
        self.take_in(output, status, asked_s)
        wrong = mismatch(given, status, self._now_s() - output.sent_s)
        return None if wrong is None else f"readback: {wrong}"

    def take_in(self, output: GatedOutput, status: Status, at_s: float) -> None:
        """Record a status that was requested at `at_s` (loop s)."""
        output.status = status
        output.seen = self.seen[output.name] = seen(status, at_s)
        given = None if output.commanded is None else self.feasible(output, output.commanded)
        self.delivered.note(output.name, given, status, at_s)
        transfer = output.transfer
        if transfer is not None and transfer.ended_s is None and not output.seen.on:
            transfer.ended_s = at_s
            if not self._books:
                output.transfer = None
            output.commanded = Stop()
            if output.debt is not None and comes_to_rest(output.debt.command):
                output.debt = None
        self.show(output)

    def disagrees(self, output: GatedOutput, status: Status, asked_s: float) -> str | None:
        """Return how a status requested at `asked_s` deviates from the command, or None."""
        if output.commanded is None:
            return None
        return mismatch(self.feasible(output, output.commanded), status, asked_s - output.sent_s)

    def departed(self, output: GatedOutput, command: Command) -> str | None:
        """Return how an output that was given the lasting `command` has left it since; None if it has not."""
        lasting = isinstance(command, Run) or (isinstance(command, Switch) and command.on and command.for_s is None)
        if not lasting or output.commanded != command or output.debt is not None or output.status is None:
            return None
        if output.seen is None or output.seen.at_s < output.read_back_s:
            return None  # nothing was read since
        return mismatch(self.feasible(output, command), output.status, 0.0)

    def already(self, output: GatedOutput, command: Command) -> bool:
        """Return whether the output was given this command and follows it, so that nothing has to be sent."""
        if output.commanded != command or output.debt is not None or output.status is None:
            return False
        if isinstance(command, Dispense) or (isinstance(command, Switch) and command.for_s is not None):
            return False
        return mismatch(self.feasible(output, command), output.status, 0.0) is None

    def feasible(self, output: GatedOutput, command: Command) -> Command:
        """Return what the device is given for `command`.

        A flow between two steps of a pump becomes the nearest step; a gas flow beyond full scale becomes full scale. A
        heart at the nearest step is worth more than one that stands because its pump refuses, and so is some oxygen. No
        step exceeds the rig's maximum flow. The readback is compared with what the device was given; the recorded command
        stays the requested one.
        """
        pump = self._limits.pumps.get(output.name)
        try:
            return output.actuator.nearest(command, inf if pump is None else pump.max_ul_min)
        except Exception:  # a defect in a driver: it receives the requested command, and may refuse it
            logger.exception("driver of %s failed to name the nearest possible command", output.name)
            return command

    def shortfall(self, output: GatedOutput, command: Command) -> str | None:
        """Return why the device cannot do exactly `command`, and what it does instead; None if it can."""
        given = self.feasible(output, command)
        if isinstance(command, Run) and isinstance(given, Run) and given != command:
            asked_ul_min, can_ul_min = command.flow_ul_min, given.flow_ul_min
            return f"steps: {asked_ul_min:g} µL/min lies between the pump's steps; it gives {can_ul_min:g}"
        if isinstance(command, Level) and isinstance(given, Level) and given != command:
            unit = output.actuator.unit
            return f"full scale: {command.value:g} {unit} is more than there is; it gives {given.value:g}"
        return None

    def with_shortfall(self, output: GatedOutput, verdict: Verdict) -> Verdict:
        """Return `verdict` with a further reason if the device cannot do exactly what is permitted."""
        reason = None if verdict.command is None else self.shortfall(output, verdict.command)
        if reason is None:
            return verdict
        return replace(verdict, reasons=(*verdict.reasons, reason), limiting=reason)

    def above_basal(self, output: GatedOutput, basal: Run, flow_ul_min: float) -> bool:
        """Return whether a flow exceeds the basal flow, or the pump's nearest step to it."""
        given = self.feasible(output, basal)
        max_ul_min = max(basal.flow_ul_min, given.flow_ul_min if isinstance(given, Run) else 0.0)
        return flow_ul_min > max_ul_min * (1.0 + FLOW_TOLERANCE)

    async def confirmed_total(self, output: GatedOutput, status: PumpStatus) -> PumpStatus:
        """Read a resting pump again until two totals in a row agree: doses are booked by it (F2, I9).

        A digit lost or doubled on the line would book a dose that was never given, or give one twice.
        """
        known = output.status
        for _ in range(TOTAL_ASKS):
            same = isinstance(known, PumpStatus) and not known.running and known.delivered_ul == status.delivered_ul
            if status.running or same:
                return status
            known, answer = status, await output.actuator.status()
            if not isinstance(answer, PumpStatus):
                break
            status = answer
        raise BadReply(
            f"it told another total each time, {status.delivered_ul:g} µL at last",
            where=output.name,
            cause="noise on the line, or something moves its rotor by hand",
            action="it is asked again; look at its cable and at the pump",
        )

    def hold(self, output: GatedOutput, command: Command) -> bool:
        """Keep a gas whose command was lost at its level for `LEVEL_HOLD_S`. Return whether it is kept.

        The time counts from the first lost command. The gas flows at the old level or at the new one, and the gate
        permitted both; a return to the basal flow at each dropout would swing the mixture with the link. A device that
        answers and does not obey is not kept. Until a status arrives the worse of both levels is assumed: most CO2, least
        of the other gases.
        """
        known = output.seen
        answered = known is not None and known.at_s >= output.sent_s
        gas = output.name not in self._limits.heaters and output.name not in self._limits.selectors
        if not isinstance(command, Level) or not gas or answered or output.debt is not None:
            return False
        if output.lease_until_s is None:
            output.lease_until_s = self._now_s() + LEVEL_HOLD_S
        if known is not None:
            mixture = self._limits.mixture
            worse = max if mixture is not None and output.name == mixture.co2 else min
            level = worse(known.level, command.value)
            output.seen = self.seen[output.name] = Seen(level > 0.0, level, known.at_s)
        self.show(output)
        return True

    def lost(self, name: str, detail: str) -> None:
        """Record that a status could not be read; the last known one ages."""
        view = self._store.actuators[name]
        if view.fault != detail:
            self._store.actuator(name, replace(view, fault=detail))

    def show(self, output: GatedOutput) -> None:
        """Write the output's record into the state."""
        command = output.commanded
        actuator = output.actuator
        guarantee = actuator.guarantee if command is None else actuator.guarantee_for(command)
        at_s = float("-inf") if output.seen is None else output.seen.at_s
        view = ActuatorView(output.status, at_s, command, output.basal, guarantee, output.lease_until_s)
        self._store.actuator(output.name, view)
