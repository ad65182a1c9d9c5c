"""Open a model of an unknown author in a locked process of its own, and run it.

    with SandboxedModel.open(onnx_bytes) as model:
        outputs = model.run({"spikes": counts}, deadline_s=0.5)

The owner trusts nothing that the worker says: lengths, names and types are checked, and data is copied.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self, TypeVar

from controller.children.accounts import ProcessorShare, now_s
from controller.children.patience import NEVER, ChildSilent, Patience, patiently, wait_readable
from controller.sandbox.check import ModelFacts, check_model
from controller.sandbox.errors import ModelFailed, ModelRefused, ModelTooSlow, SandboxUnavailable
from controller.sandbox.files import POLLIN, POLLOUT, ready
from controller.sandbox.limits import ModelLimits
from controller.sandbox.proof import gaps
from controller.sandbox.wire import HEADER, MAX_TEXT, TYPES, BadTensors, Kind, Port, Tensor, header, pack, unpack

T = TypeVar("T")

WORKER = ("-I", "-m", "controller.sandbox.worker")
ENVIRONMENT = {
    "ORT_DISABLE_TELEMETRY": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""All that the worker sees of the environment. Without the first, the runtime reports its use to its maker from a thread."""

SEND_WITHIN_S = 5.0
CHUNK = 1 << 20
BUSY_S = 600.0
"""How long a worker that gets no processor may take to receive its model (s)."""
ENDS_WITHIN_S = 0.02
"""How long the cause of an end is waited for (s)."""

MISSING = "onnxruntime is not installed. Next: pip install 'choroid[agents]'"


class SandboxedModel:
    """A model in its worker process. One call at a time; not for several threads at once. Close it.

    `inputs` and `outputs` describe the tensors, `facts` what the check counted. After an error the worker is killed.
    """

    def __init__(self, facts: ModelFacts, limits: ModelLimits, command: Sequence[str]) -> None:
        """Start the worker; use :meth:`open` or :meth:`open_async`."""
        self.facts = facts
        self.inputs: tuple[Port, ...] = ()
        self.outputs: tuple[Port, ...] = ()
        self._limits = limits
        self._number = 0
        self._waiting: int | None = None
        self._received = bytearray()
        self._failure: ModelFailed | None = None
        self._closed = False
        self._socket, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        self._socket.setblocking(False)
        try:
            self._process = subprocess.Popen(  # noqa: S603  (our own interpreter and module)
                [sys.executable, "-P", *command, str(theirs.fileno()), str(lifeline), json.dumps(asdict(limits))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(theirs.fileno(), lifeline),
                env=ENVIRONMENT,
                cwd="/",
            )
        except BaseException:
            self._socket.close()
            os.close(self._lifeline)
            raise
        finally:
            theirs.close()
            os.close(lifeline)
        self._share = ProcessorShare(self.pid)

    @classmethod
    def open(cls, model: bytes, limits: ModelLimits | None = None, *, command: Sequence[str] = WORKER) -> Self:
        """Check a model, start a worker, lock it in, and load the model there.

        Args:
            model: The bytes of an ONNX file.
            limits: How much it may use.
            command: Words after the interpreter that start the worker; for tests of the sandbox.

        Raises:
            ModelRefused: The check, or the runtime, refuses the model.
            SandboxUnavailable: This machine cannot lock a process in, or the extra `agents` is not installed.
            ModelFailed: The worker died while it loaded the model.
        """
        limits = limits or ModelLimits()
        opened = cls(_checked(model, limits), limits, command)
        try:
            patience = Patience(opened.pid, limits.max_start_s)
            opened._locked(opened._receive_patiently(patience))
            opened._send(Kind.MODEL, model, now_s() + BUSY_S)
            opened._opened(opened._receive_patiently(patience))
        except BaseException:
            opened.close()
            raise
        return opened

    @classmethod
    async def open_async(
        cls, model: bytes, limits: ModelLimits | None = None, *, command: Sequence[str] = WORKER
    ) -> Self:
        """Do the same as :meth:`open` without blocking the event loop, except for the check (about 1 ms for each MB)."""
        limits = limits or ModelLimits()
        opened = cls(_checked(model, limits), limits, command)
        try:
            patience = Patience(opened.pid, limits.max_start_s)
            opened._locked(await opened._in_start(opened._receive_async(NEVER), patience))
            await opened._in_start(opened._send_async(Kind.MODEL, model, NEVER), patience)
            opened._opened(await opened._in_start(opened._receive_async(NEVER), patience))
        except BaseException:
            opened.close()
            raise
        return opened

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._process.pid

    def processor_share(self) -> float:
        """Return the share of a processor that the worker has used since the last call; since its start at first."""
        return self._share.since()

    @property
    def busy(self) -> bool:
        """Whether a call has been started whose result was not taken."""
        return self._waiting is not None

    def run(self, inputs: Mapping[str, Tensor], deadline_s: float) -> dict[str, Tensor]:
        """Run the model once.

        Args:
            inputs: One array for each input, of its type and shape.
            deadline_s: Longest real time from now.

        Returns:
            The outputs by name; read-only arrays.

        Raises:
            BadTensors: An input is missing or does not fit; the model still runs.
            ModelTooSlow: There was no answer in time; the worker was killed.
            ModelFailed: The worker died or reported an error.
        """
        until = now_s() + deadline_s
        self._start(self._body(inputs), until)
        return self._outputs(self._receive(until))

    async def run_async(self, inputs: Mapping[str, Tensor], deadline_s: float) -> dict[str, Tensor]:
        """Do the same as :meth:`run` without blocking the event loop. A cancelled call kills the worker."""
        until = now_s() + deadline_s
        body = self._body(inputs)
        try:
            self._waiting = self._next()
            await self._send_async(Kind.CALL, body, until)
            return self._outputs(await self._receive_async(until))
        except asyncio.CancelledError:
            self._end(ModelFailed("the call was cancelled; the worker was killed"))
            raise

    def start(self, inputs: Mapping[str, Tensor]) -> None:
        """Begin a call; :meth:`result` takes its answer. Raises as :meth:`run` does."""
        self._start(self._body(inputs), now_s() + SEND_WITHIN_S)

    def result(self, within_s: float) -> dict[str, Tensor] | None:
        """Return the answer to the call begun with :meth:`start`, or None when it is not there within a time.

        Raises:
            ModelFailed: The worker died or reported an error, or no call has begun.
        """
        if self._waiting is None:
            raise ModelFailed("no call has begun; next: call start()")
        try:
            message = self._receive(now_s() + within_s, kill=False)
        except TimeoutError:
            return None
        return self._outputs(message)

    def kill(self, why: str) -> ModelFailed:
        """Kill the worker without waiting for its end; return the error that later calls will raise."""
        return self._end(ModelTooSlow(why))

    def close(self) -> None:
        """Kill the worker, wait for its end and free everything."""
        self._end(ModelFailed("the model was closed"))
        if not self._closed:
            self._closed = True
            self._process.wait()
            self._socket.close()
            os.close(self._lifeline)
            if self._process.stderr is not None:
                self._process.stderr.close()

    def __enter__(self) -> Self:
        """Return this model; it is closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the model."""
        self.close()

    def _locked(self, message: tuple[int, int, bytearray]) -> None:
        """Check that the worker is locked in: by its word, and by what the kernel says of it."""
        kind, _, body = message
        if kind == Kind.FAILED:
            raise SandboxUnavailable(_text(body))
        if kind != Kind.LOCKED:
            raise self._end(ModelFailed(f"the worker sent message {kind} before it was locked"))
        wrong = gaps(self.pid)
        if wrong:
            raise SandboxUnavailable(f"the worker is not locked in: {', '.join(wrong)}; no model was given to it")

    def _opened(self, message: tuple[int, int, bytearray]) -> None:
        kind, _, body = message
        if kind == Kind.FAILED:
            raise ModelRefused(f"the runtime refuses the model: {_text(body)}")
        try:
            if kind != Kind.OPENED:
                raise ValueError(f"message {kind}")
            said = json.loads(body)
            self.inputs, self.outputs = (_ports(said[key], self._limits.max_tensors) for key in ("inputs", "outputs"))
        except (ValueError, KeyError, TypeError) as error:
            raise self._end(
                ModelFailed(f"the worker described the model in a way that is not understood: {error}")
            ) from None

    def _next(self) -> int:
        if self._failure is not None:
            raise ModelFailed(str(self._failure)) from self._failure
        if self._waiting is not None:
            raise ModelFailed("a call is under way; next: take its result first")
        self._number = (self._number + 1) & 0xFFFFFFFF
        return self._number

    def _body(self, inputs: Mapping[str, Tensor]) -> bytes:
        if inputs.keys() != {port.name for port in self.inputs}:
            raise BadTensors(f"the inputs are {[port.name for port in self.inputs]}, not {sorted(inputs)}")
        tensors = [inputs[port.name] for port in self.inputs]
        for port, tensor in zip(self.inputs, tensors, strict=True):
            port.require(tensor)
        if sum(tensor.nbytes for tensor in tensors) > self._limits.max_io:
            raise BadTensors(f"the inputs are larger than {self._limits.max_io} bytes")
        return pack(tensors)

    def _start(self, body: bytes, until: float) -> None:
        self._waiting = self._next()
        self._send(Kind.CALL, body, until)

    def _outputs(self, message: tuple[int, int, bytearray]) -> dict[str, Tensor]:
        kind, number, body = message
        waiting, self._waiting = self._waiting, None
        if kind == Kind.FAILED:
            raise self._end(ModelFailed(f"the model failed: {_text(body)}"))
        try:
            if kind != Kind.ANSWER or number != waiting:
                raise BadTensors(f"message {kind} number {number} came instead of answer {waiting}")
            return unpack(bytes(body), self.outputs)
        except BadTensors as error:
            raise self._end(ModelFailed(f"the worker gave an answer that is not understood: {error}")) from None

    def _send(self, kind: Kind, body: bytes, until: float) -> None:
        data = memoryview(header(kind, self._number, len(body)) + body)
        while data:
            try:
                data = data[self._socket.send(data) :]
            except BlockingIOError:
                if not ready(self._socket.fileno(), POLLOUT, until):
                    raise self._late() from None
            except OSError:
                raise self._died() from None

    async def _send_async(self, kind: Kind, body: bytes, until: float) -> None:
        loop = asyncio.get_running_loop()
        data = header(kind, self._number, len(body)) + body
        try:
            await asyncio.wait_for(loop.sock_sendall(self._socket, data), max(0.0, until - now_s()))
        except TimeoutError:
            raise self._late() from None
        except OSError:
            raise self._died() from None

    def _receive(self, until: float, *, kill: bool = True) -> tuple[int, int, bytearray]:
        """Return the next message. Raises TimeoutError, or with `kill` ModelTooSlow, when it is not there in time."""
        while True:
            message = self._complete()
            if message is not None:
                return message
            try:
                part = self._socket.recv(CHUNK)
            except BlockingIOError:
                if not ready(self._socket.fileno(), POLLIN, until):
                    if kill:
                        raise self._late() from None
                    raise TimeoutError from None
                continue
            except OSError:
                part = b""
            if not part:
                raise self._died()
            self._received += part

    async def _receive_async(self, until: float) -> tuple[int, int, bytearray]:
        loop = asyncio.get_running_loop()
        while True:
            message = self._complete()
            if message is not None:
                return message
            try:
                part = await asyncio.wait_for(loop.sock_recv(self._socket, CHUNK), max(0.0, until - now_s()))
            except TimeoutError:
                raise self._late() from None
            except OSError:
                part = b""
            if not part:
                raise self._died()
            self._received += part

    def _receive_patiently(self, patience: Patience) -> tuple[int, int, bytearray]:
        """Receive during the start: only time in which the worker could run counts."""
        while True:
            try:
                wait_readable(self._socket, patience)
                return self._receive(now_s(), kill=False)
            except ChildSilent:
                raise self._late() from None
            except TimeoutError:
                continue  # a part has come

    async def _in_start(self, work: Awaitable[T], patience: Patience) -> T:
        """Await a part of the start: only time in which the worker could run counts."""
        try:
            return await patiently(work, patience)
        except ChildSilent:
            raise self._late() from None

    def _complete(self) -> tuple[int, int, bytearray] | None:
        """Take one message from what was received, when it is whole."""
        if len(self._received) < HEADER.size:
            return None
        kind, number, length = HEADER.unpack_from(self._received)
        if length > self._limits.max_io + MAX_TEXT:
            raise self._end(ModelFailed(f"the model gave {length} bytes; the limit is {self._limits.max_io}"))
        end = HEADER.size + length
        if len(self._received) < end:
            return None
        body = self._received[HEADER.size : end]
        del self._received[:end]
        return kind, number, body

    def _late(self) -> ModelFailed:
        return self._end(ModelTooSlow("the model did not answer before its deadline; the worker was killed"))

    def _died(self) -> ModelFailed:
        """Return why the worker is gone, when its end of the socket has closed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ENDS_WITHIN_S)
        code = self._process.poll()
        self._process.kill()
        said = b""
        if self._process.stderr is not None and not self.outputs:  # once it is locked it says nothing there
            said = self._process.stderr.read(MAX_TEXT)
        if b"No module named 'onnxruntime'" in said:
            raise SandboxUnavailable(MISSING)
        return self._end(ModelFailed(f"the worker ended: {_cause(code)} {_text(said)[-500:]}".rstrip()))

    def _end(self, why: ModelFailed) -> ModelFailed:
        """Kill the worker; return the first reason. Never waits: a real-time thread may call it."""
        if self._failure is None:
            self._failure = why
            self._waiting = None
            self._process.kill()
        return self._failure


def _checked(model: bytes, limits: ModelLimits) -> ModelFacts:
    if find_spec("onnxruntime") is None:
        raise SandboxUnavailable(MISSING)
    return check_model(model, limits)


def _ports(said: Any, most: int) -> tuple[Port, ...]:
    if len(said) > most:
        raise ValueError(f"{len(said)} tensors; the limit is {most}")
    ports = tuple(Port(str(port["name"]), str(port["dtype"]), _size(port["shape"])) for port in said)
    if any(port.dtype not in TYPES.values() for port in ports) or len({port.name for port in ports}) != len(ports):
        raise ValueError("types or names")
    return ports


def _size(said: Any) -> tuple[int | None, ...]:
    return tuple(None if size is None else int(size) for size in said)


def _cause(code: int | None) -> str:
    """Return what the exit code of a worker says."""
    if code is None:
        return "it closed its socket"
    if code >= 0:
        return f"with exit code {code}"
    name = signal.Signals(-code).name
    return f"killed by {name}" + {
        signal.SIGSYS: ": it made a system call that the sandbox forbids",
        signal.SIGXCPU: ": it used up its processor time",
        signal.SIGKILL: ": by the kernel or an operator; likely cause: out of memory",
        signal.SIGSEGV: ": it crashed",
        signal.SIGABRT: ": it crashed; likely cause: out of memory",
    }.get(signal.Signals(-code), "")


def _text(body: bytes | bytearray) -> str:
    """Return text of the worker: short, and without control characters."""
    text = bytes(body[:MAX_TEXT]).decode(errors="replace")
    return "".join(char if char.isprintable() else " " for char in text)[:2000].strip()
