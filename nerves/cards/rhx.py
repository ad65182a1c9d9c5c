"""The card of Intan's RHX software over TCP: frames from its waveform socket, pulses by its manual triggers.

Pulses that belong together are prepared on one key, so that one trigger of RHX begins them in the same sample.

RHX has no deadlines: a pulse is triggered when its frame is due and begins as soon as RHX obeys. The stimulation words of
the stream say at which frame that was. RHX checks neither charge nor balance; the card delivers only what fits its grid
exactly, and the limiter of the card process has checked the rest. RHX does not report an unplugged headstage; its words
stand still.
"""

from __future__ import annotations

import csv
import heapq
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nerves.cards.arrival_clock import ArrivalClock, steady_s
from nerves.cards.contract import (
    MAX_WAIT_S,
    ArrayInfo,
    CardFault,
    CardState,
    Delivery,
    FrameBlock,
    Frames,
    Impedance,
    Pulse,
    SelfCheck,
    dropped,
    unfit,
    worst,
)
from nerves.cards.rhx_connection import BLOCK, RhxAddress, RhxConnection, RhxProblem

CHIP = 16
KEYS = 8
UV_PER_UNIT = 0.195
RETRY_S = 1.0
STALLED_AFTER_S = 0.5
MISFIRE_S = 5.0
"""How long an electrode that did not begin as it was triggered is left alone (s)."""
TRIGGER_S = 0.0005
"""How often a waiting pulse is looked at (s)."""


class RhxCard:
    """Reads and stimulates through RHX, with an RHD or RHS controller, as an :class:`ElectrodeCard`.

    Raises:
        RhxProblem: RHX cannot be reached when the card is made.
    """

    def __init__(
        self,
        address: RhxAddress,
        *,
        material: Literal["Pt", "PtIr", "TiN"] = "Pt",
        diameter_um: float = 30.0,
        simulated: bool = False,
        stalled_after_s: float = STALLED_AFTER_S,
    ) -> None:
        self._address = address
        self._stalled_after_s = stalled_after_s
        self._connection: RhxConnection | None = RhxConnection(address)
        rate = self._connection.sample_rate_hz
        self.info = ArrayInfo(
            name=f"Intan {self._connection.kind} through RHX, {len(address.channels)} channels",
            electrodes=len(address.channels), sample_rate_hz=rate, uv_per_unit=UV_PER_UNIT, material=material,
            diameter_um=diameter_um, block_frames=BLOCK, lead_frames=BLOCK, time_step_us=1e6 / rate,
            current_step_ua=self._connection.step_ua, compliance_v=7.0, simulated=simulated,
            stimulates=self._connection.stimulates, measures_impedance=bool(address.folder),
            max_current_ua=255 * self._connection.step_ua, skew_us=1e6 / rate,
            jitter_us=1e6 * (BLOCK / rate + TRIGGER_S),  # RHX obeys between two blocks
        )  # fmt: skip
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, int, tuple[Pulse, ...]]] = []
        self._fired: list[dict[Pulse, int | None]] = []
        """By trigger: its pulses, each with the frame at which its words began."""
        self._misfires: dict[CardFault, int] = {}
        """Faults of the stimulator, each with the frame until which it stands."""
        self._busy: dict[int, int] = {}
        """By electrode: the frame at which its last pulse has ended."""
        self._dropped: list[Delivery] = []
        self._prepared: dict[int, dict[int, object]] = {}
        """By key: the electrodes that it triggers, with their phases; an electrode has one key at most."""
        self._turn = 0
        self._disobeyed = ""
        """Why it is not known what is on the keys; nothing is triggered until RHX is connected again."""
        self._closed = False
        self._faults: tuple[CardFault, ...] = ()
        self._impedances: tuple[Impedance | None, ...] = (None,) * self.info.electrodes
        self._offset = 0
        self._next = 0
        self._clock = ArrivalClock(rate)
        self._silent_since_s: float | None = None
        self._next_try_s = 0.0
        if address.folder:
            self._measure()
        self._connection.run()
        self._trigger = threading.Thread(target=self._fire, name="trigger", daemon=True)
        self._trigger.start()

    @property
    def state(self) -> CardState:
        """The worst present fault."""
        return worst(self._faults)

    def now_frame(self) -> int:
        """Return the frame that is sampled now, estimated from the blocks that came with the least delay."""
        return self._clock.now_frame()

    def read(self) -> FrameBlock:
        """Return the next block; without frames while RHX sends none or is away."""
        try:
            block = self._next_block()
        except OSError as error:
            return self._without(str(error), CardState.DEAD)
        if block is None:
            return self._without("RHX sends no frames; see whether it still runs", CardState.STALLED)
        first = int(block["timestamp"][0]) + self._offset
        if first < self._next:
            self._offset += self.now_frame() - first
            first = int(block["timestamp"][0]) + self._offset
        self._next = first + BLOCK
        self._clock.arrived(self._next)
        self._silent_since_s = None
        words = block["words"]
        if self.info.stimulates:
            words, stim = words[:, ::2], words[:, 1::2]
            begun = self._begun(stim, first)
        else:
            begun = []
        self._misfires = {fault: until for fault, until in self._misfires.items() if until > first}
        self._faults = (*self._standing(words), *self._misfires)
        samples: Frames = (words.astype(np.int32) - 32_768).astype(np.int16)
        return FrameBlock(first, np.ascontiguousarray(samples), (*self._taken(), *begun), self._faults)

    def _next_block(self) -> NDArray[Any] | None:
        if self._closed:
            raise RhxProblem("the card is closed")
        if self._connection is not None and self._disobeyed:
            raise RhxProblem(self._disobeyed)  # a new connection disables all that is on its keys
        if self._connection is None:
            self._connect_again()
        return self._connection.block(MAX_WAIT_S) if self._connection is not None else None

    def _connect_again(self) -> None:
        """Try to connect, at most once a second."""
        if steady_s() < self._next_try_s:
            time.sleep(MAX_WAIT_S / 5)  # noqa: TID251  (the card's own thread)
            raise RhxProblem(self._faults[0].text if self._faults else "RHX is away")
        self._next_try_s = steady_s() + RETRY_S
        connection = RhxConnection(self._address)
        with self._lock:
            self._prepared, self._fired, self._disobeyed = {}, [], ""
            self._offset = self.now_frame()
            self._clock.restart()
            connection.run()
            self._connection = connection

    def _without(self, why: str, state: CardState) -> FrameBlock:
        """Return a block without frames, and drop what was to begin."""
        if state is CardState.DEAD and self._connection is not None and not self._closed:
            connection, self._connection = self._connection, None
            connection.close()
        self._silent_since_s = self._silent_since_s or steady_s()
        everything = tuple(range(self.info.electrodes))
        if state is CardState.DEAD or steady_s() - self._silent_since_s >= self._stalled_after_s - MAX_WAIT_S:
            self._faults = (CardFault(CardState.STALLED, everything, why),)
            self._drop("no frames arrive from RHX, so it is not known when it would begin")
        empty = np.empty((0, self.info.electrodes), np.int16)
        return FrameBlock(self._next, empty, self._taken(), self._faults)

    def _taken(self) -> tuple[Delivery, ...]:
        with self._lock:
            not_begun, self._dropped = self._dropped, []
        return tuple(not_begun)

    def _standing(self, words: NDArray[np.uint16]) -> tuple[CardFault, ...]:
        """Return a fault for each port and chip whose words all stand still: a connected amplifier has noise."""
        still = (words == words[0]).all(axis=0)
        ports: dict[str, list[int]] = {}
        chips: dict[tuple[str, int], list[int]] = {}
        for electrode, name in enumerate(self._address.channels):
            port, _, number = name.partition("-")
            ports.setdefault(port, []).append(electrode)
            chips.setdefault((port, int(number) // CHIP), []).append(electrode)
        faults = []
        for port, which in ports.items():
            if still[which].all():
                text = f"all channels of port {port} stand still; likely cause: its headstage is unplugged; plug it in"
                faults.append(CardFault(CardState.HEADSTAGE_UNPLUGGED, tuple(which), text))
        for (port, chip), which in chips.items():
            if still[which].all() and not still[ports[port]].all():
                text = f"chip {chip} of port {port} stands still; exchange the headstage"
                faults.append(CardFault(CardState.DEAD, tuple(which), text))
        return tuple(faults)

    def _begun(self, stim: NDArray[np.uint16], first: int) -> list[Delivery]:
        """Return the pulses whose stimulation words begin in this block, and note what RHX did otherwise than ordered."""
        begun: list[Delivery] = []
        with self._lock:
            for fired in list(self._fired):
                for pulse in [pulse for pulse, frame in fired.items() if frame is None]:
                    frame = fired[pulse] = self._beginning(pulse.electrode, stim, first)
                    if frame is not None:
                        begun.append(Delivery(pulse, frame))
                        us = sum(phase.duration_us for phase in pulse.phases)
                        self._busy[pulse.electrode] = frame + self._frames(us)
                if self._ended(fired, first):
                    self._fired.remove(fired)
        for electrode in map(int, np.flatnonzero((stim & 0xFF).any(axis=0))):
            if self._beginning(electrode, stim, first) is not None:
                self._misfired(
                    (electrode,), "stimulates without a pulse; stop RHX and compare the ledger with its recording"
                )
        return begun

    def _ended(self, fired: dict[Pulse, int | None], first: int) -> bool:
        """Return whether no more words of a trigger are awaited. What has no word by then stays unknown, and counts as
        delivered; when others have begun, that is a fault, as is a difference between their frames.
        """
        frames = sorted(frame for frame in fired.values() if frame is not None)
        missing = len(fired) - len(frames)
        if not frames:
            return self._next - next(iter(fired)).not_after > self.info.sample_rate_hz
        if frames[0] != frames[-1] or (missing and frames[0] < first):
            told = f"frames {frames[0]} to {frames[-1]}" + f", {missing} of them not at all" * bool(missing)
            electrodes = tuple(pulse.electrode for pulse in fired)
            self._misfired(electrodes, f"began pulses of one trigger at {told}; examine RHX and its controller")
            return True
        return not missing

    def _misfired(self, electrodes: tuple[int, ...], what: str) -> None:
        """Note a fault of the stimulator on electrodes, which are muted and not stimulated while it stands."""
        text = f"RHX, electrode {', '.join(map(str, electrodes))}: {what}"
        self._misfires[CardFault(CardState.DEAD, electrodes, text)] = self._next + self._frames(MISFIRE_S * 1e6)

    def _beginning(self, electrode: int, stim: NDArray[np.uint16], first: int) -> int | None:
        """Return the first frame of this block in which an electrode has words, past those of its pulses before."""
        known = max(0, self._busy.get(electrode, 0) - first)
        rows = np.flatnonzero(stim[known:, electrode] & 0xFF)
        return first + known + int(rows[0]) if len(rows) else None

    def _frames(self, us: float) -> int:
        return round(us * 1e-6 * self.info.sample_rate_hz)

    def stimulate(self, pulse: Pulse) -> None:
        """Prepare a pulse, and trigger it when its frame is due.

        Args:
            pulse: The pulse; what RHX cannot deliver is dropped with the reason.
        """
        self.stimulate_together((pulse,))

    def stimulate_together(self, pulses: tuple[Pulse, ...]) -> None:
        """Prepare pulses on one key, and trigger it when their frame is due.

        Args:
            pulses: The pulses; when RHX cannot deliver one of them, all are dropped with the reason.
        """
        why = [self._unfit(pulse) for pulse in pulses]
        with self._lock:
            if any(why):
                self._dropped += dropped(pulses, why)
            else:
                heapq.heappush(self._waiting, (pulses[0].at_frame, pulses[0].id, pulses))

    def _unfit(self, pulse: Pulse) -> str:
        """Return why RHX cannot deliver a pulse; empty when it can."""
        if self._closed:
            return "the card is closed"
        if self.now_frame() > pulse.not_after:
            return "RHX could not begin it before its latest frame"
        if any(pulse.electrode in fault.electrodes for fault in self._faults):
            return f"the hardware of electrode {pulse.electrode} does not work"
        return unfit(pulse, self.info) or self._shape(pulse)

    def _shape(self, pulse: Pulse) -> str:
        """Return why RHX has no such waveform; empty when it has."""
        active = [phase for phase in pulse.phases if phase.current_ua]
        ends = bool(pulse.phases[0].current_ua and pulse.phases[-1].current_ua)
        if len(active) == 2 and len(pulse.phases) <= 3 and ends and active[0].current_ua * active[1].current_ua < 0:
            return ""
        return "RHX delivers two phases of opposite sign, with at most one pause between them"

    def _fire(self) -> None:
        """Trigger waiting pulses when they are due; a thread of its own."""
        while not self._closed:
            with self._lock:
                due = self._waiting[0][2] if self._waiting and self._waiting[0][0] <= self.now_frame() else None
                if due is not None:
                    heapq.heappop(self._waiting)
                    self._trigger_one(due)
            if due is None:
                time.sleep(TRIGGER_S)  # noqa: TID251  (a thread of its own)

    def _trigger_one(self, pulses: tuple[Pulse, ...]) -> None:
        """Trigger pulses that begin together."""
        why = ""
        try:
            if self._connection is None or self._disobeyed:
                raise RhxProblem(self._disobeyed or "RHX is away")
            key = self._prepare(self._connection, pulses)
            if self.now_frame() > pulses[0].not_after:
                why = "RHX could not be prepared before its latest frame"
            else:
                self._connection.trigger(key)
                self._fired.append(dict.fromkeys(pulses))
        except OSError as error:
            why = self._disobeyed = str(error)
        if why:
            self._dropped += [Delivery(pulse, None, why) for pulse in pulses]

    def _prepare(self, connection: RhxConnection, pulses: tuple[Pulse, ...]) -> int:
        """Set the waveforms of pulses and upload them, unless they are there; return the key that triggers these alone."""
        wanted: dict[int, object] = {pulse.electrode: pulse.phases for pulse in pulses}
        for key, ready in self._prepared.items():
            if ready == wanted:
                return key
        taken = [key for key, ready in self._prepared.items() if ready.keys() & wanted.keys()]
        if taken:
            key = taken[0]
        else:
            key = self._turn = self._turn % KEYS + 1
        touched = {key, *taken}
        for old in touched:  # if RHX refuses: none of them is ready, and each stays known on its key
            self._prepared[old] = dict.fromkeys(self._prepared.get(old, {}))
        for electrode in {electrode for old in touched for electrode in self._prepared[old]} - wanted.keys():
            name = self._address.channels[electrode]
            connection.tell(f"set {name}.stimenabled false", f"execute uploadstimparameters {name}")
        for pulse in pulses:
            name = self._address.channels[pulse.electrode]
            connection.tell(*_commands(name, key, pulse), f"execute uploadstimparameters {name}")
        for old in touched:
            del self._prepared[old]
        self._prepared[key] = wanted
        return key

    def cancel(self) -> None:
        """Drop every pulse that has not been triggered."""
        self._drop("it was cancelled before it began")

    def _drop(self, why: str) -> None:
        with self._lock:
            self._dropped += [Delivery(pulse, None, why) for _, _, pulses in self._waiting for pulse in pulses]
            self._waiting = []

    def impedances(self) -> tuple[Impedance | None, ...]:
        """Return the impedances that were measured last."""
        return self._impedances

    def measure_impedances(self) -> tuple[Impedance | None, ...]:
        """Stop RHX, measure, and run again."""
        if self._connection is None or not self._address.folder:
            return self._impedances
        self._connection.tell("set runmode stop")
        self._offset = self.now_frame()
        self._clock.restart()
        self._measure()
        self._connection.run()
        return self._impedances

    def _measure(self) -> None:
        """Measure while the board stands, and read the file that RHX writes."""
        if self._connection is None:
            return
        folder = Path(self._address.folder)
        self._connection.tell(f"set impedancefilename.path {folder}", "set impedancefilename.basefilename choroid")
        self._connection.tell("execute measureimpedance", "execute saveimpedance")
        with (folder / "choroid.csv").open(encoding="latin-1", newline="") as file:
            rows = {row[0]: float(row[4]) / 1000.0 for row in list(csv.reader(file))[1:] if len(row) > 4}
        at = self.now_frame()
        self._impedances = tuple(Impedance(rows[name], at) if name in rows else None for name in self._address.channels)

    def self_test(self) -> tuple[SelfCheck, ...]:
        """Ask RHX whether it runs, and report faults of the stream."""
        checks = [SelfCheck(fault.state.value, False, fault.text) for fault in self._faults]
        try:
            mode = self._connection.get("runmode") if self._connection else "RHX is away"
        except OSError as error:
            mode = str(error)
        return (SelfCheck("runmode", mode.endswith("Run"), mode), *checks)

    def close(self) -> None:
        """Drop what has not begun, stop RHX, and disconnect."""
        if not self._closed:
            self._closed = True
            self._trigger.join()
            self.cancel()
            if self._connection is not None:
                self._connection.close()


def _commands(name: str, key: int, pulse: Pulse) -> Sequence[str]:
    first, last = pulse.phases[0], pulse.phases[-1]
    pause = pulse.phases[1].duration_us if len(pulse.phases) == 3 else 0.0
    settings = {
        "source": f"keypressf{key}",
        "shape": "biphasicwithinterphasedelay" if pause else "biphasic",
        "polarity": "negativefirst" if first.current_ua < 0 else "positivefirst",
        "pulseortrain": "singlepulse",
        "firstphasedurationmicroseconds": f"{first.duration_us:g}",
        "secondphasedurationmicroseconds": f"{last.duration_us:g}",
        "interphasedelaymicroseconds": f"{pause:g}",
        "firstphaseamplitudemicroamps": f"{abs(first.current_ua):g}",
        "secondphaseamplitudemicroamps": f"{abs(last.current_ua):g}",
        "enablechargerecovery": "true",
        "stimenabled": "true",
    }
    return [f"set {name}.{item} {value}" for item, value in settings.items()]
