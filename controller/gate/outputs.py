"""The gate's record of each actuator: its command, lease, transfer and pending state."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.safety.kernel import MAX_TRANSFER_S
from controller.safety.terms import Seen
from drivers.commands import Command, Dispense, Guarantee, Status, Stop, Switch
from drivers.device import Actuator

DEBT_FIRST_S = 1.0
DEBT_MAX_S = 30.0
"""Delay before a pending state is commanded again: doubled each time, from the first value to the second (s)."""
AHEAD_S = 1.0
"""Look-ahead (s) for pulses that the gate has to end: one tick, so that they end in time. Else a pulse could last a second
longer, half of a short one. A pulse that begins and ends between two ticks lasts until the second of them."""


END_SOON_S = 10.0
"""A pause, and the end of the controller, let a dose end that ends within this time, if what would be left of it is below the
pump's minimum."""


@dataclass(slots=True)
class Transfer:
    """A dose: underway while `ended_s` is None, then not booked yet. At `deadline_s` it is stopped (A5).

    `positions` are the levels of the selectors on its way, by valve.
    """

    dose: Dispense
    deadline_s: float
    positions: Mapping[str, float] = field(default_factory=dict)
    ended_s: float | None = None


@dataclass(slots=True)
class Debt:
    """Holds a command that an actuator has not carried out yet and that the gate repeats. `waits`: not tried so far,
    because another output comes first.
    """

    command: Command
    why: str
    next_s: float
    delay_s: float = DEBT_FIRST_S
    tries: int = 0
    waits: bool = False

    def put_off(self, now_s: float) -> None:
        """Schedule the next try after a failed one."""
        self.tries += 1
        self.next_s = now_s + self.delay_s
        self.delay_s = min(2 * self.delay_s, DEBT_MAX_S)


@dataclass(slots=True)
class GatedOutput:
    """One actuator behind the gate. Times are loop seconds."""

    name: str
    actuator: Actuator
    basal: Command
    lease_s: float | None
    begun_s: float
    """When this process took the actuator over."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    commanded: Command | None = None
    sent_s: float = float("-inf")
    """When the last command began to be sent."""
    read_back_s: float = float("-inf")
    """When its readback ended: a status requested before is older than the command."""
    status: Status | None = None
    seen: Seen | None = None
    lease_until_s: float | None = None
    ends_s: float | None = None
    """When the gate has to switch it off: the end of a pulse that its device does not time."""
    transfer: Transfer | None = None
    debt: Debt | None = None
    announced: int | None = None
    """The journal row of a dose that waits for the disk; any other command to this output cancels that dose."""
    astray: int = 0
    """Number of consecutive polls that did not show the command."""

    def ends_dose_in_s(self, now_s: float, min_ul: float) -> float | None:
        """Return the time (s) until the device ends a dose that should not be stopped (:data:`END_SOON_S`), else None.

        A dose should be stopped if it takes longer, if its remainder is at least `min_ul` (µL) and can thus be given later,
        or if another state is pending.
        """
        transfer = self.transfer
        if transfer is None or transfer.ended_s is not None or self.debt is not None:
            return None
        dose = transfer.dose
        left_s = self.sent_s + dose.volume_ul / dose.flow_ul_min * 60.0 - now_s
        ends_itself = self.actuator.guarantee_for(dose) is Guarantee.DEVICE
        soon = 0.0 < left_s <= END_SOON_S and left_s / 60.0 * dose.flow_ul_min < min_ul
        return left_s if ends_itself and soon else None

    def renew(self, now_s: float) -> None:
        """Renew the lease."""
        self.lease_until_s = None if self.lease_s is None else now_s + self.lease_s

    def may_pump(self, now_s: float) -> bool:
        """Return whether a transfer pump may still run: a dose is underway, it was seen to run, or was never read.

        A dose counts until its deadline, even if its reply was lost. A pump started by another process counts for the
        maximum duration of a dose; then it has ended, or nothing is left that could end it.
        """
        if self.transfer is not None and self.transfer.ended_s is None:
            return now_s <= self.transfer.deadline_s
        seen_s = self.begun_s if self.seen is None else self.seen.at_s
        return (self.seen is None or self.seen.on) and now_s - seen_s <= MAX_TRANSFER_S

    def sent(self, command: Command, now_s: float) -> None:
        """Record that `command` is sent now. A pulse that the gate has to time ends `for_s` after this moment."""
        self.sent_s, self.commanded, self.astray, self.ends_s = now_s, command, 0, None
        if isinstance(command, Switch) and command.on and command.for_s is not None and not self.ends_pulses:
            self.ends_s = now_s + command.for_s

    @property
    def ends_pulses(self) -> bool:
        """Whether the device itself ends a pulse."""
        return self.actuator.guarantee_for(Switch(True, 1.0)) is Guarantee.DEVICE

    @property
    def rest(self) -> Command:
        """The command that brings it to rest."""
        return Switch(False) if self.actuator.kind == "switch" else Stop()

    @property
    def untimed(self) -> bool:
        """Whether the gate has nothing to do on it at any time: no lease, transfer, pulse or pending state ends."""
        return self.lease_until_s is None and self.transfer is None and self.debt is None and self.ends_s is None

    def due(self, now_s: float) -> bool:
        """Return whether the gate has to act on it before the next tick."""
        if self.debt is not None:
            return now_s >= self.debt.next_s
        return self.ends_s is not None and now_s + AHEAD_S >= self.ends_s

    def owe(self, command: Command, why: str, now_s: float) -> None:
        """Require that it be brought to `command`. A repeated requirement changes nothing."""
        self.announced = None
        if self.debt is None or self.debt.command != command:
            self.debt = Debt(command, why, now_s)
