"""Hand what the core sees to the writer: frames, spikes, states, stimulation, events and the clock. It never waits.

All of it happens on the real-time thread, after the core has done its step. When the buffer is full, what comes is left out
until half of the buffer is free again, and the recording gets a gap that says so, before anything later. Messages that are
not frames have an eighth of the buffer to themselves, so that a gap can always be recorded, and stimulation is not lost with
the frames. The stimulation ledger has it in any case.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.core.version import software_version
from nerves import detector, kernels
from nerves.cards.contract import CardFault, Delivery, FrameBlock, Phase, Pulse
from nerves.core import Core
from nerves.detections import Blank, Spikes
from nerves.detector import ElectrodeState, MuteCause
from nerves.events import EventKind
from nerves.governor import Request, StimulationDecision
from nerves.ledger import State, phases_of, readable
from nerves.recording.handover import HandoverSender
from nerves.recording.layout import (
    NO_FRAME,
    TABLE_NAMES,
    TABLES,
    FateCode,
    GapCause,
    MessageKind,
    RecordingPlan,
    log_line,
)

RESUME_FILL = 0.5
"""After a loss, frames are recorded again when the buffer is at most this full."""
STATES_S = 0.01
CLOCK_S = 1.0
AFTER_LEASES_S = 2.0
"""An automatic recording goes on for this time after the last lease has ended."""
RETRY_S = 60.0
"""Pause before an automatic recording that was refused, or ended by itself, is tried again."""


@dataclass(frozen=True, slots=True)
class RecordingOrder:
    """Begin a recording of this `name`, or end the present one where it is empty. `why` is for the record."""

    name: str
    requester: str
    why: str
    trigger: str = "manual"


@dataclass(slots=True)
class _Open:
    """The recording that is fed now."""

    name: str
    trigger: str
    expected: int | None = None
    lost_from: int | None = None
    states: NDArray[np.int8] | None = None
    impedances: tuple[float | None, ...] = ()
    leases: tuple[str, ...] | None = None
    faults: tuple[CardFault, ...] = ()
    next_states: int = 0
    next_clock: int = 0
    after: int = 0
    """Frame at which an automatic recording ends; 0 while there is a lease."""
    told: int = 0
    """Number of the latest event that is recorded."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request whose pulses have not all begun or ended: its line of the log, and the rows of those pulses by number."""

    frame: int
    values: dict[str, Any]
    rows: dict[int, tuple[int, ...]]


class RecordingTap:
    """Feeds the writer. `take` is called by the real-time thread with each block; the rest from any thread."""

    def __init__(self, core: Core, plan: RecordingPlan, utc_us: Callable[[], int], utc_text: Callable[[], str]) -> None:
        """`utc_us` gives UTC in µs since 1970, `utc_text` as text."""
        self._core = core
        self._plan = plan
        self._utc_us = utc_us
        self._utc_text = utc_text
        self._orders: deque[RecordingOrder | HandoverSender | None] = deque()
        self._alarms: deque[str] = deque()
        self._sender: HandoverSender | None = None
        self._open: _Open | None = None
        self._not_before = 0
        self._asked: dict[int, _Asked] = {}
        """Requests with pulses that are still to come, by their decision: a recording that begins has them too."""
        self._decision_of: dict[int, int] = {}
        """The decision of each of those pulses."""
        self._rate = core.info.sample_rate_hz
        core.watch_stimulation(self)

    @property
    def name(self) -> str:
        """The recording that is fed now; empty without one."""
        return self._open.name if self._open else ""

    @property
    def fill(self) -> float:
        """Share of the buffer that waits for the writer."""
        return self._sender.fill if self._sender else 0.0

    def order(self, order: RecordingOrder) -> None:
        """Begin or end a recording with the next block."""
        self._orders.append(order)

    def connect(self, sender: HandoverSender | None) -> None:
        """Use the writer that is ready now; None when it has died."""
        self._orders.append(sender)

    def alarm(self, text: str) -> None:
        """Report an alarm of the recording with the next block."""
        self._alarms.append(text)

    def ended(self, name: str) -> None:
        """Take note that the writer has refused or ended a recording by itself."""
        self._orders.append(RecordingOrder("", "", name, trigger="writer"))

    def take(self, block: FrameBlock, spikes: Spikes) -> None:
        """Take in one block, after the core's step."""
        while self._alarms:
            self._core.events.add(EventKind.ALARM, self._core.next_frame, self._alarms.popleft())
        while self._orders:
            self._obey(self._orders.popleft(), block.first_frame)
        if self._plan.automatic != "never" and self._sender is not None:
            self._follow(block.first_frame)
        if self._open is not None and self._sender is not None:
            self._note_replayed([each for each in block.deliveries if each.pulse.id < 0])
            if block.faults != self._open.faults:
                self._open.faults = block.faults
                faults = [
                    {"state": each.state.value, "electrodes": each.electrodes, "text": each.text}
                    for each in block.faults
                ]
                self._log("faults", block.first_frame, faults=faults)
            self._hand_over(self._open, self._sender, block, spikes)

    def _note_replayed(self, deliveries: Sequence[Delivery]) -> None:
        """Record the pulses of a recording that is replayed: those of one frame and waveform as one request of the replay.

        Their numbers follow from frame and electrode: a replay that begins again reports the same pulses again.
        """
        together: dict[tuple[int, tuple[Phase, ...]], list[Pulse]] = {}
        for each in deliveries:
            together.setdefault((each.pulse.at_frame, each.pulse.phases), []).append(each.pulse)
        for (frame, phases), pulses in together.items():
            numbers = [-1 - frame * self._core.info.electrodes - each.electrode for each in pulses]
            charge_nc = sum(abs(phase.charge_nc) for phase in phases)
            said = {"requester": "replay", "purpose": "delivered in the recording", "charge_nc": charge_nc}
            waveform = [(phase.duration_us, phase.current_ua) for phase in phases]
            self._log("stimulation", frame, decision=numbers[0], phases=waveform, **said)
            numbered = list(zip(numbers, pulses, strict=True))
            self._table("pulses", [(number, numbers[0], p.electrode, frame, frame) for number, p in numbered])
            self._table("fates", [(number, FateCode.DELIVERED, frame) for number in numbers])

    def decided(
        self, number: int, frame: int, request: Request, decision: StimulationDecision, pulses: Sequence[Pulse]
    ) -> None:
        """Record a request and its decision (called by the ledger when it is committed)."""
        values = {
            "requester": request.requester,
            "lease": request.lease,
            "purpose": request.purpose,
            "electrodes": list(request.electrodes[:1024]),
            "phases": phases_of(request),
            "at_frame": request.at_frame,
            "pulses": request.pulses,
            "period_frames": request.period_frames,
            "accepted": decision.accepted,
            "reasons": [reason.text for reason in decision.reasons],
            "limiting": decision.limiting,
            "charge_nc": readable(decision.charge_nc),
        }
        asked = _Asked(frame, values, {p.id: (p.id, number, p.electrode, p.at_frame, p.not_after) for p in pulses})
        if pulses:
            self._asked[number] = asked
            self._decision_of |= dict.fromkeys(asked.rows, number)
        if self._open is not None:
            self._note_asked(number, asked)

    def _note_asked(self, number: int, asked: _Asked) -> None:
        """Record a request and its pulses."""
        self._log("stimulation", asked.frame, decision=number, **asked.values)
        self._table("pulses", list(asked.rows.values()))

    def fates(self, rows: Sequence[tuple[int, State, int | None, str]]) -> None:
        """Record what became of pulses (called by the ledger when it is committed)."""
        for pulse in [pulse for pulse, state, _, _ in rows if state not in ("planned", "handed")]:
            number = self._decision_of.pop(pulse, None)
            if number is not None:
                del self._asked[number].rows[pulse]
                if not self._asked[number].rows:
                    del self._asked[number]
        if self._open is not None:
            self._table(
                "fates",
                [
                    (pulse, FateCode[state.upper()], NO_FRAME if frame is None else frame)
                    for pulse, state, frame, _ in rows
                ],
            )

    def blanked(self, blanks: Sequence[Blank]) -> None:
        """Record blanked time (called by the ledger when it is committed)."""
        if self._open is not None:
            self._table("blanks", [(b.first_frame, b.end_frame, b.electrode) for b in blanks])

    def close(self, why: str) -> None:
        """End the recording; the real-time thread has ended."""
        if self._open is not None and self._sender is not None:
            self._end(self._open, self._sender, why, self._core.next_frame)

    def _obey(self, order: RecordingOrder | HandoverSender | None, frame: int) -> None:
        if not isinstance(order, RecordingOrder):
            self._sender, self._open = order, None
        elif order.name:
            if self._sender is not None:
                self._begin(order, self._sender, frame)
        elif self._open is not None and order.trigger != "writer" and self._sender is not None:
            self._end(self._open, self._sender, order.why, frame)
            self._not_before = frame + round(RETRY_S * self._rate)
        elif self._open is not None and self._open.name == order.why:
            self._open = None
            self._not_before = frame + round(RETRY_S * self._rate)

    def _follow(self, now: int) -> None:
        """Begin and end automatic recordings."""
        leases = self._core.living_leases()
        wanted = self._plan.automatic == "always" or bool(leases)
        if self._open is None:
            if wanted and now >= self._not_before and self._sender is not None:
                who = leases[0].requester if leases and self._plan.automatic == "leases" else "automatic"
                name = f"{self._utc_text().translate(_NAME)}-{who}"
                self._begin(RecordingOrder(name, who, "automatic", self._plan.automatic), self._sender, now)
            return
        if self._open.trigger != "leases":
            return
        if leases:
            self._open.after = 0
        elif not self._open.after:
            self._open.after = now + round(AFTER_LEASES_S * self._rate)
        elif now >= self._open.after and self._sender is not None:
            self._end(self._open, self._sender, "the last lease has ended", now)

    def _begin(self, order: RecordingOrder, sender: HandoverSender, frame: int) -> None:
        if self._open is not None:
            self._end(self._open, sender, "another recording began", frame)
        attributes = _attributes(self._core, self._plan, order, self._utc_text(), frame)
        said = {"name": order.name, "plan": {**self._plan.as_dict(), "identity": {}}, "attributes": attributes}
        if sender.put(MessageKind.OPEN, frame, json.dumps(said).encode(), urgent=True):
            self._open = _Open(order.name, order.trigger, told=self._core.events.last)
            for number, asked in self._asked.items():
                self._note_asked(number, asked)
        else:
            self._not_before = frame + round(RETRY_S * self._rate)
            self._alarms.append(f"the recording {order.name} could not begin: the writer is behind; try again")

    def _end(self, open_: _Open, sender: HandoverSender, why: str, frame: int) -> None:
        if len(still := self._core.unobserved_now()):
            self._rows("unobserved", still)
        if open_.lost_from is not None:
            sender.put(MessageKind.GAP, open_.lost_from, count=frame, extra=GapCause.WRITER, urgent=True)
        if not sender.put(MessageKind.CLOSE, frame, why.encode(), urgent=True):
            self._alarms.append(f"the recording {open_.name} was not closed properly: the writer does not keep up")
        sender.ring()
        self._open = None

    def _hand_over(self, open_: _Open, sender: HandoverSender, block: FrameBlock, spikes: Spikes) -> None:
        first, end = block.first_frame, block.first_frame + len(block.samples)
        if first == end:
            return  # a sign of life of a card that waits for its hardware
        if open_.lost_from is not None and not self._resume(open_, sender, first):
            return
        taken = True
        if open_.expected is not None and first > open_.expected:
            taken = sender.put(MessageKind.GAP, open_.expected, count=first, extra=GapCause.ARRAY, urgent=True)
        if taken and len(spikes):
            columns = {"frame": spikes.frames, "electrode": spikes.electrodes, "uv": spikes.uv}
            taken = self._rows("spikes", _rows_of("spikes", columns, len(spikes)))
        if taken:
            samples = block.samples if self._plan.frames else _NOTHING
            taken = sender.put(MessageKind.FRAMES, first, samples, count=len(block.samples))
        if not taken:
            open_.lost_from = first if open_.expected is None else min(first, open_.expected)
            self._core.events.add(
                EventKind.ALARM,
                first,
                f"the recording {open_.name} loses frames from {first} on: the writer does not keep up; likely cause: the"
                " disk is full or slow, or the machine is overloaded",
            )
            return
        open_.expected = end
        self._follow_core(open_, end)
        if end >= open_.next_clock:
            open_.next_clock = end + round(CLOCK_S * self._rate)
            self._table("clock", [(end, self._utc_us())])
            self._note_impedances(open_, end)
            sender.ring()

    def _resume(self, open_: _Open, sender: HandoverSender, first: int) -> bool:
        """Record a loss that is over; return whether it is."""
        assert open_.lost_from is not None  # noqa: S101
        if sender.fill > RESUME_FILL:
            return False
        if not sender.put(MessageKind.GAP, open_.lost_from, count=first, extra=GapCause.WRITER, urgent=True):
            return False
        self._core.events.add(
            EventKind.ALARM,
            open_.lost_from,
            f"the recording {open_.name} has a gap from frame {open_.lost_from} to {first} (not included)",
            end_frame=first,
        )
        open_.expected, open_.lost_from, open_.states = first, None, None
        return True

    def _follow_core(self, open_: _Open, end: int) -> None:
        """Record changed states, stretches without detection, leases and events."""
        if len(self._core.unobserved):
            self._rows("unobserved", self._core.unobserved)
        if end >= open_.next_states:
            open_.next_states = end + round(STATES_S * self._rate)
            states = self._core.electrode_states
            states[states == ElectrodeState.BLANKED] = ElectrodeState.OK
            changed = np.arange(len(states)) if open_.states is None else np.flatnonzero(states != open_.states)
            if len(changed):
                columns = {"frame": end, "electrode": changed, "state": states[changed]}
                self._rows("states", _rows_of("states", columns, len(changed)))
                open_.states = states
        if self._core.events.last != open_.told:
            _, events, open_.told = self._core.events.read(open_.told, None)
            for event in events:
                said = {**asdict(event), "event": event.kind.value}
                del said["kind"], said["frame"]
                self._log("event", event.frame, **said)
        leases = self._core.living_leases()
        names = tuple(lease.id for lease in leases)
        if names != open_.leases:
            open_.leases = names
            held = [
                {"lease": each.id, "requester": each.requester, "electrodes": sorted(each.electrodes)}
                for each in leases
            ]
            self._log("leases", end, held=held)

    def _note_impedances(self, open_: _Open, end: int) -> None:
        impedances = self._core.impedances()
        if impedances != open_.impedances:
            open_.impedances = impedances
            self._table("impedances", [(end, e, np.nan if z is None else z) for e, z in enumerate(impedances)])

    def _table(self, name: str, rows: list[tuple[Any, ...]]) -> bool:
        return self._rows(name, np.array(rows, TABLES[name])) if rows else True

    def _rows(self, name: str, rows: NDArray[Any]) -> bool:
        """Hand rows of a table over; a loss is reported once with the frames."""
        assert self._sender is not None  # noqa: S101
        return self._sender.put(
            MessageKind.TABLE, 0, rows.view(np.uint8), count=len(rows), extra=TABLE_NAMES.index(name), urgent=True
        )

    def _log(self, kind: str, frame: int, **values: Any) -> None:
        if self._sender is not None:
            self._sender.put(MessageKind.LOG, frame, log_line(kind, frame, **values), urgent=True)


_NAME = str.maketrans("", "", "-:.")
_NOTHING = np.empty(0, np.int16)


def _rows_of(table: str, columns: dict[str, Any], count: int) -> NDArray[Any]:
    rows = np.zeros(count, TABLES[table])
    for name, values in columns.items():
        rows[name] = values
    return rows


def _attributes(core: Core, plan: RecordingPlan, order: RecordingOrder, utc: str, frame: int) -> dict[str, Any]:
    """Return the metadata of a recording that begins."""
    info = core.info
    return {
        "name": order.name,
        "software": f"Choroid {software_version()}",
        "started_utc": utc,
        "first_frame": frame,
        "requester": order.requester,
        "reason": order.why,
        "trigger": order.trigger,
        "leases": [
            {"lease": each.id, "requester": each.requester, "electrodes": sorted(each.electrodes)}
            for each in core.living_leases()
        ],
        "ledger_session": core.session,
        "sampling_frequency": info.sample_rate_hz,
        "array": {name: value for name, value in asdict(info).items() if name != "geometry"},
        **({} if info.geometry is None else {"probegroup": info.geometry.probegroup()}),
        "filter": {
            "frames": "none: raw samples of the converter",
            "spikes": {
                "long_mean_s": detector.LINEAR_PHASE.long_s,
                "short_mean_s": detector.LINEAR_PHASE.short_s,
                "threshold_sigma": -kernels.THRESHOLD_SIGMA,
                "refractory_s": detector.REFRACTORY_S,
                "latency_frames": core.detector_latency_frames,
            },
        },
        "mute_causes": {cause.name.lower(): int(cause) for cause in MuteCause},
        "states": {state.name.lower(): int(state) for state in ElectrodeState},
        "fates": {fate.name.lower(): int(fate) for fate in FateCode},
        "gap_causes": {cause.name.lower(): int(cause) for cause in GapCause},
        "impedance_kohm": list(core.impedances()),
        "identity": plan.identity,
        "includes_frames": plan.frames,
    }
