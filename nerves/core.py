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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf

import numpy as np
from numpy.typing import NDArray

from nerves.bookings import Bookings
from nerves.brake import Brake
from nerves.budgets import BudgetUse, budgets_used
from nerves.card_watch import CardWatch
from nerves.cards.contract import CardFault, Delivery, ElectrodeCard, FrameBlock, Pulse, data_sheet, hand_over
from nerves.commands import (
    Busy,
    Command,
    CutOffCommand,
    LeaseCommand,
    RevokeCommand,
    StimulateCommand,
    StimulationOutcome,
    ends_something,
)
from nerves.deliveries import stimulated_frames
from nerves.detections import Spikes, StimulatedFrame
from nerves.detector import Detection, ElectrodeState, MuteCause, SpikeDetector
from nerves.envelope import Envelope
from nerves.events import EventKind, EventLog
from nerves.governor import GovernorView, Reason, Request, StimulationDecision, book, decide
from nerves.leases import SILENCE_S, UNHELD_AHEAD_S, Lease, LeaseRefused, Leases, random_id
from nerves.ledger import Fate, StimulationLedger, StimulationWatcher
from nerves.mutes import NOTHING, MuteLog
from nerves.permit import DAY_S, Permit, Tissue, permit
from nerves.rates import ACTIVE_HZ, FiringRates
from nerves.recorder import LedgerRecorder
from nerves.reflexes import LAG_S, WAIT_S, UploadedReflexes
from nerves.repeats import KeyReused, Repeats
from nerves.reporter import DETECTED, Reporter
from nerves.responses import LatestResponses
from nerves.ring import FrameRing, Gap, SpikeRing
from nerves.welfare import MIN_OBSERVED, ResponseMonitor, StimulationLoad, load

logger = logging.getLogger(__name__)

HISTORY_S = 5.0
SPIKES_KEPT = 65_536
MAX_WAITING = 1024
"""Commands waiting for the next block; more are turned away unread."""


_NO_SPIKES = Spikes(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))


@dataclass(frozen=True, slots=True)
class Firing:
    """Firing over the last seconds: rates by electrode in Hz, and what the figures rest on.

    `observed` is the number of electrodes on which spikes could be detected; `active` and the mean are of these only.
    """

    frame: int
    rates_hz: tuple[float, ...]
    noise_uv: tuple[float, ...]
    states: tuple[ElectrodeState, ...]
    observed: int
    active: int
    mean_active_hz: float
    muted_s: Mapping[str, tuple[float, ...]]
    """Time since the start (s) in which nothing could be detected, by cause and electrode; `watched_s` is the whole time."""
    watched_s: float
    artefacts: int
    """Crossings rejected as artefacts."""


Waiting = tuple[int, int, tuple[Pulse, ...], str]
"""Pulses that begin together and wait for their frame: the frame, the number of the first, all of them, and their lease."""
Reflex = Callable[[Spikes, int], Sequence[Request]]
"""A closed loop inside the engine: sees each block's spikes and the next frame, may ask for stimulation at
once.
"""


class Core:
    """The engine between the array and the gRPC service. One thread calls `step`; other threads may read the rings."""

    def __init__(
        self,
        card: ElectrodeCard,
        ledger: StimulationLedger,
        envelope: Envelope,
        tissue: Tissue | None = None,
        brake: Brake | None = None,
        new_lease_id: Callable[[], str] = random_id,
        reflex_wait_s: float = WAIT_S,
        detection: Detection | None = None,
    ) -> None:
        info = data_sheet(card)
        self.info = info
        self.envelope = envelope
        self.frames = FrameRing(round(HISTORY_S * info.sample_rate_hz), info.electrodes)
        self.spikes = SpikeRing(SPIKES_KEPT)
        self.reflexes: list[Reflex] = []
        self.delivered = 0
        self.charge_nc = 0.0
        self.gaps = 0
        self.lost_frames = 0
        self._card = card
        self._ledger = ledger
        self._record = LedgerRecorder(ledger)
        detection = detection or Detection()
        self._detector = self._reflex_detector = SpikeDetector(
            info.electrodes, info.sample_rate_hz, info.uv_per_unit, detection=detection
        )
        if detection.reflex_filter is not None:
            self._reflex_detector = SpikeDetector(
                info.electrodes,
                info.sample_rate_hz,
                info.uv_per_unit,
                detection=replace(detection, filter=detection.reflex_filter),
            )
        self._detectors = tuple(dict.fromkeys((self._detector, self._reflex_detector)))
        self._unobserved = self._detector.unobserved_frames
        self._mutes = MuteLog(self._detector, info.electrodes)
        self.unobserved = NOTHING
        """Stretches without detection that have ended with the last block, rows of `UNOBSERVED`; real-time thread only."""
        self.responses = LatestResponses(
            self.spikes, info.sample_rate_hz, self._detector.latency_frames, self.unobserved_now
        )
        """Spikes around the latest pulses; may be asked from any thread."""
        self._watched_frames = 0
        self._rates = FiringRates(info.electrodes, info.sample_rate_hz)
        self._leases = Leases(info.electrodes, info.sample_rate_hz, session=ledger.session, new_id=new_lease_id)
        self.events = EventLog(ledger.session)
        self.events.add(EventKind.ENGINE_STARTED, 0, "the engine has started; earlier leases and pulses are gone")
        self.uploaded = UploadedReflexes(self.events, reflex_wait_s)
        self._repeats = Repeats(ledger)
        self._bookings = Bookings(info.sample_rate_hz, envelope.rest_s)
        self._monitor = ResponseMonitor(info.sample_rate_hz, envelope.rest_s)
        self._watch = CardWatch(self.events, info.electrodes, info.sample_rate_hz)
        self._impedances = card.impedances()
        self._commands: deque[Command] = deque()
        self._due: list[Waiting] = []
        self._handed: dict[int, Pulse] = {}
        self._outcomes: dict[int, StimulationOutcome] = {}
        self._undisclosed: list[tuple[StimulationOutcome, StimulateCommand]] = []
        self._next_frame: int | None = None
        self._next_second = 0
        self._observed = 1.0
        self._brake = brake or Brake()
        if self._brake.why:
            self.events.add(EventKind.STIMULATION_STOPPED, 0, self._brake.why)
        past = ledger.past(info.sample_rate_hz)
        self._bookings.restore(past.pulses, past.seconds, past.minutes, past.stretches, past.restarts)
        self._tissue = tissue or Tissue()
        self.permit: Permit = permit(self._tissue, 0.0)
        """What age and review of the organoid allow now."""
        self._reporter = Reporter(self.events, self.permit)
        self.load: StimulationLoad = load(self._bookings, self._monitor, envelope)
        """What stimulation weighs on the tissue, as of the last second."""
        self.budgets: tuple[BudgetUse, ...] = budgets_used(self._bookings, envelope)
        """Use of the budgets, as of the last second."""

    @property
    def next_frame(self) -> int:
        """The first frame not yet read."""
        return self._next_frame or 0

    @property
    def pending(self) -> int:
        """Pulses accepted whose fate is not known yet."""
        return len(self._outcomes)

    @property
    def leases(self) -> int:
        """Living leases."""
        return len(self._leases)

    @property
    def session(self) -> int:
        """Number of this run of the engine in the stimulation ledger."""
        return self._ledger.session

    @property
    def electrode_states(self) -> NDArray[np.int8]:
        """State of each electrode as of the last frame, as a copy; real-time thread only."""
        return self._detector.states

    def unobserved_now(self) -> NDArray[np.void]:
        """Return the stretches without detection that have not ended yet (from another thread, one block apart)."""
        return self._mutes.open(self.next_frame)

    @property
    def detector_latency_frames(self) -> int:
        """Frames from a spike to the frame in which it is reported."""
        return self._detector.latency_frames

    @property
    def reflex_latency_frames(self) -> int:
        """Frames from a spike to the frame in which reflexes see it."""
        return self._reflex_detector.latency_frames

    def watch_stimulation(self, watcher: StimulationWatcher) -> None:
        """Have `watcher` receive what the stimulation ledger commits from now on."""
        self._ledger.watcher = watcher

    def leases_of(self, requester: str) -> int:
        """Return the living leases of a requester; from any thread."""
        return self._leases.count(requester)

    def living_leases(self, requester: str | None = None) -> list[Lease]:
        """Return the living leases of a requester, or of all; from any thread."""
        return self._leases.living(requester)

    @property
    def card_faults(self) -> tuple[CardFault, ...]:
        """What of the electrode card does not work at present; from any thread."""
        return self._watch.faults

    @property
    def trouble(self) -> str:
        """Why no stimulation is possible now; empty when it is."""
        only_records = "" if self.info.stimulates else f"{self.info.name} cannot stimulate: it only records"
        return self._brake.why or self._record.trouble or self._watch.trouble or only_records or self._deaf

    @property
    def _deaf(self) -> str:
        """Why no response could be seen; empty when enough electrodes are observed."""
        if self._observed >= MIN_OBSERVED:
            return ""
        return (
            f"array {self.info.name}: spikes can be detected on {self._observed:.0%} of the electrodes only, so a lost"
            " response could go unnoticed; likely cause: the array is unplugged, or its amplifier is saturated or very noisy;"
            " next: see the states of the channels"
        )

    def submit(self, command: Command) -> None:
        """Leave a command for the next step; from any thread. Raises :class:`Busy` when too many wait."""
        if len(self._commands) >= MAX_WAITING and not ends_something(command):
            raise Busy(f"{MAX_WAITING} commands wait already; ask again in some milliseconds")
        self._commands.append(command)

    def firing(self) -> Firing:
        """Return the rates and noise of this moment; may be called from any thread (figures may be one block apart)."""
        rates = self._rates.rates_hz()
        observed = self._rates.observed()
        active = rates[observed & (rates >= ACTIVE_HZ)]
        muted_s = self._detector.muted_frames / self.info.sample_rate_hz
        return Firing(
            frame=self.next_frame,
            rates_hz=tuple(rates.tolist()),
            noise_uv=tuple(self._detector.noise_uv.tolist()),
            states=tuple(ElectrodeState(state) for state in self._detector.states.tolist()),
            observed=int(observed.sum()),
            active=int(active.size),
            mean_active_hz=float(active.mean()) if active.size else 0.0,
            muted_s={cause.name: tuple(muted_s[cause].tolist()) for cause in MuteCause},
            watched_s=self._watched_frames / self.info.sample_rate_hz,
            artefacts=self._detector.artefacts,
        )

    def observed_electrodes(self) -> NDArray[np.bool_]:
        """Return on which electrodes spikes could be detected over the last seconds; from any thread."""
        return self._rates.observed()

    def impedances(self) -> tuple[float | None, ...]:
        """Return the latest impedances (kΩ)."""
        return tuple(None if z is None else z.kohm for z in self._impedances)

    def step(self, block: FrameBlock) -> Spikes:
        """Take in one block and do everything that is due; returns its spikes.

        Raises ValueError when the array's frames run backwards.
        """
        self._heed_faults(block)
        spikes, seen = self._observe(block) if len(block.samples) else (_NO_SPIKES, _NO_SPIKES)
        now = self.next_frame
        self._confirm(block.deliveries)
        starts = sorted(delivery.frame for delivery in block.deliveries if delivery.frame is not None)
        self._monitor.note(starts, spikes.frames, now - self._detector.latency_frames, self._observed)
        self._stop_if_ordered()
        self._end_leases(self._leases.expire(now), "the lease ended")
        self._withdraw(self.trouble or ("the tissue hardly answers any more" if self._monitor.lost else ""))
        self.uploaded.begin(seen, now, self._leases, behind=self._is_behind(now))
        if now >= self._next_second:
            self._every_second(now)
        while self._commands:
            self._obey(self._commands.popleft(), now)
        for reflex in self.reflexes:
            for request in reflex(seen, now):
                self._decide(StimulateCommand(request, _ignore_outcome, _ignore_outcome, lambda: False), now)
        for command in self.uploaded.commands(now):
            self._decide(command, now)
        self._hand_over(now)
        return spikes

    def _is_behind(self, now: int) -> bool:
        """Return whether the array is so far ahead that no block may wait for the graphs of uploaded reflexes."""
        lag = max(2 * self.info.block_frames, round(LAG_S * self.info.sample_rate_hz))
        return len(self.uploaded) > 0 and self._card.now_frame() - now > lag

    def _observe(self, block: FrameBlock) -> tuple[Spikes, Spikes]:
        """Detect the spikes of a block, and keep both. Return the spikes, and those that reflexes see."""
        self._take_gap(block)
        stimulated = self._blank(block)
        spikes = seen = self._detector.process(block.samples, block.first_frame)
        if self._reflex_detector is not self._detector:
            seen = self._reflex_detector.process(block.samples, block.first_frame)
        unobserved = self._detector.unobserved_frames
        self._rates.add(block.first_frame, len(block.samples), spikes, unobserved - self._unobserved)
        self._unobserved = unobserved
        self._watched_frames += len(block.samples)
        end = block.first_frame + len(block.samples)
        self.unobserved = self._mutes.take(block.first_frame, end)
        self.responses.add(stimulated, self.unobserved, end)
        self.frames.append(block.first_frame, block.samples)
        self.spikes.append(spikes)
        self._next_frame = block.first_frame + len(block.samples)
        return spikes, seen

    def _heed_faults(self, block: FrameBlock) -> None:
        """Mute electrodes whose hardware does not work; end all leases when none works."""
        if self._watch.note(block):
            self._impedances = self._watch.known(self._card.impedances())
            if self._watch.trouble:
                self._end_leases(self._leases.drop_all(), self._watch.trouble)

    def close(self) -> None:
        """Cancel what has not been handed over and let the array and the ledger go."""
        self._leases.drop_all()
        self.uploaded.close(self.next_frame)
        self._cancel(list(self._due), "the engine closed")
        self._record.commit()
        self._card.close()
        self._ledger.close()

    def _take_gap(self, block: FrameBlock) -> None:
        """Record frames that the array lost, restart the filter and end all leases (N3, N5)."""
        expected = self._next_frame
        if expected is None:
            self._restart(block.first_frame)
        elif block.first_frame < expected:
            raise ValueError(
                f"array {self.info.name}: frame {block.first_frame} came when {expected} was next;"
                " likely cause: the array was reset; next: restart the engine"
            )
        elif block.first_frame > expected:
            gap = Gap(expected, block.first_frame, "array")
            self.gaps += 1
            self.lost_frames += gap.end_frame - gap.first_frame
            self._restart(block.first_frame)
            self.responses.add_gap(expected, block.first_frame)
            self._record.write(lambda: self._ledger.lost(gap))
            why = "the array lost frames; how long it was silent is not known"
            self.events.add(EventKind.GAP, gap.first_frame, "the array lost frames", end_frame=gap.end_frame)
            self._end_leases(self._leases.drop_all(), why)

    def _blank(self, block: FrameBlock) -> list[StimulatedFrame]:
        """Blank the electrodes around each pulse that began in this block (N8); return the pulses."""
        blanks, stimulated = self._watch.mute(block), stimulated_frames(block.deliveries)
        for detector in self._detectors:
            detector.blank(blanks)
            held = detector.stimulated(stimulated)
            if held and detector is self._detector:
                self._record.write(partial(self._ledger.blanked, held))
        return stimulated

    def _restart(self, frame: int) -> None:
        """Begin detection again after a gap."""
        for detector in self._detectors:
            detector.restart(frame)

    def _confirm(self, deliveries: Sequence[Delivery]) -> None:
        """Record what the array says became of pulses, and notify their clients."""
        fates: list[Fate] = []
        for delivery in deliveries:
            pulse = delivery.pulse
            if self._handed.pop(pulse.id, None) is None:
                continue
            if delivery.frame is None:
                fates.append((pulse.id, "dropped", None, delivery.why))
            else:
                fates.append((pulse.id, "delivered", delivery.frame, ""))
                self.delivered += 1
                self.charge_nc += sum(abs(phase.charge_nc) for phase in pulse.phases)
        self._finish(fates)

    def _obey(self, command: Command, now: int) -> None:
        match command:
            case StimulateCommand():
                if not command.withdrawn():
                    self._decide(command, now)
            case LeaseCommand():
                self._change_lease(command, now)
            case CutOffCommand():
                self._cut_off(command)
            case RevokeCommand():
                self._end_leases(self._leases.revoke(command.requester), command.why)
                command.done()

    def _change_lease(self, command: LeaseCommand, now: int) -> None:
        who = command.requester
        try:
            if command.verb == "acquire":
                lease = self._leases.acquire(who, command.electrodes, command.ttl_s, now, held=command.held)
            elif command.verb == "renew":
                lease = self._leases.renew(command.lease, who, now)
            else:
                lease = self._leases.release(command.lease, who)
                self._end_leases([lease], command.why)
        except LeaseRefused as refused:
            command.answered(refused)
        else:
            command.answered(lease)

    def _cut_off(self, command: CutOffCommand) -> None:
        """Cancel the waiting pulses of a call that has ended, unless a heartbeat stands for them."""
        request, outcome = command.command.request, command.command.outcome
        lease = self._leases.find(request.lease, request.requester)
        if outcome is not None and not command.command.repeated and not (lease and lease.held):
            mine = {pulse.id for pulse in outcome.pulses}
            self._cancel([entry for entry in self._due if entry[1] in mine], "the call that asked for it was cut off")

    def _decide(self, command: StimulateCommand, now: int) -> None:
        """Put a request before the governor and its decision into the ledger; nothing is handed over yet."""
        request = command.request
        lease = self._leases.find(request.lease, request.requester)
        if lease is not None and request.tier == "remote":  # what runs in the engine is no sign of life of its agent
            self._leases.note_alive(lease, now)
        try:
            known = self._repeats.find(request)
        except (KeyReused, sqlite3.Error) as error:
            refused = StimulationDecision(False, (Reason("idempotency", str(error)),))
            self._undisclosed.append((StimulationOutcome(refused, now), command))
            return
        if known is not None:
            command.repeated = True
            self._undisclosed.append((known, command))
            return
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
            fence=lease.fence if lease else 0,
            ahead_s=inf if lease is None or lease.held or command.awaited else UNHELD_AHEAD_S,
        )
        try:
            decision = decide(request, view, self.envelope)
        except Exception as error:  # what the governor cannot judge must not stimulate
            logger.exception("the governor failed on %r", request)
            decision = StimulationDecision(
                False, (Reason("engine", f"the governor failed on it ({error!r}); this is a defect"),)
            )
        outcome = command.outcome = StimulationOutcome(decision, now)
        if self._record.write(lambda: self._note(request, outcome)):
            for first in range(0, len(outcome.pulses), len(request.electrodes) or 1):
                pulses = tuple(outcome.pulses[first : first + len(request.electrodes)])
                heapq.heappush(self._due, (pulses[0].at_frame, pulses[0].id, pulses, request.lease))
                self._outcomes |= dict.fromkeys((pulse.id for pulse in pulses), outcome)
            if decision.accepted:
                book(request, decision, self._bookings)
        else:
            outcome.decision = StimulationDecision(False, (*decision.reasons, Reason("ledger", self._record.trouble)))
        self._undisclosed.append((outcome, command))

    def _note(self, request: Request, outcome: StimulationOutcome) -> None:
        outcome.number, outcome.pulses = self._ledger.decided(request, outcome.decision, outcome.frame)
        self._repeats.keep(request, outcome)

    def _hand_over(self, now: int) -> None:
        """Commit what was decided, give the array the pulses that are due before the next block, and announce it."""
        due = self._take_due(now)
        handed: list[Fate] = [(pulse.id, "handed", None, "") for _, _, pulses, _ in due for pulse in pulses]
        if handed:
            self._record.write(lambda: self._ledger.fates(handed))
        if not self._record.commit():
            for entry in due:
                heapq.heappush(self._due, entry)
            self._refuse_undisclosed()
            self._cancel(list(self._due), self._record.trouble)
            due = []
        for _, _, pulses, _ in due:  # before the answers, which wake other threads
            self._handed |= {pulse.id: pulse for pulse in pulses}
            hand_over(self._card, pulses)
        undisclosed, self._undisclosed = self._undisclosed, []
        for outcome, command in undisclosed:
            command.decided(outcome)
            if outcome.finished:
                command.finished(outcome)
            else:
                outcome.listeners.append(command.finished)

    def _take_due(self, now: int) -> list[Waiting]:
        """Take the pulses that are due before the next block; drop those whose latest frame has passed."""
        horizon = now + self.info.block_frames + self.info.lead_frames
        due: list[Waiting] = []
        fates: list[Fate] = []
        while self._due and self._due[0][0] <= horizon:
            entry = heapq.heappop(self._due)
            _, _, pulses, lease = entry
            if self._leases.silent(lease, now):
                why = f"no heartbeat of its lease for {SILENCE_S * 1000:g} ms"
                fates += [(pulse.id, "cancelled", None, why) for pulse in pulses]
            elif pulses[0].not_after < now:
                why = "the engine came too late for its latest frame"
                fates += [(pulse.id, "dropped", None, why) for pulse in pulses]
            else:
                due.append(entry)
        self._finish(fates)
        return due

    def _refuse_undisclosed(self) -> None:
        """Refuse the requests whose decisions could not be committed to the ledger. Their pulses are forgotten: they never
        had a fate.
        """
        never: set[int] = set()
        outcomes = [outcome for outcome, command in self._undisclosed if not command.repeated]
        self._repeats.forget(outcomes)
        for outcome in outcomes:
            for pulse in outcome.pulses:
                self._outcomes.pop(pulse.id, None)
                never.add(pulse.id)
            outcome.pulses = []
            outcome.decision = StimulationDecision(
                False, (*outcome.decision.reasons, Reason("ledger", self._record.trouble))
            )
        self._due = [entry for entry in self._due if entry[1] not in never]
        self._record.forget(never)

    def _stop_if_ordered(self) -> None:
        """Obey the brake (A9): end every lease, cancel every waiting pulse, and confirm when none is with the array."""
        before = self._brake.why
        if self._brake.take():
            why = self._brake.why or "stimulation was stopped"
            self._end_leases(self._leases.drop_all(), why)
            self._cancel(list(self._due), why)
        if self._brake.why != before:
            kind = EventKind.STIMULATION_STOPPED if self._brake.why else EventKind.STIMULATION_ALLOWED
            self.events.add(kind, self.next_frame, self._brake.why)
        if not self._handed:
            self._brake.confirm()

    def _withdraw(self, why: str) -> None:
        """Cancel every waiting pulse for a reason that has come up since it was accepted; an empty one cancels none."""
        if why and self._due:
            self._cancel(list(self._due), why)

    def _end_leases(self, ended: Sequence[Lease], why: str) -> None:
        """Cancel every waiting pulse of these leases (N3), and tell their holders."""
        for lease in ended:
            electrodes = tuple(sorted(lease.electrodes))
            self.events.add(
                EventKind.LEASE_ENDED,
                self.next_frame,
                why,
                lease=lease.id,
                electrodes=electrodes,
                requester=lease.requester,
            )
        if ended:
            names = {lease.id for lease in ended}
            self._cancel([entry for entry in self._due if entry[3] in names], why)

    def _cancel(self, entries: Sequence[Waiting], why: str) -> None:
        if entries:
            gone = {entry[1] for entry in entries}
            self._due = [entry for entry in self._due if entry[1] not in gone]
            heapq.heapify(self._due)
            self._finish([(pulse.id, "cancelled", None, why) for entry in entries for pulse in entry[2]])

    def _finish(self, fates: Sequence[Fate]) -> None:
        """Record the last states of pulses, and notify the clients whose last pulse this was."""
        if not fates:
            return
        self._record.last_words(fates)
        for number, state, frame, why in fates:
            outcome = self._outcomes.pop(number, None)
            if outcome is None:
                continue
            outcome.fates[number] = (state, frame, why)
            if outcome.finished:
                listeners, outcome.listeners = outcome.listeners, []
                for listener in listeners:
                    listener(outcome)

    def _every_second(self, now: int) -> None:
        """Read impedances, forget old bookings, end pulses that the array never confirmed, try a failed ledger again."""
        self._next_second = now + round(self.info.sample_rate_hz)
        states = self._detector.states
        self._observed = float(np.isin(states, DETECTED).mean())
        self._impedances = self._watch.known(self._card.impedances())
        self._bookings.forget_before(now)
        self._record.try_again()
        before, self.permit = self.permit.level, permit(self._tissue, now / self.info.sample_rate_hz / DAY_S)
        if self.permit.level.charge_nc < before.charge_nc or self.permit.level.duty < before.duty:
            self._withdraw(f"less is allowed now: {self.permit.reason}")
        self.load = load(self._bookings, self._monitor, self.envelope)
        self.budgets = budgets_used(self._bookings, self.envelope)
        late = now - round(self.info.sample_rate_hz)
        silent = [number for number, pulse in self._handed.items() if pulse.not_after < late]
        for number in silent:
            del self._handed[number]
        self._finish([(number, "unknown", None, "the array never confirmed it") for number in silent])
        self._reporter.update(now, states, self.permit, self.load.response_lost, self._record.trouble)


def _ignore_outcome(_: StimulationOutcome) -> None:
    """Ignore the outcome: a reflex looks at the spikes and not at the answer."""
