"""The array of a running electrode engine as the tissue of an environment: leases, planned pulses, spikes as they are
detected.

Windows last as long as they last, in the array's time. Every pulse passes the governor of the engine.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from choroid.client.errors import NervesError
from choroid.client.nerves import NervesClient
from choroid.client.nerves_terms import PulsePhase, SpikeBatch
from choroid.tissue.window import SitePulse, WindowSpikes

LEAD_S = 0.05
"""How far ahead of the array's clock a window begins, so that its first pulse can be planned."""
POLL_S = 0.005
DETECTED_S = 0.01
"""Time after which the spikes of a window are detected."""
SPIKES_WAIT_S = 0.25
"""How long the spikes of a window may take from the engine after that."""
STALLED_S = 10.0
IMPEDANCE_KOHM = (10.0, 2000.0)


class EngineTissue:
    """The array of an engine. It holds a lease on all electrodes that may be stimulated until it is closed."""

    def __init__(self, nerves: Path | str) -> None:
        """Connect.

        Args:
            nerves: The `nerves.json` of the running engine.

        Raises:
            NervesError: The engine cannot be reached, or another agent has a lease on an electrode.
        """
        self._client = NervesClient.from_file(nerves)
        try:
            info = self._client.info()
            self._rate_hz = info.sample_rate_hz
            self._electrodes = info.electrodes
            low, high = IMPEDANCE_KOHM
            self._usable = tuple(e for e, kohm in enumerate(info.impedance_kohm) if low < kohm < high)
            self._lease = self._client.acquire_lease(self._usable).lease
        except BaseException:
            self._client.close()
            raise
        self._arrived = threading.Condition()
        self._batches: list[SpikeBatch] = []
        self._seen_frame = 0
        self._failure: NervesError | None = None
        self._closing = False
        self._reader = threading.Thread(target=self._read, name="spikes of the engine", daemon=True)
        self._reader.start()

    @property
    def electrodes(self) -> int:
        """Return the number of electrodes."""
        return self._electrodes

    def usable(self) -> tuple[int, ...]:
        """Return the electrodes whose impedance allows stimulation."""
        return self._usable

    def window(self, seconds: float, pulses: Sequence[SitePulse] = ()) -> WindowSpikes:
        """Let a window of the array's time pass with these pulses, and return its spikes.

        Raises:
            NervesError: The engine refuses a pulse, ended, or stands still.
        """
        begin = self._client.status().next_frame + round(LEAD_S * self._rate_hz)
        end = begin + round(seconds * self._rate_hz)
        ordered = sorted(pulses, key=lambda pulse: (pulse.at_s, pulse.ua, pulse.electrode))
        for (at_s, ua), group in groupby(ordered, key=lambda pulse: (pulse.at_s, pulse.ua)):
            self._stimulate(begin + round(at_s * self._rate_hz), ua, list(group))
        self._pass(end)
        return self._between(begin, end)

    def close(self) -> None:
        """End the lease and the connection."""
        self._closing = True
        self._client.close()
        self._reader.join()

    def _stimulate(self, at_frame: int, ua: float, pulses: Sequence[SitePulse]) -> None:
        answer = self._client.stimulate(
            self._lease,
            [pulse.electrode for pulse in pulses],
            [PulsePhase(us, phase_ua) for us, phase_ua in pulses[0].phases],
            purpose="environment",
            at_frame=at_frame,
            reply_at_decision=True,
        )
        if not answer.accepted:
            reasons = "; ".join(reason.text for reason in answer.reasons)
            raise NervesError(
                f"the engine refuses a pulse of {ua:g} µA on {len(pulses)} electrodes: {reasons}. Next: rest the tissue, or"
                " choose an environment that stimulates less"
            )

    def _pass(self, end: int) -> None:
        """Wait until the spikes before a frame have arrived."""
        pause = threading.Event()
        detected = end + round(DETECTED_S * self._rate_hz)
        last, still_s = -1, 0.0
        while (frame := self._client.status().next_frame) < detected:
            still_s = 0.0 if frame != last else still_s + POLL_S
            if still_s > STALLED_S:
                raise NervesError(f"the array of the engine stands still at frame {frame}. Next: look at its card")
            last = frame
            pause.wait(max(POLL_S, 0.5 * (detected - frame) / self._rate_hz))
        with self._arrived:
            self._arrived.wait_for(lambda: self._seen_frame >= end or self._failure is not None, SPIKES_WAIT_S)
            if self._failure is not None:
                raise self._failure

    def _between(self, begin: int, end: int) -> WindowSpikes:
        with self._arrived:
            batches, self._batches = self._batches, []
        frames = np.concatenate([np.empty(0, np.int64), *(batch.frames.astype(np.int64) for batch in batches)])
        electrodes = np.concatenate([np.empty(0, np.int32), *(batch.electrodes.astype(np.int32) for batch in batches)])
        inside = (frames >= begin) & (frames < end)
        at_s = ((frames[inside] - begin) / self._rate_hz).astype(np.float64)
        order = np.argsort(at_s, kind="stable")
        return WindowSpikes(electrodes[inside][order], at_s[order], self._electrodes)

    def _read(self) -> None:
        try:
            for batch in self._client.spikes():
                with self._arrived:
                    self._batches.append(batch)
                    self._seen_frame = batch.next_frame
                    self._arrived.notify_all()
        except NervesError as error:
            if not self._closing:
                with self._arrived:
                    self._failure = error
                    self._arrived.notify_all()
