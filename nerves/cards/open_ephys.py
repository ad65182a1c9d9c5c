"""The input card of the Open Ephys GUI, through its plugin ZMQ Interface.

The plugin publishes each channel of each buffer as a message of its own: an envelope, a header in JSON, and samples in
microvolts. A buffer of which a message was lost is a gap. The plugin has no way to stimulate.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import zmq

from nerves.cards.arrival_clock import steady_s
from nerves.cards.contract import CardRefused, Frames
from nerves.cards.input_only import input_info
from nerves.cards.replayable import FLOAT_UV, Scaling
from nerves.cards.streamed import BLOCK_S, STALLED_AFTER_S, StreamedCard

FOUND_WITHIN_S = 5.0
"""How long the card waits for the first buffers (s)."""
HIGH_WATER = 100_000
"""Messages that may wait in this process: about 10 s of 64 channels."""
DATA = b"DATA"


@dataclass
class _Buffer:
    """One buffer of all channels, as it comes together."""

    first: int
    frames: int
    rows: dict[int, np.ndarray[Any, np.dtype[np.float32]]] = field(default_factory=dict)


class OpenEphysCard(StreamedCard):
    """Reads a stream of the Open Ephys GUI as an :class:`~nerves.cards.contract.ElectrodeCard` that only records.

    Raises:
        CardRefused: No data come, or the stream is not clear.
    """

    stalled = (
        "no data come from Open Ephys; see whether it acquires, whether the plugin ZMQ Interface is in its signal chain,"
        " and the network"
    )

    def __init__(
        self,
        host: str,
        port: int,
        *,
        electrodes: int,
        stream: str = "",
        material: str = "Pt",
        diameter_um: float = 30.0,
        simulated: bool = False,
        stalled_after_s: float = STALLED_AFTER_S,
    ) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.setsockopt(zmq.RCVHWM, HIGH_WATER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.subscribe(b"")
        shown = f"[{host}]" if ":" in host else host
        self._socket.connect(f"tcp://{shown}:{port}")
        self._electrodes = electrodes
        self._stream = stream
        self._buffer: _Buffer | None = None
        try:
            rate, channels = self._found(f"{shown}:{port}")
        except BaseException:
            self._context.destroy(0)
            raise
        gains = np.ones(electrodes)
        self._scaling = Scaling(np.dtype(np.float32), gains, 0.0 * gains)
        super().__init__(
            input_info(
                f"Open Ephys stream {self._stream}, {channels} channels", channels, rate, FLOAT_UV,
                block_frames=max(1, round(BLOCK_S * rate)), material=material, diameter_um=diameter_um, simulated=simulated,
            ),
            stalled_after_s,
        )  # fmt: skip

    def _found(self, where: str) -> tuple[float, int]:
        """Wait for one buffer of each stream; return sample rate and channels of the wanted one."""
        streams: dict[str, float] = {}
        highest: dict[str, int] = {}
        begun: dict[str, int] = {}
        until_s = steady_s() + FOUND_WITHIN_S
        while (left_s := until_s - steady_s()) > 0:
            received = self._received(left_s)
            if received is None:
                continue
            content = received[0]
            name, number = str(content["stream"]), int(content["channel_num"])
            if name in begun and int(content["sample_num"]) != begun[name] and self._stream in ("", name):
                break  # a second buffer begins: every channel of the first was seen
            begun.setdefault(name, int(content["sample_num"]))
            streams[name] = float(content["sample_rate"])
            highest[name] = max(highest.get(name, 0), number)
        names = ", ".join(streams) or "none"
        if not self._stream and len(streams) == 1:
            (self._stream,) = streams
        if self._stream in streams:
            return streams[self._stream], highest[self._stream] + 1
        if not streams:
            raise CardRefused(
                f"no data come from Open Ephys at {where}. Likely cause: it does not acquire, or the plugin ZMQ Interface has"
                " another port. Next: put ZMQ Interface into its signal chain, press play, compare the port"
            )
        said = f"no stream “{self._stream}”" if self._stream else "several streams"
        raise CardRefused(f"Open Ephys at {where} sends {said}. Next: write stream: under the options, one of: {names}")

    def _received(self, within_s: float) -> tuple[dict[str, Any], bytes] | None:
        """Return header and samples of the next message with data; None for another, or when none came in time."""
        if not self._socket.poll(max(0, round(within_s * 1000))):
            return None
        parts = self._socket.recv_multipart()
        if len(parts) != 3 or parts[0].rstrip(b"\0") != DATA:
            return None
        try:
            content = json.loads(parts[1])["content"]
            if 4 * int(content["num_samples"]) != len(parts[2]):
                return None
        except (ValueError, KeyError, TypeError):
            return None
        return content, parts[2]

    def _piece(self, within_s: float) -> tuple[int, Frames] | None:
        until_s = steady_s() + within_s
        while (left_s := until_s - steady_s()) > 0:
            received = self._received(left_s)
            if received is None or received[0]["stream"] != self._stream:
                continue
            content, data = received
            number, first, frames = (int(content[key]) for key in ("channel_num", "sample_num", "num_samples"))
            if self._buffer is None or self._buffer.first != first:
                self._buffer = _Buffer(first, frames)  # what is not complete by now has lost a message: a gap
            if number < self._electrodes and frames == self._buffer.frames:
                self._buffer.rows[number] = np.frombuffer(data, "<f4")
            if len(self._buffer.rows) == self._electrodes:
                rows, self._buffer = self._buffer.rows, None
                return first, self._scaling.units(np.stack([rows[each] for each in range(self._electrodes)], axis=1))
        return None

    def close(self) -> None:
        """Disconnect."""
        if not self._closed:
            super().close()
            self._context.destroy(0)
