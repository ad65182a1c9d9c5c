"""Ways to open a simulated line: in memory, over TCP, on a pseudo-terminal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
import tty
from contextlib import suppress
from pathlib import Path

from sim.devices.wire import Bus

UNREAD_LIMIT = 4096
"""Bytes kept for a client that does not read; a serial port would lose the rest too."""
CHUNK = 4096


class MemoryTransport(asyncio.Transport):
    """A client's end of a line in memory: what is written reaches the devices at once."""

    def __init__(self, line: Bus, protocol: asyncio.StreamReaderProtocol) -> None:
        super().__init__()
        self._line = line
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self._paused = False
        line.connect(self)
        protocol.connection_made(self)

    def deliver(self, data: bytes) -> None:
        """Pass bytes from the line to the reader; lose them while it is full."""
        if not self._closing and not self._paused:
            self._protocol.data_received(data)

    def hang_up(self) -> None:
        """End the connection, because the cable was pulled."""
        self._lose(ConnectionResetError(f"line {self._line.name} was unplugged"))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Pass bytes to the line."""
        if not self._closing:
            self._line.from_client(bytes(data), self)

    def close(self) -> None:
        """Leave the line."""
        self._lose(None)

    abort = close

    def _lose(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._line.disconnect(self)
            self._loop.call_soon(self._protocol.connection_lost, error)

    def is_closing(self) -> bool:
        """Return whether the client has left the line."""
        return self._closing

    def pause_reading(self) -> None:
        """Drop bytes from now on: the reader is full."""
        self._paused = True

    def resume_reading(self) -> None:
        """Deliver bytes again: the reader has room."""
        self._paused = False

    def is_reading(self) -> bool:
        """Return whether bytes from the line are delivered."""
        return not self._paused and not self._closing

    def get_write_buffer_size(self) -> int:
        """Return 0: nothing is buffered."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: nothing is buffered."""

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return the line's name for `peername`."""
        return self._line.name if name == "peername" else default


def open_in_memory(line: Bus) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a reader and a writer on `line`. Raises ConnectionRefusedError while it is unplugged."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport = MemoryTransport(line, protocol)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class TcpClient(asyncio.Protocol):
    """One TCP connection to a line, as a serial server gives it."""

    def __init__(self, line: Bus) -> None:
        self._line = line
        self._transport: asyncio.Transport | None = None
        self._full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the line, or close the connection while the line is unplugged."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  (a stream server gives no other)
        self._transport = transport
        transport.set_write_buffer_limits(high=UNREAD_LIMIT)
        if self._line.elsewhere:
            transport.abort()
            return
        try:
            self._line.connect(self)
        except ConnectionRefusedError:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the line."""
        self._line.from_client(data, self)

    def deliver(self, data: bytes) -> None:
        """Pass bytes from the line to the client; lose them while it does not read."""
        if self._transport is not None and not self._full:
            self._transport.write(data)

    def pause_writing(self) -> None:
        """Drop bytes from now on: the client does not read."""
        self._full = True

    def resume_writing(self) -> None:
        """Deliver bytes again: the client reads."""
        self._full = False

    def hang_up(self) -> None:
        """End the connection, because the cable was pulled."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the line."""
        self._line.disconnect(self)
        self._transport = None


class PseudoTerminal:
    """A line on a pseudo-terminal, raw: what programs open in place of /dev/ttyUSB0.

    With `link`, a path that is free, the terminal is found under that name, as an adapter is under /dev/serial/by-id: when
    the cable is pulled the name is gone, and when it is put back the name is there again and leads to a new terminal.
    Plugged in elsewhere (`Line.elsewhere`), it is called `-replugged`. Without `link` a pulled cable is for good.
    """

    def __init__(self, line: Bus, link: Path | None = None) -> None:
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._name = link
        self._shown: Path | None = None
        self._open = False
        self.path = ""
        """What to open now; as long as the cable is pulled, what was opened before."""
        self._plug()
        if link is not None:
            line.on_plug.append(self._plug)

    def _plug(self) -> None:
        self._master, self._slave = os.openpty()  # kept open: else the master would fail between two clients
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.path = os.ttyname(self._slave)
        if self._name is not None:
            self._shown = self._name.with_name(self._name.name + ("-replugged" if self._line.elsewhere else ""))
            self._shown.symlink_to(self.path)
            self.path = str(self._shown)
        self._open = True
        self._line.connect(self)
        self._loop.add_reader(self._master, self._readable)

    def _readable(self) -> None:
        with suppress(BlockingIOError):
            self._line.from_client(os.read(self._master, CHUNK), self)

    def deliver(self, data: bytes) -> None:
        """Pass bytes from the line to the terminal. Bytes that are not read for long are dropped, as by a closed port."""
        unread = struct.unpack("i", fcntl.ioctl(self._slave, termios.FIONREAD, b"\0\0\0\0"))[0]
        if unread > UNREAD_LIMIT // 4:
            termios.tcflush(self._slave, termios.TCIFLUSH)
        with suppress(BlockingIOError):
            os.write(self._master, data)

    def hang_up(self) -> None:
        """Remove the device file, as of a USB adapter, because the cable was pulled."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._master)
            self._line.disconnect(self)
            os.close(self._master)
            os.close(self._slave)
            if self._shown is not None:
                self._shown.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the terminal for good."""
        if self._plug in self._line.on_plug:
            self._line.on_plug.remove(self._plug)
        self.hang_up()
