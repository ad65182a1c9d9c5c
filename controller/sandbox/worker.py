"""The process that runs a model: import everything, lock, load, answer calls until the owner is gone.

`python -I -m controller.sandbox.worker SOCKET LIFELINE LIMITS`: two inherited files and the limits as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from dataclasses import asdict
from typing import Any

import numpy as np
import onnxruntime

from controller.sandbox.errors import SandboxUnavailable
from controller.sandbox.limits import ModelLimits
from controller.sandbox.lock import die_with_the_owner, lock
from controller.sandbox.wire import HEADER, MAX_TEXT, TYPES, Kind, Port, header, pack, unpack

SMALLEST = bytes.fromhex(
    "08083a350a0e0a01780a0178120179220341646412016d5a0f0a0178120a0a08080112040a020801620f0a0179120a0a08080112040a0208014204"
    "0a00100d"
)
"""A model of our own, y = x + x: what the runtime does only once is done with it before the lock."""


CHUNK = 1 << 18


class Socket:
    """Messages over a blocking socket, with read(2) and write(2) only."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._received = bytearray()

    def receive(self) -> tuple[int, int, bytes]:
        """Return kind, number and body of the next message; ends the process when the owner has gone."""
        self._receive_until(HEADER.size)
        kind, number, length = HEADER.unpack_from(self._received)
        end = HEADER.size + length
        self._receive_until(end)
        body = bytes(memoryview(self._received)[HEADER.size : end])
        del self._received[:end]
        return kind, number, body

    def send(self, kind: Kind, number: int, body: bytes) -> None:
        """Send a message."""
        waiting = memoryview(header(kind, number, len(body)) + body)
        while waiting:
            waiting = waiting[os.write(self._file, waiting) :]

    def _receive_until(self, length: int) -> None:
        while len(self._received) < length:
            part = os.read(self._file, CHUNK)
            if not part:
                os._exit(0)
            self._received += part


def main() -> None:
    """Run the worker."""
    socket = Socket(int(sys.argv[1]))
    limits = ModelLimits(**json.loads(sys.argv[3]))
    open_model(SMALLEST).run(None, {"x": np.ones(1, np.float32)})
    die_with_the_owner(int(sys.argv[2]))
    _silence()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        lock(limits)
    except SandboxUnavailable as unavailable:
        socket.send(Kind.FAILED, 0, _text(unavailable))
        os._exit(1)
    socket.send(Kind.LOCKED, 0, b"")
    serve(socket)


def serve(socket: Socket) -> None:
    """Load the model of the first message, and answer calls. The first failure ends the process."""
    number = 0
    try:
        _, number, model = socket.receive()
        session = open_model(model)
        inputs, outputs = _ports(session.get_inputs()), _ports(session.get_outputs())
        interface = {"inputs": [asdict(port) for port in inputs], "outputs": [asdict(port) for port in outputs]}
        socket.send(Kind.OPENED, number, json.dumps(interface).encode())
        names = [port.name for port in outputs]
        while True:
            _, number, body = socket.receive()
            answers = session.run(names, unpack(body, inputs))
            socket.send(Kind.ANSWER, number, pack([np.asarray(answer) for answer in answers]))
    except BaseException as error:
        socket.send(Kind.FAILED, number, _text(error))
        os._exit(1)


def open_model(model: bytes) -> Any:
    """Return a session that computes in this thread only.

    Raises:
        Exception: The runtime's own errors.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    options.use_deterministic_compute = True
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _ports(arguments: Any) -> list[Port]:
    ports = []
    for argument in arguments:
        if argument.type not in TYPES:
            raise TypeError(f"{argument.name!r} is of type {argument.type}; only tensors of numbers are allowed")
        shape = tuple(size if isinstance(size, int) else None for size in argument.shape)
        ports.append(Port(argument.name, TYPES[argument.type], shape))
    return ports


def _silence() -> None:
    """Give up the streams of the owner."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)


def _text(error: BaseException) -> bytes:
    return f"{type(error).__name__}: {error}".encode(errors="replace")[: MAX_TEXT // 8]


if __name__ == "__main__":
    main()
