"""The engine's core: what happens with each block of frames. One thread, no clock but the sample index.

The order within a step is the safety argument: expired leases take their pending pulses with them before
anything is handed over; a decision is committed to the ledger before its first pulse is handed over; and
pulses wait here, not in the array, until their frame is near, so that a lost lease stops everything but
what was due within the next block.
"""

from __future__ import annotations

import heapq
import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from controller.nerves.bookings import Bookings
from controller.nerves.brake import Brake
from controller.nerves.device import ArrayDevice, Delivery, FrameBlock, Pulse
from controller.nerves.envelope import Envelope
from controller.nerves.governor import GovernorView, Reason, Request, StimulationDecision, book, decide
from controller.nerves.kernels import ALL, Blank, SpikeDetector, Spikes
from controller.nerves.leases import Lease, LeaseRefused, Leases
from controller.nerves.ledger import State, StimulationLedger
from controller.nerves.permit import DAY_S, Permit, Tissue, permit
from controller.nerves.rates import ACTIVE_HZ, FiringRates
from controller.nerves.ring import FrameRing, Gap, SpikeRing
from controller.nerves.welfare import ResponseMonitor, StimulationLoad, load

logger = logging.getLogger(__name__)

HISTORY_S = 5.0
SPIKES_KEPT = 65_536
BLANK_OWN_S = 0.005
"""Blanked time of the stimulated electrode after a pulse; the other electrodes: `BLANK_OTHERS_S`."""

BLANK_OTHERS_S = 0.002
MAX_WAITING = 1024
"""Commands waiting for the next block; more are turned away unread."""


class Busy(Exception):
    """The engine has too much to decide already; ask again later."""


@dataclass(slots=True)
class StimulationOutcome:
    """A decision and, as they become known, the fates of its pulses."""

    decision: StimulationDecision
    frame: int
    """The first frame not yet read when it was decided."""
    number: int = 0
    """The decision's number in the ledger."""
    pulses: list[Pulse] = field(default_factory=list)
    fates: dict[int, tuple[State, int | None]] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether the fate of every pulse is known."""
        return len(self.fates) == len(self.pulses)


Fate = tuple[int, State, int | None, str]
"""Pulse, what became of it, at which frame, and why."""

OutcomeCallback = Callable[[StimulationOutcome], None]
LeaseCallback = Callable[[Lease | LeaseRefused], None]


@dataclass(frozen=True, slots=True)
class StimulateCommand:
    """Decide a request; `decided` receives the decision, and `finished` the outcome after the last pulse.

    A command whose client has disconnected before the decision is `withdrawn` and never decided.
    """

    request: Request
    decided: OutcomeCallback
    finished: OutcomeCallback
    withdrawn: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class LeaseCommand:
    """Acquire, renew or release a lease; `answered` receives the lease, or the reason for the refusal."""

    verb: Literal["acquire", "renew", "release"]
    requester: str
    answered: LeaseCallback
    lease: str = ""
    electrodes: tuple[int, ...] = ()
    ttl_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Firing:
    """Firing over the last seconds: rates by electrode in Hz, and what the figures rest on."""

    frame: int
    rates_hz: tuple[float, ...]
    noise_uv: tuple[float, ...]
    active: int
    mean_active_hz: float


Reflex = Callable[[Spikes, int], Sequence[Request]]
"""A closed loop inside the engine: sees each block's spikes and the next frame, may ask for stimulation at
once.
"""


class Core:
    """The engine between the array and the gRPC service. One thread calls `step`; other threads may read the rings."""

    def __init__(
        self,
        device: ArrayDevice,
        ledger: StimulationLedger,
        envelope: Envelope,
        tissue: Tissue | None = None,
        brake: Brake | None = None,
    ) -> None:
        info = device.info
        self.info = info
        self.envelope = envelope
        self.frames = FrameRing(round(HISTORY_S * info.sample_rate_hz), info.electrodes)
        self.spikes = SpikeRing(SPIKES_KEPT)
        self.reflexes: list[Reflex] = []
        self.delivered = 0
        self.charge_nc = 0.0
        self.gaps = 0
        self.lost_frames = 0
        self._device = device
        self._ledger = ledger
        self._detector = SpikeDetector(info.electrodes, info.sample_rate_hz, info.uv_per_unit)
        self._blanked = self._detector.blanked_frames.copy()
        self._rates = FiringRates(info.electrodes, info.sample_rate_hz)
        self._leases = Leases(info.electrodes, info.sample_rate_hz)
        self._bookings = Bookings(info.sample_rate_hz)
        self._monitor = ResponseMonitor(info.sample_rate_hz, envelope.rest_s)
        self._impedances = device.impedances()
        self._commands: deque[StimulateCommand | LeaseCommand] = deque()
        self._due: list[tuple[int, int, Pulse, str]] = []
        self._handed: dict[int, Pulse] = {}
        self._outcomes: dict[int, tuple[StimulationOutcome, OutcomeCallback]] = {}
        self._undisclosed: list[tuple[StimulationOutcome, OutcomeCallback, OutcomeCallback]] = []
        self._unsure: list[Fate] = []
        """Last words that no commit has made sure yet; a ledger that was in trouble gets them when it can be written."""
        self._next_frame: int | None = None
        self._next_second = 0
        self._trouble = ""
        self._brake = brake or Brake()
        past = ledger.past(info.sample_rate_hz)
        self._bookings.restore(past.pulses, past.seconds, envelope.rest_s, past.minutes, past.stretches)
        self._tissue = tissue or Tissue()
        self.permit: Permit = permit(self._tissue, 0.0)
        """What age and review of the organoid allow now."""
        self.load: StimulationLoad = load(self._bookings, self._monitor, envelope)
        """What stimulation weighs on the tissue, as of the last second."""

    @property
    def next_frame(self) -> int:
        """The first frame not yet read."""
        return self._next_frame or 0

    @property
    def pending(self) -> int:
        """Pulses accepted whose fate is not known yet."""
        return len(self._due) + len(self._handed)

    @property
    def leases(self) -> int:
        """Living leases."""
        return len(self._leases)

    @property
    def trouble(self) -> str:
        """Why no stimulation is possible now; empty when it is."""
        return self._brake.why or self._trouble

    def submit(self, command: StimulateCommand | LeaseCommand) -> None:
        """Leave a command for the next step; from any thread. Raises :class:`Busy` when too many wait."""
        if len(self._commands) >= MAX_WAITING:
            raise Busy(f"{MAX_WAITING} commands wait already; ask again in some milliseconds")
        self._commands.append(command)

    def firing(self) -> Firing:
        """Rates and noise of this moment; may be called from any thread (figures may be one block apart)."""
        rates = self._rates.rates_hz()
        active = rates[rates >= ACTIVE_HZ]
        return Firing(
            frame=self.next_frame,
            rates_hz=tuple(rates.tolist()),
            noise_uv=tuple(self._detector.noise_uv.tolist()),
            active=int(active.size),
            mean_active_hz=float(active.mean()) if active.size else 0.0,
        )

    def impedances(self) -> tuple[float | None, ...]:
        """The latest impedances in kΩ."""
        return tuple(None if z is None else z.kohm for z in self._impedances)

    def step(self, block: FrameBlock) -> Spikes:
        """Take in one block and do everything that is due; returns its spikes.

        Raises ValueError when the array's frames run backwards.
        """
        self._take_gap(block)
        self._blank(block)
        spikes = self._detector.process(block.samples, block.first_frame)
        blanked = self._detector.blanked_frames
        self._rates.add(block.first_frame, len(block.samples), spikes, blanked - self._blanked)
        self._blanked = blanked.copy()
        self.frames.append(block.first_frame, block.samples)
        self.spikes.append(spikes)
        now = self._next_frame = block.first_frame + len(block.samples)
        self._confirm(block.deliveries)
        starts = sorted(delivery.frame for delivery in block.deliveries if delivery.frame is not None)
        self._monitor.note(starts, spikes.frames, now)
        self._stop_if_ordered()
        self._end_leases(self._leases.expire(now), "the lease ended")
        if now >= self._next_second:
            self._every_second(now)
        while self._commands:
            self._obey(self._commands.popleft(), now)
        for reflex in self.reflexes:
            for request in reflex(spikes, now):
                self._decide(request, now, _ignore_outcome, _ignore_outcome)
        self._hand_over(now)
        return spikes

    def close(self) -> None:
        """Cancel what has not been handed over and let the array and the ledger go."""
        self._leases.drop_all()
        self._cancel(list(self._due), "the engine closed")
        self._commit()
        self._device.close()
        self._ledger.close()

    def _take_gap(self, block: FrameBlock) -> None:
        """Record frames that the array lost, restart the filter and end all leases (N3, N5)."""
        expected = self._next_frame
        if expected is None:
            self._detector.restart(block.first_frame)
        elif block.first_frame < expected:
            raise ValueError(
                f"array {self.info.name}: frame {block.first_frame} came when {expected} was next;"
                " likely cause: the array was reset; next: restart the engine"
            )
        elif block.first_frame > expected:
            gap = Gap(expected, block.first_frame, "array")
            self.gaps += 1
            self.lost_frames += gap.end_frame - gap.first_frame
            self._detector.restart(block.first_frame)
            self._write(lambda: self._ledger.lost(gap))
            self._end_leases(self._leases.drop_all(), "the array lost frames; how long it was silent is not known")

    def _blank(self, block: FrameBlock) -> None:
        """Blank the electrodes around each pulse that began in this block (N8)."""
        rate = self.info.sample_rate_hz
        blanks = []
        for delivery in block.deliveries:
            if delivery.frame is not None:
                length_s = sum(phase.duration_us for phase in delivery.pulse.phases) * 1e-6
                others = delivery.frame + round((length_s + BLANK_OTHERS_S) * rate)
                own = delivery.frame + round((length_s + BLANK_OWN_S) * rate)
                blanks.append(Blank(ALL, delivery.frame, others))
                blanks.append(Blank(delivery.pulse.electrode, delivery.frame, own))
        if blanks:
            self._detector.blank(blanks)
            self._write(lambda: self._ledger.blanked(blanks))

    def _confirm(self, deliveries: Sequence[Delivery]) -> None:
        """Record what the array says became of pulses, and notify their clients."""
        fates: list[Fate] = []
        for delivery in deliveries:
            pulse = delivery.pulse
            if self._handed.pop(pulse.id, None) is None:
                continue
            if delivery.frame is None:
                fates.append((pulse.id, "dropped", None, "the array could not begin it before its latest frame"))
            else:
                fates.append((pulse.id, "delivered", delivery.frame, ""))
                self.delivered += 1
                self.charge_nc += sum(abs(phase.charge_nc) for phase in pulse.phases)
        self._finish(fates)

    def _obey(self, command: StimulateCommand | LeaseCommand, now: int) -> None:
        if isinstance(command, StimulateCommand):
            if not command.withdrawn():
                self._decide(command.request, now, command.decided, command.finished)
            return
        try:
            if command.verb == "acquire":
                lease = self._leases.acquire(command.requester, command.electrodes, command.ttl_s, now)
            elif command.verb == "renew":
                lease = self._leases.renew(command.lease, command.requester, now)
            else:
                lease = self._leases.release(command.lease, command.requester)
                self._end_leases([lease], "the lease was released")
        except LeaseRefused as refused:
            command.answered(refused)
        else:
            command.answered(lease)

    def _decide(self, request: Request, now: int, decided: OutcomeCallback, finished: OutcomeCallback) -> None:
        """Put a request before the governor and its decision into the ledger; nothing is handed over yet."""
        lease = self._leases.find(request.lease, request.requester)
        view = GovernorView(
            next_frame=now,
            info=self.info,
            impedances=self._impedances,
            lease_electrodes=lease.electrodes if lease else None,
            bookings=self._bookings,
            pending=self.pending,
            response_lost=self._monitor.lost,
            inhibited=self.trouble,
            permit=self.permit,
        )
        try:
            decision = decide(request, view, self.envelope)
        except Exception as error:  # what the governor cannot judge must not stimulate
            logger.exception("the governor failed on %r", request)
            decision = StimulationDecision(
                False, (Reason("engine", f"the governor failed on it ({error!r}); this is a defect"),)
            )
        outcome = StimulationOutcome(decision, now)
        if self._write(lambda: self._note(request, outcome)):
            for pulse in outcome.pulses:
                heapq.heappush(self._due, (pulse.at_frame, pulse.id, pulse, request.lease))
                self._outcomes[pulse.id] = (outcome, finished)
            if decision.accepted:
                book(request, decision, self._bookings, self.envelope)
        else:
            outcome.decision = StimulationDecision(False, (*decision.reasons, Reason("ledger", self._trouble)))
        self._undisclosed.append((outcome, decided, finished))

    def _note(self, request: Request, outcome: StimulationOutcome) -> None:
        outcome.number, outcome.pulses = self._ledger.decided(request, outcome.decision, outcome.frame)

    def _hand_over(self, now: int) -> None:
        """Commit and announce what was decided, and give the array the pulses that are due before the next block."""
        due = self._take_due(now)
        if due:
            self._write(lambda: self._ledger.fates([(pulse.id, "handed", None, "") for pulse in due]))
        if not self._commit():
            for pulse in due:
                heapq.heappush(self._due, (pulse.at_frame, pulse.id, pulse, ""))
            self._refuse_undisclosed()
            self._cancel(list(self._due), self._trouble)
            due = []
        undisclosed, self._undisclosed = self._undisclosed, []
        for outcome, decided, finished in undisclosed:
            decided(outcome)
            if outcome.finished:
                finished(outcome)
        for pulse in due:
            self._handed[pulse.id] = pulse
            self._device.deliver(pulse)

    def _take_due(self, now: int) -> list[Pulse]:
        """Take the pulses that are due before the next block; drop those whose latest frame has passed."""
        horizon = now + self.info.block_frames + self.info.lead_frames
        due: list[Pulse] = []
        fates: list[Fate] = []
        while self._due and self._due[0][0] <= horizon:
            pulse = heapq.heappop(self._due)[2]
            if pulse.not_after < now:
                fates.append((pulse.id, "dropped", None, "the engine came too late for its latest frame"))
            else:
                due.append(pulse)
        self._finish(fates)
        return due

    def _refuse_undisclosed(self) -> None:
        """What could not be committed was never accepted, and its pulses have no fate: the ledger knows of none."""
        never: set[int] = set()
        for outcome, _, _ in self._undisclosed:
            for pulse in outcome.pulses:
                self._outcomes.pop(pulse.id, None)
                never.add(pulse.id)
            outcome.pulses = []
            outcome.decision = StimulationDecision(False, (*outcome.decision.reasons, Reason("ledger", self._trouble)))
        self._due = [entry for entry in self._due if entry[1] not in never]
        self._unsure = [fate for fate in self._unsure if fate[0] not in never]

    def _stop_if_ordered(self) -> None:
        """Obey the brake (A9): end every lease, cancel every waiting pulse, and confirm when none is with the array."""
        if self._brake.take():
            self._leases.drop_all()
            self._cancel(list(self._due), self._brake.why or "stimulation was stopped")
        if not self._handed:
            self._brake.confirm()

    def _end_leases(self, ended: Sequence[Lease], why: str) -> None:
        """Cancel every waiting pulse of these leases (N3)."""
        if ended:
            names = {lease.id for lease in ended}
            self._cancel([entry for entry in self._due if entry[3] in names], why)

    def _cancel(self, entries: Sequence[tuple[int, int, Pulse, str]], why: str) -> None:
        if entries:
            gone = {entry[1] for entry in entries}
            self._due = [entry for entry in self._due if entry[1] not in gone]
            heapq.heapify(self._due)
            self._finish([(number, "cancelled", None, why) for number in sorted(gone)])

    def _finish(self, fates: Sequence[Fate]) -> None:
        """Record the last states of pulses, and notify the clients whose last pulse this was."""
        if not fates:
            return
        self._unsure += fates
        self._write(lambda: self._ledger.fates(fates))
        for number, state, frame, _ in fates:
            known = self._outcomes.pop(number, None)
            if known is None:
                continue
            outcome, finished = known
            outcome.fates[number] = (state, frame)
            if outcome.finished:
                finished(outcome)

    def _every_second(self, now: int) -> None:
        """Read impedances, forget old bookings, end pulses that the array never confirmed, try a failed ledger again."""
        self._next_second = now + round(self.info.sample_rate_hz)
        self._impedances = self._device.impedances()
        self._bookings.forget_before(now)
        self.permit = permit(self._tissue, now / self.info.sample_rate_hz / DAY_S)
        self.load = load(self._bookings, self._monitor, self.envelope)
        late = now - round(self.info.sample_rate_hz)
        silent = [number for number, pulse in self._handed.items() if pulse.not_after < late]
        for number in silent:
            del self._handed[number]
        self._finish([(number, "unknown", None, "the array never confirmed it") for number in silent])
        if self._trouble:
            self._trouble = ""
            self._write(lambda: self._ledger.fates(self._unsure))
            self._commit()

    def _write(self, write: Callable[[], None]) -> bool:
        """Write to the ledger; when that fails nothing may be stimulated any more."""
        if self._trouble:
            return False
        try:
            write()
        except sqlite3.Error as error:
            self._in_trouble(error)
            return False
        return True

    def _commit(self) -> bool:
        if self._trouble:
            return False
        try:
            self._ledger.commit()
        except sqlite3.Error as error:
            self._in_trouble(error)
            return False
        self._unsure.clear()
        return True

    def _in_trouble(self, error: sqlite3.Error) -> None:
        self._trouble = (
            f"the stimulation ledger {self._ledger.path.name} cannot be written ({error});"
            " likely cause: the disk is full or the file is locked; stimulation is refused until it can be"
            " written again"
        )
        self._ledger.abandon()


def _ignore_outcome(_: StimulationOutcome) -> None:
    """Ignore the outcome: a reflex looks at the spikes and not at the answer."""
