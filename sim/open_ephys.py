"""The plugin ZMQ Interface of the Open Ephys GUI as a publisher: each channel of a buffer is a message of three parts."""

from __future__ import annotations

import json
import time

import numpy as np
import zmq
from numpy.typing import NDArray

from sim.neurons.array import UV_PER_UNIT
from sim.streaming import Sampled, StreamingBoard

BUFFER_FRAMES = 256


class ZmqInterface:
    """Publishes an array on `port` (0: any free one) until :meth:`close`."""

    def __init__(
        self,
        array: Sampled,
        sample_rate_hz: float,
        *,
        stream: str = "acquisition_board",
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, 100_000)
        shown = f"[{host}]" if ":" in host else host
        self._socket.bind(f"tcp://{shown}:{port or '*'}")
        self.port = int(self._socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
        self.stream = stream
        self._rate = sample_rate_hz
        self._number = 0
        self.lost: set[int] = set()
        """Channels whose next message is lost on the way."""
        self.board = StreamingBoard(array, sample_rate_hz, BUFFER_FRAMES, self._publish)

    def _publish(self, first: int, samples: NDArray[np.int16]) -> None:
        for channel in range(samples.shape[1]):
            self._number += 1
            data = (samples[:, channel] * UV_PER_UNIT).astype("<f4").tobytes()
            header = {
                "message_num": self._number,
                "type": "data",
                "content": {
                    "stream": self.stream,
                    "channel_num": channel,
                    "channel_name": f"CH{channel + 1}",
                    "num_samples": len(samples),
                    "sample_num": first,
                    "sample_rate": self._rate,
                },
                "data_size": len(data),
                "timestamp": round(time.monotonic() * 1000),  # noqa: TID251  (the GUI's own clock)
            }
            if channel in self.lost:
                self.lost.discard(channel)
            else:
                self._socket.send_multipart([b"DATA\0", json.dumps(header).encode(), data])

    def event(self) -> None:
        """Publish a TTL event, which has the same parts."""
        header = {"message_num": 0, "type": "event", "content": {"stream": self.stream, "type": 3, "sample_num": 0}}
        self._socket.send_multipart([b"EVENT\0", json.dumps(header).encode(), bytes(10)])

    def close(self) -> None:
        """End the publisher."""
        self.board.close()
        self._context.destroy(0)
