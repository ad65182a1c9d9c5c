"""Uploaded reflexes: ONNX graphs of agents that close a loop inside the engine, each in its sandbox (docs/sandbox.md).

Each block of frames, a graph sees the spikes of the last blocks and may ask for pulses. Its request is like any
other: it needs its agent's lease, and passes governor and ledger. Whatever goes wrong with it, nothing is stimulated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from controller.sandbox.errors import ModelFailed
from controller.sandbox.wire import Port
from nerves.cards.contract import ArrayInfo, Phase
from nerves.commands import StimulateCommand, StimulationOutcome
from nerves.detections import Spikes
from nerves.envelope import UNLIMITED, AgentBudget
from nerves.events import EventKind, EventLog
from nerves.governor import Request
from nerves.leases import Leases

MAX_REFLEXES = 4
MAX_BINS = 1000
BIN_S = 1e-3
"""Length of a bin of the window that a reflex sees, where it does not declare one (s)."""
MAX_DESIGNS = 16
WAIT_S = 0.0005
"""Longest wait of a block for the answers of all reflexes (s of real time)."""

MAX_BIN_S = 1.0
"""Longest bin (s)."""

LAG_S = 0.002
"""Time by which the engine may be behind the array while graphs run (s), and at least two blocks: a wait would add to it."""

SILENT_S = 0.1
"""A reflex that gave no answer in time for this long, by the array's clock, is ended; unless it got no processor."""

RUNS = 0.5
"""Share of a processor from which on a silent reflex is not one that waits for a processor."""

REFUSED_PAUSE_S = 0.05
"""Pause of a reflex after a refusal, so that it cannot fill the ledger with refusals."""

SPIKES, PULSES, STATE, NEXT = "spikes", "pulses", "state", "next_"

Tensors = Mapping[str, NDArray[Any]]


class ReflexRefused(Exception):
    """The graph's inputs and outputs are not those of a reflex, or there is no place for it; the text says what to change."""


class RunningModel(Protocol):
    """Declares the methods of a model in its sandbox that a reflex calls."""

    @property
    def busy(self) -> bool:
        """Whether an answer is awaited."""
        ...

    def start(self, inputs: Tensors) -> None:
        """Begin a call."""
        ...

    def processor_share(self) -> float:
        """Return the share of a processor that it has used since the last call."""
        ...

    def result(self, within_s: float) -> Tensors | None:
        """Return its answer, or None if there is none within a time."""
        ...

    def kill(self, why: str) -> ModelFailed:
        """Kill the worker."""
        ...


@dataclass(frozen=True, slots=True)
class ReflexInterface:
    """Describes the inputs and outputs of a graph: the bins of its window, and its states with types and shapes."""

    bins: int
    states: Mapping[str, Port]


def interface_of(inputs: Sequence[Port], outputs: Sequence[Port], electrodes: int, designs: int) -> ReflexInterface:
    """Check the inputs and outputs of a graph.

    Args:
        inputs: `spikes`, float32 (bins, electrodes), and any `state…` of a fixed shape.
        outputs: `pulses`, float32 (designs, electrodes), and `next_state…` for each state.
        electrodes: Of the array.
        designs: Number of pulse designs that were uploaded with it.

    Raises:
        ReflexRefused: They are others.
    """
    given = {port.name: port for port in inputs}
    made = {port.name: port for port in outputs}
    if not 1 <= designs <= MAX_DESIGNS:
        raise ReflexRefused(f"give 1 to {MAX_DESIGNS} pulse designs, not {designs}")
    spikes = given.pop(SPIKES, None)
    shape = None if spikes is None else spikes.shape
    if spikes is None or spikes.dtype != "<f4" or shape is None or len(shape) != 2 or shape[1] != electrodes:
        raise ReflexRefused(f"the input “{SPIKES}” must be float32 of the shape (bins, {electrodes})")
    if shape[0] is None or not 1 <= shape[0] <= MAX_BINS:
        raise ReflexRefused(f"“{SPIKES}” must have a fixed number of bins from 1 to {MAX_BINS}")
    pulses = made.pop(PULSES, None)
    if pulses is None or pulses.dtype != "<f4" or pulses.shape not in ((designs, electrodes), (None, None)):
        raise ReflexRefused(f"the output “{PULSES}” must be float32 of the shape ({designs}, {electrodes})")
    for name, port in given.items():
        after = made.pop(NEXT + name, None)
        if not name.startswith(STATE) or port.shape is None or None in port.shape:
            raise ReflexRefused(f"the input “{name}” is none of a reflex: “{SPIKES}”, or “{STATE}…” of a fixed shape")
        if after is None or after.dtype != port.dtype:
            raise ReflexRefused(f"the state “{name}” needs an output “{NEXT}{name}” of the same type")
    if made:
        raise ReflexRefused(f"the output “{next(iter(made))}” is none of a reflex: “{PULSES}” or “{NEXT}{STATE}…”")
    return ReflexInterface(shape[0], given)


@dataclass(frozen=True, slots=True)
class ReflexTerms:
    """Under what a reflex stimulates: lease, requester and budget of its agent, its pulse designs, its shortest interval."""

    requester: str
    lease: str
    designs: tuple[tuple[Phase, ...], ...]
    fence: int = 0
    budget: AgentBudget = UNLIMITED
    purpose: str = ""
    min_interval_s: float = 0.005
    bin_frames: int = 0
    """Frames of a bin of its window, rounded up to whole blocks of the card; 0: those of :data:`BIN_S`."""


class UploadedReflex:
    """One graph at work. The real-time thread alone steps it; the counters may be read from any thread."""

    def __init__(
        self,
        model: RunningModel,
        interface: ReflexInterface,
        terms: ReflexTerms,
        info: ArrayInfo,
        ended: Callable[[str], None],
    ) -> None:
        """Prepare it.

        Args:
            model: The graph in its sandbox. It is closed by the caller, after `ended`.
            interface: What :func:`interface_of` found.
            terms: Under what it stimulates.
            info: The array.
            ended: Called once by the real-time thread, with the reason; it does not touch the model any more.
        """
        self.terms = terms
        self.ended = ended
        self.asked = self.blocks = self.calls = self.late = self.accepted = 0
        self.frames_per_second = round(info.sample_rate_hz)
        self._model = model
        self._info = info
        self._window = np.zeros((interface.bins, info.electrodes), np.float32)
        self._bin_frames = terms.bin_frames or round(BIN_S * info.sample_rate_hz)
        self._bin_ends: int | None = None
        """First frame after the bin that is being filled; None before the first block."""
        self._counted = np.zeros(info.electrodes, np.float32)
        """Spikes so far in that bin."""
        self._states = {
            name: np.zeros([size or 0 for size in port.shape or ()], port.dtype)
            for name, port in interface.states.items()
        }
        self._shape = (len(terms.designs), info.electrodes)
        self._answered: int | None = None
        self._watched = False
        """Whether it is measured how much of a processor a silent graph gets."""
        self._started = -1
        self._next_ask = 0

    def begin(self, spikes: Spikes, now: int, *, behind: bool = False) -> None:
        """Count the spikes of a block; when it ends a bin, move the window by one bin and start the graph on it.

        Args:
            spikes: Those of the block.
            now: First frame after the block.
            behind: Whether the engine is behind the array. The graph is not started then, which counts as late.

        Raises:
            ModelFailed: The graph failed, or gave no timely answer for too long although it could run.
        """
        if len(spikes):
            self._counted += np.bincount(spikes.electrodes, minlength=self._info.electrodes)
        if self._answered is None:
            self._answered = now
        self._bear_silence(now, now - self._answered)
        if self._bin_ends is not None and now < self._bin_ends:
            return
        self._bin_ends = now + self._bin_frames
        self.blocks += 1
        self._window[:-1] = self._window[1:]
        self._window[-1] = self._counted
        self._counted[:] = 0.0
        if behind:
            self.calls += 1
            self.late += 1
            return
        if self._model.busy:
            late = self._model.result(0.0)
            if late is None:
                return
            self._take(late)  # its states go on; its pulses are too late
        self._model.start({SPIKES: self._window} | self._states)
        self._started = now
        self.calls += 1

    def requests(self, now: int, within_s: float) -> list[Request]:
        """Return what the graph asks for in this block; nothing if its answer is not there within a time.

        Raises:
            ModelFailed: The graph failed, or its answer is not finite or not that of a reflex.
        """
        if self._started != now:  # an earlier block's call: its answer is too late, whenever it comes
            return []
        answer = self._model.result(within_s)
        if answer is None:
            self.late += 1
            return []
        self._answered, self._watched = now, False
        wanted = self._take(answer) > 0.5
        if now < self._next_ask or not wanted.any():
            return []
        self._next_ask = now + round(self.terms.min_interval_s * self._info.sample_rate_hz)
        asked = [self._request(design, np.flatnonzero(row)) for design, row in enumerate(wanted) if row.any()]
        self.asked += len(asked)
        return asked

    def _bear_silence(self, now: int, silent: int) -> None:
        """End a graph that is silent for too long. One that gets no processor goes on: the machine is busy."""
        limit = SILENT_S * self._info.sample_rate_hz
        if silent > limit / 2.0 and not self._watched:
            self._watched = True
            self._model.processor_share()
        elif silent > limit:
            if self._model.processor_share() >= RUNS:
                raise self._model.kill(f"the reflex gave no timely answer for {SILENT_S * 1000:g} ms")
            self._answered, self._watched = now, False

    def note(self, outcome: StimulationOutcome) -> None:
        """Note a decision on a request."""
        if outcome.decision.accepted:
            self.accepted += 1
        else:
            pause = round(REFUSED_PAUSE_S * self._info.sample_rate_hz)
            self._next_ask = max(self._next_ask, outcome.frame + pause)

    def _take(self, answer: Tensors) -> NDArray[Any]:
        """Keep the states of an answer; return its pulses."""
        pulses = answer[PULSES]
        after = {name: answer[NEXT + name] for name in self._states}
        if pulses.shape != self._shape or any(after[name].shape != old.shape for name, old in self._states.items()):
            raise self._model.kill("the reflex answered with other shapes than those of its inputs and designs")
        odd = pulses.size - np.count_nonzero(np.isfinite(pulses))
        if odd:
            raise self._model.kill(
                f"the reflex's output “{PULSES}” has {odd} of {pulses.size} values that are NaN or infinite. Likely cause: a"
                " division by 0, or a state that grows without limit. Next: find the operator that gives the first of them"
            )
        self._states = after
        return pulses

    def _request(self, design: int, electrodes: NDArray[Any]) -> Request:
        terms = self.terms
        return Request(
            requester=terms.requester,
            lease=terms.lease,
            electrodes=tuple(int(each) for each in electrodes),
            phases=terms.designs[design],
            purpose=terms.purpose,
            fence=terms.fence,
            budget=terms.budget,
            tier="uploaded",
        )


class UploadedReflexes:
    """All uploaded reflexes of an engine. `attach` and `detach` from any thread, the rest on the real-time thread."""

    def __init__(self, events: EventLog, wait_s: float = WAIT_S) -> None:
        self._events = events
        self._wait_s = wait_s
        self._orders: deque[tuple[bool, UploadedReflex]] = deque()
        self._reflexes: list[UploadedReflex] = []
        self._next_late = 0
        self._seen = -1
        self._fresh = False

    def __len__(self) -> int:
        return len(self._reflexes)

    def attach(self, reflex: UploadedReflex) -> None:
        """Let a reflex work from the next block on; beyond :data:`MAX_REFLEXES` it is ended at once."""
        self._orders.append((True, reflex))

    def detach(self, reflex: UploadedReflex) -> None:
        """End a reflex with the next block; `ended` confirms it."""
        self._orders.append((False, reflex))

    def begin(self, spikes: Spikes, now: int, leases: Leases, *, behind: bool = False) -> None:
        """Start every reflex on the spikes of a block, unless it has no frames or the engine is `behind`."""
        self._fresh, self._seen = now != self._seen, now
        while self._orders:
            joins, reflex = self._orders.popleft()
            if joins:
                self._reflexes.append(reflex)
                if len(self._reflexes) > MAX_REFLEXES:
                    self._end(reflex, now, f"{MAX_REFLEXES} reflexes run already; wait until one ends")
            elif reflex in self._reflexes:
                self._end(reflex, now, "its agent ended it")
        for reflex in tuple(self._reflexes):
            if leases.find(reflex.terms.lease, reflex.terms.requester) is None:
                self._end(reflex, now, "its lease ended")
                continue
            try:
                if self._fresh:
                    reflex.begin(spikes, now, behind=behind)
            except Exception as error:  # whatever it is, the reflex ends and the engine goes on
                self._end(reflex, now, str(error) or repr(error))

    def commands(self, now: int) -> Iterable[StimulateCommand]:
        """Return what the reflexes ask for in this block."""
        asked = []
        for reflex in tuple(self._reflexes) if self._fresh else ():
            late = reflex.late
            try:
                requests = reflex.requests(now, self._wait_s / len(self._reflexes))
            except Exception as error:
                self._end(reflex, now, str(error) or repr(error))
                continue
            if reflex.late > late and now >= self._next_late:
                self._next_late = now + reflex.frames_per_second
                self._add(
                    EventKind.REFLEX_LATE, reflex, now, "the reflex gave no answer in time; nothing was stimulated"
                )
            asked += [StimulateCommand(each, reflex.note, _ignore, lambda: False) for each in requests]
        return asked

    def close(self, now: int) -> None:
        """End every reflex."""
        for joins, reflex in self._orders:
            if joins:
                self._reflexes.append(reflex)
        self._orders.clear()
        for reflex in tuple(self._reflexes):
            self._end(reflex, now, "the engine closed")

    def _end(self, reflex: UploadedReflex, now: int, why: str) -> None:
        self._reflexes.remove(reflex)
        self._add(EventKind.REFLEX_ENDED, reflex, now, why)
        reflex.ended(why)

    def _add(self, kind: EventKind, reflex: UploadedReflex, now: int, why: str) -> None:
        self._events.add(kind, now, why, lease=reflex.terms.lease, requester=reflex.terms.requester)


def _ignore(_: StimulationOutcome) -> None:
    """Ignore what became of the pulses: a reflex sees it in the spikes."""
