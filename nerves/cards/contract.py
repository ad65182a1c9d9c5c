"""The contract of an electrode card: frames come in, pulses go out, and the card reports what became of them.

A card is the amplifier and stimulator of one electrode array, with its driver. It fulfils :class:`ElectrodeCard` by shape;
nothing of the engine is imported by it. :mod:`nerves.cards.conformance` examines any card.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from nerves.cards.geometry import ArrayGeometry

Frames = NDArray[np.int16]
"""Raw samples, shape (frames, electrodes), contiguous; one unit is `ArrayInfo.uv_per_unit` microvolts."""


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """Describes an array and its card. `time_step_us` and `current_step_ua` are the grid of the stimulator.

    A waveform off that grid would be rounded by the hardware and lose its balance, so the governor refuses it, and so does
    the card. `lead_frames` is the shortest notice at which the card can still hit an exact frame.
    """

    name: str
    electrodes: int
    sample_rate_hz: float
    uv_per_unit: float
    material: Literal["Pt", "PtIr", "TiN"]
    diameter_um: float
    block_frames: int
    lead_frames: int
    time_step_us: float
    current_step_ua: float
    compliance_v: float
    simulated: bool
    stimulates: bool = True
    """Whether the card can stimulate; an input-only card drops every pulse and says so."""
    measures_impedance: bool = True
    """Whether the card can measure impedances; without them the governor refuses stimulation."""
    max_current_ua: float = 2550.0
    """The largest current that the stimulator can drive."""
    max_phase_us: float = 5000.0
    """The longest phase that the stimulator can drive."""
    max_phases: int = 2
    """Phases with current that a pulse may have; the pauses between them are not counted."""
    replay: bool = False
    """Whether the frames are those of a recording: the one difference between a replay and an array."""
    skew_us: float | None = None
    """The longest time between the beginnings of pulses that are handed over together (:class:`SynchronousCard`), by the
    hardware's data sheet; None where the card takes single pulses only.
    """
    jitter_us: float = 0.0
    """How much later than triggered a pulse may begin, on a card without deadlines: no request may allow less."""
    geometry: ArrayGeometry | None = None
    """Where the electrodes are; None where it is not known."""


class CardState(StrEnum):
    """Says whether the card and its hardware work."""

    CONNECTED = "connected"
    HEADSTAGE_UNPLUGGED = "headstage_unplugged"
    DEAD = "dead"
    """An amplifier chip, or the whole card, does not answer."""
    STALLED = "stalled"
    """No frames arrive."""


@dataclass(frozen=True, slots=True)
class CardFault:
    """Reports what does not work at present, on which electrodes, and what to do about it."""

    state: CardState
    electrodes: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Phase:
    """Describes one phase of a pulse: `duration_us` at `current_ua` (signed; 0 is a pause between phases)."""

    duration_us: float
    current_ua: float

    @property
    def charge_nc(self) -> float:
        """Signed charge in nC (µA × µs = pC)."""
        return self.current_ua * self.duration_us / 1000.0


@dataclass(frozen=True, slots=True)
class Impedance:
    """Holds a magnitude at 1 kHz, and the frame at which it was measured."""

    kohm: float
    at_frame: int


@dataclass(frozen=True, slots=True)
class Pulse:
    """Describes one pulse on one electrode: to begin at `at_frame`, or as soon after as possible, never after `not_after`."""

    id: int
    electrode: int
    phases: tuple[Phase, ...]
    at_frame: int
    not_after: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """Reports what became of a pulse: the frame at which it began, or None when it was dropped, for the reason `why`.

    A replay reports the pulses of its recording as well; their ids are negative.
    """

    pulse: Pulse
    frame: int | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class FrameBlock:
    """Holds consecutive frames from `first_frame` on, the pulses that began in them (or were dropped), and present faults.

    Samples of an electrode with a fault mean nothing. A block without frames is a sign of life of a card that waits for its
    hardware: `first_frame` is then the next frame to come.
    """

    first_frame: int
    samples: Frames
    deliveries: tuple[Delivery, ...] = ()
    faults: tuple[CardFault, ...] = ()


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """Reports one result of a self-test; `detail` says what was found, and on failure what to do."""

    name: str
    passed: bool
    detail: str


MAX_WAIT_S = 0.25
"""The longest that `read` may wait for frames before it returns a block without any (s)."""


class ElectrodeCard(Protocol):
    """Declares an electrode card. One thread calls `read`; any other method may be called from another thread meanwhile."""

    @property
    def info(self) -> ArrayInfo:
        """What the array and its card are."""
        ...

    @property
    def state(self) -> CardState:
        """The worst present fault; CONNECTED when there is none."""
        ...

    def now_frame(self) -> int:
        """Return the card's clock: the number of the frame that is sampled now, estimated between blocks."""
        ...

    def read(self) -> FrameBlock:
        """Wait for the next block, at most :data:`MAX_WAIT_S`.

        Frames that the hardware lost show as a jump of `first_frame`, never as other frames. A card whose hardware is gone
        returns blocks without frames, with the fault, and tries to recover; after that its frames go on at a higher number.

        Raises:
            OSError: The card is gone for good.
        """
        ...

    def stimulate(self, pulse: Pulse) -> None:
        """Take one pulse for delivery; exactly one later block reports its fate.

        Args:
            pulse: The pulse. It is delivered as it is, unrounded, or dropped.
        """
        ...

    def cancel(self) -> None:
        """Drop every pulse that has not begun; a later block reports each."""
        ...

    def impedances(self) -> tuple[Impedance | None, ...]:
        """Return the latest known impedance of each electrode; None where none was measured. Never waits."""
        ...

    def measure_impedances(self) -> tuple[Impedance | None, ...]:
        """Measure all impedances now, which may interrupt the frames, and return them."""
        ...

    def self_test(self) -> tuple[SelfCheck, ...]:
        """Test the hardware without stimulating; never empty."""
        ...

    def close(self) -> None:
        """Drop what has not begun, ground the electrodes, let go of the hardware. Later pulses are dropped."""
        ...


class SynchronousCard(ElectrodeCard, Protocol):
    """Declares an electrode card that begins pulses on several electrodes in one frame; its `info.skew_us` is a number.

    A card without this method works for single pulses; the governor refuses requests for several electrodes.
    """

    def stimulate_together(self, pulses: tuple[Pulse, ...]) -> None:
        """Take pulses for delivery that begin in the same frame, all of them or none.

        Args:
            pulses: One or more, on different electrodes, with the same `at_frame` and `not_after`; the hardware's own
                synchronous trigger begins them. If one cannot be delivered as it is, all are dropped. Each is reported.
        """
        ...


class CardRefused(ConnectionError):
    """A card cannot be opened, or is not the one described; the text says why, with the likely cause and the next step."""


_SEVERITY = (CardState.CONNECTED, CardState.HEADSTAGE_UNPLUGGED, CardState.DEAD, CardState.STALLED)


def worst(faults: tuple[CardFault, ...]) -> CardState:
    """Return the worst state among faults.

    Args:
        faults: The present faults.

    Returns:
        The state; CONNECTED where there is none.
    """
    return max((fault.state for fault in faults), key=_SEVERITY.index, default=CardState.CONNECTED)


def data_sheet(card: ElectrodeCard) -> ArrayInfo:
    """Return the data sheet of a card, without a skew where it has no :meth:`SynchronousCard.stimulate_together`.

    Args:
        card: The card.

    Returns:
        Its data sheet.
    """
    return card.info if hasattr(card, "stimulate_together") else replace(card.info, skew_us=None)


def hand_over(card: ElectrodeCard, pulses: Sequence[Pulse]) -> None:
    """Hand pulses that begin together to a card.

    Args:
        card: The card; for several pulses a :class:`SynchronousCard`.
        pulses: The pulses of one beginning.
    """
    if len(pulses) == 1:
        card.stimulate(pulses[0])
    else:
        together: SynchronousCard = card  # type: ignore[assignment]  # the governor has seen to it
        together.stimulate_together(tuple(pulses))


def apart(info: ArrayInfo) -> str:
    """Return why a card cannot begin pulses on several electrodes in one frame.

    Args:
        info: Its data sheet, from :func:`data_sheet`.

    Returns:
        The reason, for people; empty when it can.
    """
    if info.skew_us is None:
        return f"{info.name} takes single pulses only, so those on several electrodes would not begin in one frame"
    if info.skew_us > 1e6 / info.sample_rate_hz:  # as a card computes one frame: the product may exceed 1e6 by rounding
        return f"pulses of {info.name} that belong together may begin {info.skew_us:g} µs apart, more than one frame"
    return ""


def dropped(pulses: Sequence[Pulse], why: Sequence[str]) -> list[Delivery]:
    """Return the reports of pulses that belong together, when any of them cannot be delivered.

    Args:
        pulses: The pulses.
        why: The reason of each; empty where there is none.

    Returns:
        A report for each: with its own reason, or with that of another pulse.
    """
    first = next(each for each in why if each)
    return [
        Delivery(pulse, None, own or f"a pulse that belongs to it cannot be delivered: {first}")
        for pulse, own in zip(pulses, why, strict=True)
    ]


def unfit(pulse: Pulse, info: ArrayInfo) -> str:
    """Return why a stimulator cannot deliver a pulse exactly as it is.

    Args:
        pulse: The pulse.
        info: Data sheet of the card, with the grid and the limits of its stimulator.

    Returns:
        The reason, for people; empty when it can.
    """
    if not info.stimulates:
        return f"{info.name} cannot stimulate: it only records"
    if not 0 <= pulse.electrode < info.electrodes:
        return f"there is no electrode {pulse.electrode}; this array has 0 to {info.electrodes - 1}"
    driven = sum(phase.current_ua != 0.0 for phase in pulse.phases)
    if driven > info.max_phases:
        return f"{driven} phases with current; the stimulator drives at most {info.max_phases} in a pulse"
    for phase in pulse.phases:
        if not _on_grid(phase.duration_us, info.time_step_us) or not _on_grid(phase.current_ua, info.current_step_ua):
            return (
                f"{phase.duration_us:g} µs at {phase.current_ua:g} µA is off the grid of the stimulator"
                f" ({info.time_step_us:g} µs, {info.current_step_ua:g} µA) and would be rounded"
            )
        if abs(phase.current_ua) > info.max_current_ua or not 0 < phase.duration_us <= info.max_phase_us:
            return (
                f"{phase.duration_us:g} µs at {phase.current_ua:g} µA is beyond the stimulator"
                f" ({info.max_phase_us:g} µs, {info.max_current_ua:g} µA)"
            )
    return ""


def _on_grid(value: float, step: float) -> bool:
    steps = value / step
    return abs(steps - round(steps)) <= 1e-6 * max(1.0, abs(steps))
