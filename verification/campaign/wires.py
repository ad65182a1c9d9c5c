"""The border between a controller and the lab's wires: bytes cross it, contexts do not.

What a device does after a request is the device's own, and goes on when the controller is frozen or dead; what comes in
for a controller that is frozen waits, as it would in the operating system; what a dead one had written but not sent is
gone.
"""

from __future__ import annotations

import asyncio
from contextvars import Context, copy_context
from typing import Any

from sim.lab import SimulatedLab, SimUrl
from sim.serving import MemoryTransport


class LabConnections:
    """Every connection of one life to the lab."""

    def __init__(self, lab: SimulatedLab) -> None:
        self._lab = lab
        self._open: list[tuple[_NearEnd, _Inlet]] = []
        self.held = False
        self.severed = False

    async def opener(self, url: SimUrl, settings: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """As :meth:`sim.lab.SimulatedLab.opener`."""
        wanted = f"{url.scheme}:{url.target}"
        line = next((line for link, line in self._lab.lines.items() if link.partition("?")[0] == wanted), None)
        if line is None:
            raise FileNotFoundError(f"the lab has no line {wanted}")
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        inlet = _Inlet(reader, loop, self)
        far = Context().run(MemoryTransport, line, inlet)
        near = _NearEnd(far, self)
        self._open = [pair for pair in self._open if not pair[0].is_closing()] + [(near, inlet)]
        return reader, asyncio.StreamWriter(near, inlet, reader, loop)

    def hold(self) -> None:
        """The controller is frozen: what comes in waits."""
        self.held = True

    def release(self) -> None:
        """It goes on."""
        self.held = False
        for _, inlet in list(self._open):
            inlet.release()

    def sever(self) -> None:
        """The controller is dead: the operating system closes its files."""
        self.severed = True
        for end, _ in self._open:
            Context().run(end.far.abort)


class _Inlet(asyncio.StreamReaderProtocol):
    def __init__(self, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop, port: LabConnections) -> None:
        super().__init__(reader, loop=loop)
        self._port = port
        self._context = copy_context()
        self.waiting: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        """Bytes from the lab, in the life's context."""
        if self._port.severed:
            return
        if self._port.held:
            self.waiting.append(data)
            return
        self._context.copy().run(super().data_received, data)

    def release(self) -> None:
        """What has waited comes in at once."""
        waiting, self.waiting = self.waiting, []
        for data in waiting:
            self._context.copy().run(super().data_received, data)


class _NearEnd(asyncio.Transport):
    def __init__(self, far: MemoryTransport, port: LabConnections) -> None:
        super().__init__()
        self.far = far
        self._port = port

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._port.severed:
            Context().run(self.far.write, data)

    def close(self) -> None:
        Context().run(self.far.close)

    abort = close

    def is_closing(self) -> bool:
        return self.far.is_closing()

    def pause_reading(self) -> None:
        self.far.pause_reading()

    def resume_reading(self) -> None:
        self.far.resume_reading()

    def is_reading(self) -> bool:
        return self.far.is_reading()

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever kept."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.far.get_extra_info(name, default)
