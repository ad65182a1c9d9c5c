"""Report, once a second, what has changed for clients: muted channels, the permit, the response of the tissue, the ledger."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nerves.detector import ElectrodeState
from nerves.events import EventKind, EventLog
from nerves.permit import Permit

DETECTED = (ElectrodeState.OK, ElectrodeState.BLANKED)
"""States in which spikes of a channel are detected, now or within milliseconds."""


class Reporter:
    """Remembers what was reported last, and adds an event for each change."""

    def __init__(self, events: EventLog, permit: Permit) -> None:
        self._events = events
        self._permit = permit
        self._lost = False
        self._trouble = ""
        self._muted: frozenset[int] = frozenset()

    def update(self, frame: int, states: NDArray[np.int8], permit: Permit, lost: bool, trouble: str) -> None:
        """Report the changes up to `frame`.

        Args:
            frame: The array's clock.
            states: :class:`ElectrodeState` of each channel.
            permit: What age and review of the tissue allow.
            lost: Whether the response of the tissue is lost.
            trouble: Why the stimulation ledger cannot be written; empty when it can.
        """
        self._look_at_channels(frame, states)
        new, old = permit.level, self._permit.level
        if new != old:
            closed = new.charge_nc * new.duty < old.charge_nc * old.duty
            kind = EventKind.PERMIT_CLOSED if closed else EventKind.PERMIT_OPENED
            self._events.add(kind, frame, f"at most the {new.name} level is allowed: {permit.reason}")
        if lost and not self._lost:
            self._events.add(EventKind.ALARM, frame, "the tissue hardly answers any more; stimulation has to pause")
        if trouble != self._trouble:
            self._events.add(EventKind.ALARM, frame, trouble or "the stimulation ledger can be written again")
        self._permit, self._lost, self._trouble = permit, lost, trouble

    def _look_at_channels(self, frame: int, states: NDArray[np.int8]) -> None:
        muted = frozenset(np.flatnonzero(~np.isin(states, DETECTED)).tolist())
        for state in sorted(set(states.tolist()) - set(DETECTED)):
            newly = tuple(e for e in sorted(muted - self._muted) if states[e] == state)
            if newly:
                word = ElectrodeState(state).name.lower()
                self._events.add(EventKind.CHANNEL_MUTED, frame, word, electrodes=newly)
        restored = tuple(sorted(self._muted - muted))
        if restored:
            self._events.add(EventKind.CHANNEL_RESTORED, frame, "spikes are detected again", electrodes=restored)
        self._muted = muted
