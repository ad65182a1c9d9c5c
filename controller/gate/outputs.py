"""What the gate keeps of each actuator: what it was told, its lease, its transfer, and what it still owes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from controller.safety.kernel import MAX_TRANSFER_S
from controller.safety.terms import Seen
from drivers.commands import Command, Dispense, Guarantee, Status, Stop, Switch
from drivers.device import Actuator

DEBT_FIRST_S = 1.0
DEBT_MOST_S = 30.0
"""How long is waited before what an actuator owes is tried again: doubled each time, up to the second."""
AHEAD_S = 1.0
"""How far is looked ahead for pulses that the gate has to end: as far as its next tick, so that they end in time and not up
to a second late, which is half of a short one. One that begins and ends between two ticks lasts until the second of
them."""


END_SOON_S = 10.0
"""A pause, and the end of the controller, let a dose end that ends within this time, if what would be left of it is below the
pump's minimum."""


@dataclass(slots=True)
class Transfer:
    """A dose: on its way while `ended_s` is None, then not booked yet. `deadline_s` is when it is stopped (A5)."""

    dose: Dispense
    deadline_s: float
    ended_s: float | None = None


@dataclass(slots=True)
class Debt:
    """A state that an actuator has to be brought to, tried until it is there. `waits`: for another one, so far untried."""

    command: Command
    why: str
    next_s: float
    delay_s: float = DEBT_FIRST_S
    tries: int = 0
    waits: bool = False

    def put_off(self, now_s: float) -> None:
        """It could not be done now."""
        self.tries += 1
        self.next_s = now_s + self.delay_s
        self.delay_s = min(2 * self.delay_s, DEBT_MOST_S)


@dataclass(slots=True)
class GatedOutput:
    """One actuator behind the gate. Times are loop seconds."""

    name: str
    actuator: Actuator
    basal: Command
    lease_s: float | None
    begun_s: float
    """When this process took it over."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    commanded: Command | None = None
    told_s: float = float("-inf")
    """When the last command began to go out."""
    read_back_s: float = float("-inf")
    """When it was done: a status asked for before this is older than the command."""
    status: Status | None = None
    seen: Seen | None = None
    lease_until_s: float | None = None
    ends_s: float | None = None
    """When the gate itself has to switch it off: a pulse that its device does not end."""
    transfer: Transfer | None = None
    debt: Debt | None = None
    announced: int | None = None
    """The journal row of a dose that waits for the disk; any other command to this output cancels that dose."""
    astray: int = 0
    """So many polls in a row did not show what was commanded."""

    def ends_dose_in_s(self, now_s: float, min_ul: float) -> float | None:
        """Return in how many seconds its device ends a dose that had better not be stopped, as :data:`END_SOON_S` says.

        None where no dose is under way, or it is to be stopped: it would take longer, its rest (below `min_ul` µL it could
        not be given later) is worth a dose, or something else is owed.
        """
        transfer = self.transfer
        if transfer is None or transfer.ended_s is not None or self.debt is not None:
            return None
        dose = transfer.dose
        left_s = self.told_s + dose.volume_ul / dose.flow_ul_min * 60.0 - now_s
        ends_itself = self.actuator.guarantee_for(dose) is Guarantee.DEVICE
        soon = 0.0 < left_s <= END_SOON_S and left_s / 60.0 * dose.flow_ul_min < min_ul
        return left_s if ends_itself and soon else None

    def renew(self, now_s: float) -> None:
        """Its holder has asked again."""
        self.lease_until_s = None if self.lease_s is None else now_s + self.lease_s

    def may_pump(self, now_s: float) -> bool:
        """Whether a transfer pump is not known to stand: a dose is on its way, it was seen to run, or was never heard.

        A dose counts until its deadline, also one whose reply was lost; what was begun by another process for as long as
        any dose may last. By then it has ended, or nothing is left that could end it.
        """
        if self.transfer is not None and self.transfer.ended_s is None:
            return now_s <= self.transfer.deadline_s
        heard_s = self.begun_s if self.seen is None else self.seen.at_s
        return (self.seen is None or self.seen.on) and now_s - heard_s <= MAX_TRANSFER_S

    def told(self, command: Command, now_s: float) -> None:
        """`command` goes out now. A pulse that the device cannot time is counted from here: it lasts no longer than asked."""
        self.told_s, self.commanded, self.astray, self.ends_s = now_s, command, 0, None
        if isinstance(command, Switch) and command.on and command.for_s is not None and not self.ends_pulses:
            self.ends_s = now_s + command.for_s

    @property
    def ends_pulses(self) -> bool:
        """Whether the device itself ends what is switched on for a time."""
        return self.actuator.guarantee_for(Switch(True, 1.0)) is Guarantee.DEVICE

    @property
    def rest(self) -> Command:
        """What brings it to rest."""
        return Switch(False) if self.actuator.kind == "switch" else Stop()

    def due(self, now_s: float) -> bool:
        """Whether there is something to do about it before the next tick."""
        if self.debt is not None:
            return now_s >= self.debt.next_s
        return self.ends_s is not None and now_s + AHEAD_S >= self.ends_s

    def owe(self, command: Command, why: str, now_s: float) -> None:
        """From now on it has to be brought to `command`; the same debt again changes nothing."""
        self.announced = None
        if self.debt is None or self.debt.command != command:
            self.debt = Debt(command, why, now_s)
