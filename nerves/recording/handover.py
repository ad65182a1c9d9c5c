"""Hand messages from the real-time thread to the writer's process through a bounded buffer that never waits.

The buffer is a queue in shared memory with one writing and one reading end. It is a memory file without a name: nothing stays
when both processes die, and when the engine is killed, the reader still takes out all that was put in. Positions count
bytes and never wrap. The reader learns the position of the head from a pipe: the system call orders the memory, on every
processor. It stays open until the engine is dead, so its end tells of that.
"""

from __future__ import annotations

import mmap
import os
import select
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nerves.recording.layout import MessageKind

PREFIX_BYTES = 4096
"""Start of the memory file: positions of tail (slot 0) and head (slot 8), on cache lines of their own."""
TAIL, HEAD = 0, 8
ALIGN = 32
RESERVED_SHARE = 0.125
"""Share of the buffer that only messages which must not be lost may fill."""
RING_BYTES = 32_768
"""The pipe is written at the latest after this many bytes, and by :meth:`HandoverSender.ring`."""

_HEADER = np.dtype([("kind", "<u4"), ("bytes", "<u4"), ("frame", "<i8"), ("count", "<i8"), ("extra", "<i8")])


@dataclass(frozen=True, slots=True)
class HandoverMessage:
    """One message. `payload` is valid until the next one is taken."""

    kind: MessageKind
    frame: int
    count: int
    extra: int
    payload: NDArray[np.uint8]


def make_memory(capacity_bytes: int) -> int:
    """Return the descriptor of a memory file for a buffer; its pages exist. Raises OSError without enough memory."""
    descriptor = os.memfd_create("choroid-recording", os.MFD_CLOEXEC)
    try:
        os.posix_fallocate(descriptor, 0, PREFIX_BYTES + capacity_bytes // ALIGN * ALIGN)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class _Buffer:
    """The shared memory as arrays."""

    def __init__(self, memory: int) -> None:
        size = os.fstat(memory).st_size
        self._map = mmap.mmap(memory, size)
        whole = np.frombuffer(self._map, np.uint8)
        self._slots = whole[:PREFIX_BYTES].view(np.int64)
        self._bytes = whole[PREFIX_BYTES:]
        self._headers = self._bytes.view(_HEADER)
        self.capacity = len(self._bytes)


class HandoverSender(_Buffer):
    """The engine's end; one thread uses it."""

    def __init__(self, memory: int, pipe: int) -> None:
        """Take the memory file and the writing end of the pipe; both stay the caller's to close."""
        super().__init__(memory)
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._head = int(self._slots[HEAD])
        self._rung = self._head
        self._reserved = int(self.capacity * RESERVED_SHARE)

    @property
    def fill(self) -> float:
        """Share of the buffer that is waiting for the writer."""
        return (self._head - int(self._slots[TAIL])) / self.capacity

    def put(
        self,
        kind: MessageKind,
        frame: int,
        *parts: NDArray[Any] | bytes,
        count: int = 0,
        extra: int = 0,
        urgent: bool = False,
    ) -> bool:
        """Put a message in; return whether there was room. `urgent` ones may fill the reserve."""
        pieces = [_as_bytes(part) for part in parts]
        size = sum(len(piece) for piece in pieces)
        need = ALIGN + -(-size // ALIGN) * ALIGN
        at = self._head % self.capacity
        rest = self.capacity - at
        skipped = rest if need > rest else 0
        room = self.capacity - (self._head - int(self._slots[TAIL]))
        if need + skipped > room - (0 if urgent else self._reserved):
            return False
        if skipped:
            self._headers[at // ALIGN] = (MessageKind.SKIP, skipped - ALIGN, 0, 0, 0)
            at = 0
        begin = at + ALIGN
        for piece in pieces:
            self._bytes[begin : begin + len(piece)] = piece
            begin += len(piece)
        self._headers[at // ALIGN] = (kind, size, frame, count, extra)
        self._head += skipped + need
        self._slots[HEAD] = self._head
        if self._head - self._rung > RING_BYTES:
            self.ring()
        return True

    def ring(self) -> None:
        """Tell the writer how far the buffer is filled."""
        if self._rung == self._head:
            return
        try:
            os.write(self._pipe, self._head.to_bytes(8, "little"))
            self._rung = self._head
        except BlockingIOError:
            pass  # the pipe is full of earlier positions; the next call says it
        except BrokenPipeError:
            self._rung = self._head  # the writer is dead, which its owner learns in another way


def _as_bytes(part: NDArray[Any] | bytes) -> NDArray[np.uint8]:
    if isinstance(part, bytes):
        return np.frombuffer(part, np.uint8)
    return np.ascontiguousarray(part).reshape(-1).view(np.uint8)


class HandoverReceiver(_Buffer):
    """The writer's end."""

    def __init__(self, memory: int, pipe: int) -> None:
        """Take the memory file and the reading end of the pipe; both stay the caller's to close."""
        super().__init__(memory)
        self._pipe = pipe
        self._tail = int(self._slots[TAIL])
        self._known = self._tail
        self.ended = False
        """Whether the other end is closed: the engine has ended, and all it put in can be taken."""

    def wait(self, within_s: float) -> None:
        """Wait for news from the engine."""
        ready, _, _ = select.select([self._pipe], [], [], within_s)
        if not ready:
            return
        said = os.read(self._pipe, 65_536)
        if said:
            self._known = int.from_bytes(said[-8:], "little")
        else:
            self.ended = True
            self._known = int(self._slots[HEAD])

    def messages(self, most: int = 256) -> Iterator[HandoverMessage]:
        """Yield what is there, at most `most`; each one's room is free when the next is asked for, or at the end."""
        for _ in range(most):
            if self._tail >= self._known:
                return
            at = self._tail % self.capacity
            header = self._headers[at // ALIGN]
            size = int(header["bytes"])
            end = self._tail + ALIGN + -(-size // ALIGN) * ALIGN
            kind = MessageKind(int(header["kind"]))
            if kind is not MessageKind.SKIP:
                payload = self._bytes[at + ALIGN : at + ALIGN + size]
                yield HandoverMessage(kind, int(header["frame"]), int(header["count"]), int(header["extra"]), payload)
            self._tail = end
            self._slots[TAIL] = end

    @property
    def waiting_bytes(self) -> int:
        """Bytes that can be taken at once."""
        return self._known - self._tail
