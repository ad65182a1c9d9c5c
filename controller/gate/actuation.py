"""What reaches the devices behind the gate, and what is known of them: commanded, read back, shown in the state.

Nothing is decided here. Only the gate has it, for only the gate holds the drivers' actuators.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from math import inf

from controller.core.state import ActuatorView, StateStore
from controller.gate.outputs import GatedOutput
from controller.gate.readback import mismatch, seen
from controller.safety.kernel import comes_to_rest
from controller.safety.terms import Limits, Seen, Verdict
from drivers.commands import FLOW_TOLERANCE, Command, Dispense, Level, PumpStatus, Run, Status, Stop, Switch
from drivers.errors import BadReply, DeviceError

logger = logging.getLogger(__name__)

TOTAL_ASKS = 5
"""So often at most is a pump at rest asked for its total until it has told the same twice in a row."""
LEVEL_HOLD_S = 120.0
"""A gas whose commands do not arrive stays at its last level for so long, then it goes to its basal flow: the medium follows
the gas within minutes, and dropouts of a bad plug are over by then."""


class Actuation:
    """See the module. With `books` an ended transfer is kept until the ledger has booked it."""

    def __init__(self, limits: Limits, store: StateStore, now_s: Callable[[], float], *, books: bool) -> None:
        self._limits = limits
        self._store = store
        self._now_s = now_s
        self._books = books
        self.seen: dict[str, Seen] = {}
        """What each actuator was last seen to do, as the kernel looks at it."""

    async def bring(self, output: GatedOutput, command: Command) -> str | None:
        """Command and read back; returns what went wrong. Changes nothing but what is known."""
        output.told(command, self._now_s())
        try:
            given = self.feasible(output, command)
            await output.actuator.apply(given)
            asked_s = self._now_s()
            status = await output.actuator.status()
        except DeviceError as error:
            return str(error)
        except Exception as error:  # a defect in a driver is answered like any other failure of its device
            logger.exception("commanding %s", output.name)
            return f"its driver fails: {error!r}"
        finally:
            output.read_back_s = self._now_s()
        self.take_in(output, status, asked_s)
        wrong = mismatch(given, status, self._now_s() - output.told_s)
        return None if wrong is None else f"readback: {wrong}"

    def take_in(self, output: GatedOutput, status: Status, at_s: float) -> None:
        """What a device said of itself, asked at `at_s`."""
        output.status = status
        output.seen = self.seen[output.name] = seen(status, at_s)
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
        """What a status, asked for at `asked_s`, shows otherwise than it was told; None when it does what it was told."""
        if output.commanded is None:
            return None
        return mismatch(self.feasible(output, output.commanded), status, asked_s - output.told_s)

    def already(self, output: GatedOutput, command: Command) -> bool:
        """Whether it was told so, and does it: nothing has to go out."""
        if output.commanded != command or output.debt is not None or output.status is None:
            return False
        if isinstance(command, Dispense) or (isinstance(command, Switch) and command.for_s is not None):
            return False
        return mismatch(self.feasible(output, command), output.status, 0.0) is None

    def feasible(self, output: GatedOutput, command: Command) -> Command:
        """What the device is told for `command`: a flow between two steps of a pump is brought to the nearest, one beyond
        a gas controller's full scale to that.

        A heart at the step next to its flow is worth more than one that stands because its pump refuses, and so is some
        oxygen. No step takes a pump above the rig's greatest flow. What the device then does is compared with what it
        was told; the command stays what was asked for.
        """
        pump = self._limits.pumps.get(output.name)
        try:
            return output.actuator.nearest(command, inf if pump is None else pump.max_ul_min)
        except Exception:  # a defect in a driver: it is commanded as it was asked for, and may refuse that
            logger.exception("asking %s what it can do", output.name)
            return command

    def shortfall(self, output: GatedOutput, command: Command) -> str | None:
        """Why the device cannot quite do `command`, and what it gives; None when it can."""
        given = self.feasible(output, command)
        if isinstance(command, Run) and isinstance(given, Run) and given != command:
            asked_ul_min, can_ul_min = command.flow_ul_min, given.flow_ul_min
            return f"steps: {asked_ul_min:g} µL/min lies between the pump's steps; it gives {can_ul_min:g}"
        if isinstance(command, Level) and isinstance(given, Level) and given != command:
            unit = output.actuator.unit
            return f"full scale: {command.value:g} {unit} is more than there is; it gives {given.value:g}"
        return None

    def told_short(self, output: GatedOutput, verdict: Verdict) -> Verdict:
        """Return `verdict`, with one more reason where the device cannot quite do it."""
        reason = None if verdict.command is None else self.shortfall(output, verdict.command)
        if reason is None:
            return verdict
        return replace(verdict, reasons=(*verdict.reasons, reason), limiting=reason)

    def above_basal(self, output: GatedOutput, basal: Run, flow_ul_min: float) -> bool:
        """Whether a flow is more than the basal one, or than what the pump makes of that."""
        given = self.feasible(output, basal)
        most = max(basal.flow_ul_min, given.flow_ul_min if isinstance(given, Run) else 0.0)
        return flow_ul_min > most * (1.0 + FLOW_TOLERANCE)

    async def told_twice(self, output: GatedOutput, status: PumpStatus) -> PumpStatus:
        """Ask a pump that stands again until it has told a new total twice in a row: doses are booked by it (F2, I9).

        One digit that is lost or doubled on the line would book a dose that was never given, or give one again.
        """
        known = output.status
        for _ in range(TOTAL_ASKS):
            same = isinstance(known, PumpStatus) and not known.running and known.delivered_ul == status.delivered_ul
            if status.running or same:
                return status
            known, told = status, await output.actuator.status()
            if not isinstance(told, PumpStatus):
                break
            status = told
        raise BadReply(
            f"it told another total each time, {status.delivered_ul:g} µL at last",
            where=output.name,
            cause="noise on the line, or something moves its rotor by hand",
            action="it is asked again; look at its cable and at the pump",
        )

    def hold(self, output: GatedOutput, command: Command) -> bool:
        """Whether a gas whose command was lost stays as it is for `LEVEL_HOLD_S`, counted from the first that was lost.

        It flows at the old level or at the new one, and both were let through. To send it to its basal flow each time that
        a link drops out would swing the mixture with the link. A device that answers and does not obey is another matter.
        Until it is heard it is taken for the worse of the two: most CO2, least of the others.
        """
        known = output.seen
        answered = known is not None and known.at_s >= output.told_s
        if not isinstance(command, Level) or output.name in self._limits.heaters or answered or output.debt is not None:
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
        """Its status could not be read; what was known of it grows old."""
        view = self._store.actuators[name]
        if view.fault != detail:
            self._store.actuator(name, replace(view, fault=detail))

    def show(self, output: GatedOutput) -> None:
        """Put what is known of an output into the state."""
        command = output.commanded
        actuator = output.actuator
        guarantee = actuator.guarantee if command is None else actuator.guarantee_for(command)
        at_s = float("-inf") if output.seen is None else output.seen.at_s
        view = ActuatorView(output.status, at_s, command, output.basal, guarantee, output.lease_until_s)
        self._store.actuator(output.name, view)
