"""The lab in software: one plant and a wire-level device for each that the rig names, on lines that anyone may open."""

from __future__ import annotations

import asyncio
import os
import tty
from collections.abc import Callable
from typing import Any

from controller.rig.description import Rig
from sim.devices.alicat_mfc import AlicatMfc
from sim.devices.atlas_ezo import EzoDo, EzoPh, EzoRtd
from sim.devices.atlas_ezo_pmp import AtlasEzoPmp
from sim.devices.ismatec_reglo_icc import IsmatecRegloIcc
from sim.devices.keller_x_line import KellerXLine
from sim.devices.mettler_sics import MettlerSics
from sim.devices.modbus_coil_relay import ModbusCoilRelay
from sim.devices.wire import Line, WireDevice
from sim.plant.plant import Plant

DEVICES: dict[str, type[WireDevice]] = {
    "ismatec-reglo-icc": IsmatecRegloIcc,
    "atlas-ezo-ph": EzoPh,
    "atlas-ezo-do": EzoDo,
    "atlas-ezo-rtd": EzoRtd,
    "atlas-ezo-pmp": AtlasEzoPmp,
    "keller-x-line": KellerXLine,
    "alicat-mfc": AlicatMfc,
    "mettler-sics": MettlerSics,
    "modbus-coil-relay": ModbusCoilRelay,
}


class Lab:
    """Builds and powers every device of `rig`; must be made while a loop runs (its time is the plant's)."""

    def __init__(self, rig: Rig, *, seed: int) -> None:
        self.rig = rig
        self.plant = Plant(rig, seed=seed, now=asyncio.get_running_loop().time)
        self.lines: dict[str, Line] = {}
        self.devices: dict[str, WireDevice] = {}
        for name, spec in rig.devices.items():
            device = DEVICES[spec.model](name, spec, self.plant)
            self.devices[name] = device
            self.lines.setdefault(spec.link, Line(spec.link)).attach(device)
        for device in self.devices.values():
            device.power_on()
        self._closers: list[Callable[[], Any]] = []
        self._servers: list[asyncio.Server] = []

    async def opener(self, url: Any, settings: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a `sim:` link in memory. Raises OSError for a line that this lab does not have."""
        line = self.lines.get(f"sim:{url.target}") if url.scheme == "sim" else None
        if line is None:
            raise OSError(f"the lab has no line {url}")
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport = MemoryTransport(line, protocol)
        protocol.connection_made(transport)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def serve_tcp(self, host: str = "127.0.0.1", base_port: int = 0) -> dict[str, str]:
        """Serve each line on a TCP port of its own (from `base_port`, or any free ones); link -> tcp://host:port."""
        endpoints = {}
        for number, (link, line) in enumerate(self.lines.items()):
            server = await asyncio.start_server(
                lambda reader, writer, line=line: self._serve(line, reader, writer),
                host,
                base_port + number if base_port else 0,
            )
            self._servers.append(server)
            endpoints[link] = f"tcp://{host}:{server.sockets[0].getsockname()[1]}"
        return endpoints

    async def _serve(self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def deliver(data: bytes) -> None:
            if not writer.is_closing():
                writer.write(data)

        line.clients.append(deliver)
        try:
            while data := await reader.read(4096):
                line.from_client(data)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            line.clients.remove(deliver)
            writer.close()

    async def serve_pty(self) -> dict[str, str]:
        """Serve each line on a pseudo-terminal; link -> path. A pty cannot prove baud or parity."""
        loop = asyncio.get_running_loop()
        endpoints = {}
        for link, line in self.lines.items():
            master, slave = os.openpty()
            tty.setraw(slave)
            os.set_blocking(master, False)

            def readable(master: int = master, line: Line = line) -> None:
                try:
                    line.from_client(os.read(master, 4096))
                except OSError:
                    pass

            def deliver(data: bytes, master: int = master) -> None:
                try:
                    os.write(master, data)
                except OSError:
                    pass

            loop.add_reader(master, readable)
            line.clients.append(deliver)

            def closer(master: int = master, slave: int = slave) -> None:
                loop.remove_reader(master)
                os.close(master)
                os.close(slave)

            self._closers.append(closer)
            endpoints[link] = os.ttyname(slave)
        return endpoints

    async def close(self) -> None:
        """Power every device down and stop serving."""
        for device in self.devices.values():
            device.powered = False
            device.power_off()
        for server in self._servers:
            server.close()
        for closer in self._closers:
            closer()
        self._closers.clear()


class MemoryTransport(asyncio.Transport):
    """One client's end of an in-memory line."""

    def __init__(self, line: Line, protocol: asyncio.StreamReaderProtocol) -> None:
        super().__init__()
        self._line = line
        self._protocol = protocol
        self._closing = False
        line.clients.append(self._deliver)

    def _deliver(self, data: bytes) -> None:
        self._protocol.data_received(data)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Bytes to the devices, at once."""
        if not self._closing:
            self._line.from_client(bytes(data))

    def is_closing(self) -> bool:
        """Whether close() was called."""
        return self._closing

    def close(self) -> None:
        """Leave the line."""
        if not self._closing:
            self._closing = True
            self._line.clients.remove(self._deliver)
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    abort = close

    def get_write_buffer_size(self) -> int:
        """Nothing is ever buffered."""
        return 0

    def pause_reading(self) -> None:
        """A serial line has no flow control here."""

    def resume_reading(self) -> None:
        """See :meth:`pause_reading`."""
