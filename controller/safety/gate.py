"""The safety gate: the one door to every actuator.

Intent → kernel → journal → device → readback → journal. Only the gate holds the drivers' actuator objects. A continuous
flow and a switched-on valve are leases: whoever wants them must ask again before they run out, or the gate commands the
basal state. Asking again for what already is so renews the lease and costs neither a journal row nor a byte.

A pulse, a level or a flow is one journal row (`act`), written before the device hears of it; a second row (`act.outcome`)
follows for a dose, and for anything that did not go as intended. So a day of heater pulses stays readable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from controller.clock import Clock
from controller.safety.kernel import (
    Intent,
    Limits,
    Trip,
    Underway,
    Verdict,
    View,
    decide,
    transfer_limit_s,
)
from controller.state import ActuatorView, StateStore
from drivers.device import (
    Actuator,
    Command,
    DeviceError,
    Dispense,
    Level,
    LevelStatus,
    PumpStatus,
    Run,
    Status,
    Stop,
    Switch,
    SwitchStatus,
)

logger = logging.getLogger(__name__)

FLOW_TOLERANCE = 0.02
LEVEL_TOLERANCE = 0.02
LEVEL_GRAIN = 0.02
"""How far a readback may be from the command: a share of it, and for gases the last digit (mL/min)."""


class Record(Protocol):
    """What the gate needs of the journal."""

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        """Write one row, committed on return."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an intent: `seq` is its journal row, None when nothing had to be done."""

    accepted: bool
    command: Command | None
    reasons: tuple[str, ...] = ()
    seq: int | None = None
    status: Status | None = None
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Accepted, carried out and read back."""
        return self.accepted and self.error is None


@dataclass(slots=True)
class _Transfer:
    dose: Dispense
    seq: int
    started_s: float
    deadline_s: float


class Gate:
    """See the module. `alarm(kind, source, detail)` is called for what a person must know."""

    def __init__(
        self,
        *,
        actuators: Mapping[str, Actuator],
        limits: Limits,
        basal: Mapping[str, Command],
        leases_s: Mapping[str, float],
        store: StateStore,
        journal: Record,
        clock: Clock,
        alarm: Callable[[str, str, str], None],
    ) -> None:
        self._actuators = dict(actuators)
        self._limits = limits
        self._basal = dict(basal)
        self._leases_s = dict(leases_s)
        self._store = store
        self._journal = journal
        self._clock = clock
        self._alarm = alarm
        self._locks = {name: asyncio.Lock() for name in self._actuators}
        self._lease_until_s: dict[str, float] = {}
        self._commanded: dict[str, Command] = {}
        self._transfers: dict[str, _Transfer] = {}
        self._refused: dict[tuple[str, str], str] = {}
        self.trips: tuple[Trip, ...] = ()
        self.emergency: str | None = None
        self._now_s = asyncio.get_running_loop().time

    # --- the door ---------------------------------------------------------------------------------------

    async def submit(self, intent: Intent) -> Outcome:
        """Take `intent` through the door; never raises for what a device or the kernel says, see the outcome."""
        lock = self._locks.get(intent.actuator)
        if lock is None:
            return Outcome(False, None, (f"no actuator is called {intent.actuator}",))
        async with lock:
            verdict = decide(intent, self.view(), self._limits)
            if not verdict.accepted or verdict.command is None:
                return Outcome(False, None, verdict.reasons, self._note_refusal(intent, verdict))
            self._refused.pop((intent.actuator, intent.requester), None)
            if self._already(intent.actuator, verdict.command):
                self._renew(intent.actuator, verdict.command)
                return Outcome(True, verdict.command, verdict.reasons)
            return await self._carry_out(intent, verdict)

    async def basal(self, actuator: str, reason: str) -> Outcome:
        """Bring one actuator to its basal state."""
        command = self._basal[actuator]
        if isinstance(command, Run) and any(actuator in trip.actuators for trip in self.trips):
            command = Stop()  # the heart's own interlock: circulating is what it must not do now
        return await self.submit(Intent(actuator, command, "gate", reason))

    async def stop(self, actuator: str, reason: str, *, requester: str = "gate") -> Outcome:
        """Stop one actuator."""
        return await self.submit(Intent(actuator, Stop(), requester, reason))

    async def status(self, actuator: str) -> Status:
        """Ask one device what it is doing now; raises DeviceError."""
        status = await self._actuators[actuator].status()
        self.saw(actuator, status)
        return status

    @property
    def names(self) -> tuple[str, ...]:
        """Every actuator's name."""
        return tuple(self._actuators)

    # --- emergency --------------------------------------------------------------------------------------

    async def estop(self, user: str, reason: str) -> None:
        """Stop everything but the heart's basal flow, and refuse all else until :meth:`reset` (A9, I5)."""
        self.emergency = f"{user}: {reason}"
        self._alarm("emergency_stop", "gate", self.emergency)
        await asyncio.gather(*(self._rest(name) for name in self._actuators))
        self._journal.append("safety.estop", {"user": user, "reason": reason})

    async def _rest(self, name: str) -> None:
        command = self._basal[name]
        actuator = self._actuators[name]
        try:
            await actuator.apply(command)
            self._commanded[name] = command
            self._transfers.pop(name, None)
            self.saw(name, await actuator.status())
        except DeviceError as error:
            logger.error("emergency stop: %s", error)

    def reset(self, user: str, reason: str) -> None:
        """End an emergency stop; who and why go into the journal."""
        self.emergency = None
        self._journal.append("safety.reset", {"user": user, "reason": reason})

    # --- what happens once a second ---------------------------------------------------------------------

    async def tick(self, trips: tuple[Trip, ...]) -> None:
        """Enforce interlocks, leases and the time limits of transfers."""
        self.trips = trips
        now_s = self._now_s()
        for trip in trips:
            for name in trip.actuators:
                await self._make_safe(name, trip)
        for name, until_s in list(self._lease_until_s.items()):
            if now_s > until_s:
                del self._lease_until_s[name]
                self._alarm("lease_expired", name, "nobody renewed it; it goes to its basal state")
                await self.basal(name, "its lease ran out")
        for name, transfer in list(self._transfers.items()):
            if now_s > transfer.deadline_s:
                await self._overlong(name, transfer)

    async def _make_safe(self, name: str, trip: Trip) -> None:
        commanded = self._commanded.get(name)
        heater = name in self._limits.heaters
        if commanded is None or isinstance(commanded, Stop) or (isinstance(commanded, Switch) and not commanded.on):
            return
        if heater and "is below" in trip.detail:
            return  # too cold is no reason to stop heating
        await self.submit(
            Intent(name, Switch(False) if heater else Stop(), "interlock", f"{trip.interlock}: {trip.detail}")
        )

    async def _overlong(self, name: str, transfer: _Transfer) -> None:
        self._transfers.pop(name, None)
        self._alarm("transfer_overlong", name, f"{transfer.dose.dose_id} ran longer than it may; it was stopped")
        await self.stop(name, "the transfer ran longer than it may (A5)")

    # --- what is known ----------------------------------------------------------------------------------

    def view(self) -> View:
        """What the kernel looks at, at this moment."""
        switched = frozenset(
            name for name, command in self._commanded.items() if isinstance(command, Switch) and command.on
        )
        underway = tuple(Underway(name, transfer.dose.volume_ul) for name, transfer in self._transfers.items())
        return View(
            now_s=self._now_s(),
            readings=self._store.readings,
            volumes=self._store.state.volumes,
            underway=underway,
            switched_on=switched,
            heart_standing=self.heart_standing(),
            emergency=self.emergency,
            trips=self.trips,
        )

    def heart_standing(self) -> bool:
        """Whether the heart was told to run and its own status, later than that, says it stands."""
        name = self._limits.heart
        seen = self._store.actuators.get(name)
        if not isinstance(self._commanded.get(name), Run) or seen is None or seen.status is None:
            return False
        return isinstance(seen.status, PumpStatus) and not seen.status.running

    def saw(self, name: str, status: Status) -> None:
        """Take in a status that was read; ends a transfer that has ended by itself."""
        actuator = self._actuators[name]
        command = self._commanded.get(name)
        guarantee = actuator.guarantee_for(command) if command is not None else actuator.guarantee
        self._store.actuator(
            name,
            ActuatorView(status, self._now_s(), command, self._basal[name], guarantee, self._lease_until_s.get(name)),
        )
        if name in self._transfers and isinstance(status, PumpStatus) and not status.running:
            del self._transfers[name]
            self._commanded[name] = Stop()

    # --- inside -----------------------------------------------------------------------------------------

    def _note_refusal(self, intent: Intent, verdict: Verdict) -> int | None:
        """Record a refusal; one that a regulator meets again and again for the same reason is recorded once."""
        key, interlock = (intent.actuator, intent.requester), (verdict.limiting or "").partition(":")[0]
        if self._refused.get(key) == interlock:
            return None
        self._refused[key] = interlock
        return self._journal.append("act.refused", _row(intent, verdict))

    def _already(self, name: str, command: Command) -> bool:
        if self._commanded.get(name) != command:
            return False
        if isinstance(command, Dispense) or (isinstance(command, Switch) and command.for_s is not None):
            return False
        seen = self._store.actuators.get(name)
        return seen is not None and seen.status is not None and _mismatch(command, seen.status) is None

    def _renew(self, name: str, command: Command) -> None:
        lasting = isinstance(command, Run) or (isinstance(command, Switch) and command.on and command.for_s is None)
        if lasting and name in self._leases_s:
            self._lease_until_s[name] = self._now_s() + self._leases_s[name]
        else:
            self._lease_until_s.pop(name, None)

    async def _carry_out(self, intent: Intent, verdict: Verdict) -> Outcome:
        name, command = intent.actuator, verdict.command
        if command is None:
            raise ValueError("an accepted verdict has a command")
        actuator = self._actuators[name]
        seq = self._journal.append("act", _row(intent, verdict))
        self._commanded[name] = command
        self._transfers.pop(name, None)
        if isinstance(command, Dispense):
            now_s = self._now_s()
            self._transfers[name] = _Transfer(command, seq, now_s, now_s + transfer_limit_s(command))
        try:
            await actuator.apply(command)
            status = await actuator.status()
        except DeviceError as error:
            return await self._failed(name, command, verdict, seq, str(error))
        except asyncio.CancelledError:
            self._journal.append("act.outcome", {"act": seq, "error": "cancelled"})
            raise
        self._renew(name, command)
        wrong = _mismatch(command, status)
        self.saw(name, status)
        if wrong is not None:
            return await self._failed(name, command, verdict, seq, f"readback: {wrong}")
        if isinstance(command, Dispense):
            self._journal.append("act.outcome", {"act": seq, "status": asdict(status)})
        return Outcome(True, command, verdict.reasons, seq, status)

    async def _failed(self, name: str, command: Command, verdict: Verdict, seq: int, error: str) -> Outcome:
        """The command may or may not have taken: bring the actuator to rest, tell, and record (A7)."""
        self._journal.append("act.outcome", {"act": seq, "error": error})
        self._alarm("command_failed", name, error)
        self._transfers.pop(name, None)
        actuator = self._actuators[name]
        rest = self._basal[name]
        if rest != command:
            try:
                await actuator.apply(rest)
                self._commanded[name] = rest
                self.saw(name, await actuator.status())
            except DeviceError as second:
                self._commanded.pop(name, None)
                logger.error("%s could not be brought to its basal state: %s", name, second)
        else:
            self._commanded.pop(name, None)
        return Outcome(True, command, verdict.reasons, seq, None, error)


def _row(intent: Intent, verdict: Verdict) -> dict[str, Any]:
    row: dict[str, Any] = {
        "actuator": intent.actuator,
        "command": command_text(intent.command),
        "by": intent.requester,
        "why": intent.reason,
    }
    if verdict.command is not None and verdict.command != intent.command:
        row["allowed"] = command_text(verdict.command)
    if verdict.reasons:
        row["reasons"] = list(verdict.reasons)
        row["limiting"] = verdict.limiting
    return row


def command_text(command: Command) -> list[str | float | bool | None]:
    """A command as plain data for the journal and the API: its name, then its values."""
    match command:
        case Run(flow_ul_min=flow):
            return ["run", flow]
        case Dispense(volume_ul=volume, flow_ul_min=flow, dose_id=dose):
            return ["dispense", volume, flow, dose]
        case Switch(on=on, for_s=for_s):
            return ["switch", on, for_s]
        case Level(value=value):
            return ["level", value]
        case Stop():
            return ["stop"]


def _mismatch(command: Command, status: Status) -> str | None:
    """What is wrong when `status` is not what `command` asked for (A7)."""
    match command, status:
        case Run(flow_ul_min=flow), PumpStatus(running=running, flow_ul_min=seen):
            if not running:
                return "the pump stands"
            if abs(seen - flow) > FLOW_TOLERANCE * abs(flow):
                return f"the pump runs at {seen:g} instead of {flow:g} µL/min"
        case Stop(), PumpStatus(running=True):
            return "the pump still runs"
        case Switch(on=on, for_s=for_s), SwitchStatus(on=seen_on):
            if on != seen_on and not (on and for_s is not None and for_s < 1.0):
                return f"the switch is {'on' if seen_on else 'off'}"
        case Stop(), SwitchStatus(on=True):
            return "the switch is on"
        case Level(value=value), LevelStatus(setpoint=setpoint):
            if abs(setpoint - value) > LEVEL_GRAIN + LEVEL_TOLERANCE * abs(value):
                return f"the set-point is {setpoint:g} instead of {value:g}"
    return None
