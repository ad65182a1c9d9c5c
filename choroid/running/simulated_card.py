"""The simulated array as an electrode card in real time: frames come at the rate of its crystal, and are lost if not fetched.

Pulses wait in the stimulator until the frame at which they begin is sampled, so that they can be cancelled until then. Faults
of the hardware can be caused: an unplugged headstage, a dead chip, a stalled connection.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nerves.cards.contract import (
    MAX_WAIT_S,
    ArrayInfo,
    CardFault,
    CardState,
    Delivery,
    FrameBlock,
    Impedance,
    Pulse,
    SelfCheck,
    dropped,
    unfit,
    worst,
)
from nerves.cards.geometry import ArrayGeometry
from sim.neurons.array import SAMPLE_RATE_HZ, UV_PER_UNIT, SimulatedArray, compiled
from sim.neurons.conditions import TissueConditions
from sim.neurons.culture import PITCH_UM

BLOCK_FRAMES = 25
LEAD_FRAMES = 5
BUFFER_FRAMES = 12_500
"""Frames that the simulated hardware can buffer for a stalled reader: 0.5 s; older ones are lost, as a gap."""
IMPEDANCES_EVERY_S = 3600.0
ASSUMED = f"assumed: a simulated array whose rig file has no geometry has its electrodes {PITCH_UM:g} um apart"


class SimulatedCard:
    """The simulated array as an :class:`ElectrodeCard`.

    `clock` (seconds) and `sleep` are those of the machine, or of a test.
    """

    def __init__(
        self,
        array: SimulatedArray,
        info: ArrayInfo,
        *,
        clock: Callable[[], float] = time.monotonic,  # noqa: TID251  (the array's own crystal)
        sleep: Callable[[float], None] = time.sleep,  # noqa: TID251  (on the real-time thread, which has no loop)
    ) -> None:
        self.info = info
        self._array = array
        self._clock = clock
        self._sleep = sleep
        self._start_s = clock()
        self._lost = 0
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, int, tuple[Pulse, ...]]] = []
        self._dropped: list[Delivery] = []
        self._faults: dict[CardState, CardFault] = {}
        self._closed = False
        self._measured: int | None = None

    @property
    def state(self) -> CardState:
        """The worst present fault."""
        return worst(tuple(self._faults.values()))

    def now_frame(self) -> int:
        """Return the frame number of the crystal's present time."""
        return int((self._clock() - self._start_s) * self.info.sample_rate_hz)

    def read(self) -> FrameBlock:
        """Wait until the next block is complete, and return it."""
        if CardState.STALLED in self._faults:
            return self._no_frames()
        first = self._array.next_frame + self._lost
        end = first + self.info.block_frames
        behind = self.now_frame() - end
        if behind > BUFFER_FRAMES:
            self._lose(behind)
            first += behind
            end += behind
        self._array.prepare(self.info.block_frames)
        while (ahead := end - self.now_frame()) > 0:
            self._sleep(ahead / self.info.sample_rate_hz)
        with self._lock:
            begun = self._begin(end)
            samples = self._array.generate(self.info.block_frames)
            not_begun, self._dropped = self._dropped, []
            faults = tuple(self._faults.values())
        for fault in faults:
            samples[:, list(fault.electrodes)] = 0
        return FrameBlock(first, samples, (*not_begun, *begun), faults)

    def _no_frames(self) -> FrameBlock:
        """Return a block without frames: nothing arrives, and what was to begin is dropped."""
        self._sleep(MAX_WAIT_S / 5.0)
        self._drop_waiting("no frames arrive, so it is not known when it would begin")
        with self._lock:
            not_begun, self._dropped = self._dropped, []
        first = self._array.next_frame + self._lost
        empty = np.empty((0, self.info.electrodes), np.int16)
        return FrameBlock(first, empty, tuple(not_begun), tuple(self._faults.values()))

    def _lose(self, frames: int) -> None:
        """Lose frames that were not fetched in time, and what was to begin in them."""
        with self._lock:
            self._lost += frames
            first = self._array.next_frame + self._lost
            while self._waiting and self._waiting[0][0] < first:
                pulses = heapq.heappop(self._waiting)[2]
                self._dropped += [Delivery(pulse, None, "its frame was lost") for pulse in pulses]

    def _begin(self, end: int) -> list[Delivery]:
        """Deliver what begins before the frame `end`."""
        begun: list[Delivery] = []
        while self._waiting and self._waiting[0][0] < end:
            frame, _, pulses = heapq.heappop(self._waiting)
            for pulse in pulses:
                phases = [(phase.duration_us, phase.current_ua) for phase in pulse.phases]
                self._array.stimulate(pulse.electrode, frame - self._lost, phases)
                begun.append(Delivery(pulse, frame))
        return begun

    def stimulate(self, pulse: Pulse) -> None:
        """Deliver a pulse exactly at its frame; if that is past, as soon as possible, but never after `not_after`."""
        self.stimulate_together((pulse,))

    def stimulate_together(self, pulses: tuple[Pulse, ...]) -> None:
        """Deliver pulses in one frame, as :meth:`stimulate` does one, or none of them."""
        with self._lock:
            frame = max(pulses[0].at_frame, self.now_frame() + 1, self._array.next_frame + self._lost)
            why = [self._unfit(pulse, frame) for pulse in pulses]
            if any(why):
                self._dropped += dropped(pulses, why)
            else:
                heapq.heappush(self._waiting, (frame, pulses[0].id, pulses))

    def _unfit(self, pulse: Pulse, frame: int) -> str:
        """Return why a pulse cannot begin at a frame; empty when it can."""
        if self._closed:
            return "the card is closed"
        if frame > pulse.not_after:
            return "the array could not begin it before its latest frame"
        if any(pulse.electrode in fault.electrodes for fault in self._faults.values()):
            return f"the hardware of electrode {pulse.electrode} does not work"
        return unfit(pulse, self.info)

    def cancel(self) -> None:
        """Drop what has not begun; what was to begin before now has begun."""
        self._drop_waiting("it was cancelled before it began")

    def _drop_waiting(self, why: str) -> None:
        with self._lock:
            now = self.now_frame()
            kept = [entry for entry in self._waiting if entry[0] <= now]
            gone = [pulse for frame, _, pulses in self._waiting if frame > now for pulse in pulses]
            self._dropped += [Delivery(pulse, None, why) for pulse in gone]
            heapq.heapify(kept)
            self._waiting = kept

    def impedances(self) -> tuple[Impedance | None, ...]:
        """Return the impedances, which the card measures by itself once an hour; None where the hardware does not work."""
        now = self._array.next_frame + self._lost
        hour = now - now % round(IMPEDANCES_EVERY_S * self.info.sample_rate_hz)
        measured = hour if self._measured is None else max(hour, self._measured)
        out = {electrode for fault in self._faults.values() for electrode in fault.electrodes}
        return tuple(
            None if electrode in out else Impedance(kohm, measured)
            for electrode, kohm in enumerate(self._array.impedances_kohm())
        )

    def measure_impedances(self) -> tuple[Impedance | None, ...]:
        """Measure all impedances now."""
        self._measured = self._array.next_frame + self._lost
        return self.impedances()

    def self_test(self) -> tuple[SelfCheck, ...]:
        """Report on each part of the simulated hardware."""
        faults = tuple(self._faults.values())
        if not faults:
            return (SelfCheck("hardware", True, f"{self.info.electrodes} electrodes answer"),)
        return tuple(SelfCheck(fault.state.value, False, fault.text) for fault in faults)

    def fail(self, state: CardState, electrodes: tuple[int, ...] | None = None) -> None:
        """Cause a fault on some electrodes (default: all) until :meth:`repair`."""
        which = tuple(range(self.info.electrodes)) if electrodes is None else electrodes
        text = {
            CardState.HEADSTAGE_UNPLUGGED: "the headstage is unplugged; plug it in",
            CardState.DEAD: "an amplifier chip does not answer; exchange the headstage",
            CardState.STALLED: "no frames arrive from the simulated hardware",
        }[state]
        with self._lock:
            self._faults = self._faults | {state: CardFault(state, which, text)}

    def repair(self) -> None:
        """End all faults. Frames that nothing fetched meanwhile are lost."""
        behind = self.now_frame() - (self._array.next_frame + self._lost + self.info.block_frames)
        if CardState.STALLED in self._faults and behind > 0:
            self._lose(behind)
        with self._lock:
            self._faults = {}

    def set_conditions(self, conditions: TissueConditions) -> None:
        """Set what the tissue lives in; callable from any thread."""
        self._array.conditions = conditions

    def close(self) -> None:
        """Drop what has not begun, and accept no more pulses."""
        self._closed = True
        self.cancel()


def assumed_geometry(electrodes: int, diameter_um: float) -> ArrayGeometry:
    """Return the square grid of a simulated array; it says that it is assumed."""
    columns = math.ceil(math.sqrt(electrodes))
    return ArrayGeometry.grid(electrodes, columns, PITCH_UM, diameter_um, module="simulated", source=ASSUMED)


def simulated_card(
    *,
    electrodes: int,
    material: Any = "Pt",
    diameter_um: float = 30.0,
    seed: int,
    geometry: ArrayGeometry | None = None,
    block_frames: int = BLOCK_FRAMES,
    clock: Callable[[], float] | None = None,
    sleep: Callable[[float], None] | None = None,
) -> SimulatedCard:
    """Return the simulated array with the data sheet that the rig file gives, on a grid that is assumed if left out."""
    geometry = geometry or assumed_geometry(electrodes, diameter_um)
    info = ArrayInfo(
        name=f"simulated array of {electrodes} electrodes",
        electrodes=electrodes,
        sample_rate_hz=float(SAMPLE_RATE_HZ),
        uv_per_unit=UV_PER_UNIT,
        material=material,
        diameter_um=diameter_um,
        block_frames=block_frames,
        lead_frames=LEAD_FRAMES,
        time_step_us=20.0,
        current_step_ua=0.01,
        compliance_v=7.0,
        max_phases=7,
        simulated=True,
        skew_us=0.0,
        geometry=geometry,
    )
    compiled()
    array = SimulatedArray(electrodes, seed, positions_um=geometry.positions_um())
    if clock is None or sleep is None:
        return SimulatedCard(array, info)
    return SimulatedCard(array, info, clock=clock, sleep=sleep)
