"""Watch for faults of the electrode card: mute its electrodes, report each fault and its end, refuse stimulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nerves.cards.contract import CardFault, FrameBlock, Impedance
from nerves.detections import ALL, Blank
from nerves.events import EventKind, EventLog

SETTLE_S = 0.02
"""How long an electrode stays blanked after the fault (s)."""


class CardWatch:
    """The faults of the card as of the last block."""

    def __init__(self, events: EventLog, electrodes: int, sample_rate_hz: float) -> None:
        self._events = events
        self._electrodes = electrodes
        self._settle_frames = round(SETTLE_S * sample_rate_hz)
        self._faults: tuple[CardFault, ...] = ()
        self._muted: tuple[int, ...] = ()

    @property
    def faults(self) -> tuple[CardFault, ...]:
        """What does not work at present; from any thread."""
        return self._faults

    @property
    def trouble(self) -> str:
        """Why nothing can be stimulated; empty while any electrode works."""
        return self._faults[0].text if len(self._muted) == self._electrodes else ""

    def note(self, block: FrameBlock) -> bool:
        """Note the faults of a block, and report what is new; return whether anything has changed."""
        if block.faults == self._faults:
            return False
        frame = block.first_frame
        for fault in block.faults:
            if fault not in self._faults:
                text = f"{fault.state.value.replace('_', ' ')}: {fault.text}"
                self._events.add(EventKind.CHANNEL_MUTED, frame, text, electrodes=fault.electrodes)
                self._events.add(EventKind.ALARM, frame, f"electrode card: {text}")
        for fault in self._faults:
            if fault not in block.faults:
                text = f"no longer {fault.state.value.replace('_', ' ')}"
                self._events.add(EventKind.CHANNEL_RESTORED, frame, text, electrodes=fault.electrodes)
        self._faults = block.faults
        self._muted = tuple(sorted({electrode for fault in block.faults for electrode in fault.electrodes}))
        return True

    def mute(self, block: FrameBlock) -> list[Blank]:
        """Flatten the samples of electrodes with a fault, which mean nothing; return the stretches to blank."""
        if not self._muted or not len(block.samples):
            return []
        block.samples[:, list(self._muted)] = np.int16(0)
        end = block.first_frame + len(block.samples) + self._settle_frames
        which = (ALL,) if len(self._muted) == self._electrodes else self._muted
        return [Blank(electrode, block.first_frame, end) for electrode in which]

    def known(self, impedances: Sequence[Impedance | None]) -> tuple[Impedance | None, ...]:
        """Return impedances without those of electrodes with a fault, so that the governor refuses them."""
        muted = frozenset(self._muted)
        return tuple(None if electrode in muted else each for electrode, each in enumerate(impedances))
