"""The simulated lab: one plant, and a wire-level device for each device of the rig, on lines that clients open.

In memory (:attr:`SimulatedLab.opener`) for a stack under virtual time; over TCP and pseudo-terminals for anyone's client.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol
from urllib.parse import parse_qs
from zlib import crc32

from controller.rig.description import DeviceSpec, Rig
from sim.camera.scene import TissueInView
from sim.camera.serving import CameraServer, ServedCamera
from sim.devices.catalogue import DEVICES
from sim.devices.eurotherm_3200 import Eurotherm3200
from sim.devices.huber_pb import HuberPb
from sim.devices.julabo import Julabo
from sim.devices.port import PlantPort
from sim.devices.wire import Bus, WireDevice
from sim.faults.drives import Drives
from sim.plant.parameters import PUBLISHED, PlantParameters
from sim.plant.plant import Plant
from sim.serving import PseudoTerminal, TcpClient, open_in_memory

MAX_LAB_NUMBER = 90_000
"""Laboratories have numbers below this one, which become part of the serial numbers of their devices."""


class SimUrl(Protocol):
    """The parts of a link that the opener needs."""

    @property
    def scheme(self) -> str:
        """Return `sim`, `tcp` or `serial`."""

    @property
    def target(self) -> str:
        """Return the name of the line."""


class SimulatedLab:
    """Every device of `rig`, powered, over one plant. Make it while the loop runs whose time is to be the lab's.

    `lines` are keyed by the link's text, `devices` by name. Devices keep their state whatever clients do: pull a
    cable with `lines[link].unplug()`, take power with `devices[name].power_off()`. `plant` may be given for tests.
    """

    def __init__(
        self,
        rig: Rig,
        *,
        seed: int,
        plant: Plant | None = None,
        parameters: PlantParameters = PUBLISHED,
        identity: str | None = None,
    ) -> None:
        """Build the devices.

        Args:
            rig: the rig file.
            seed: seed of the plant's chance.
            plant: a plant to use instead of a new one.
            parameters: parameters of a new plant.
            identity: the serial numbers of the devices follow from it: two laboratories of different identities have
                different devices. Rig name and seed, if not given.
        """
        self.rig = rig
        lab_number = crc32((f"{rig.name} {seed}" if identity is None else identity).encode()) % MAX_LAB_NUMBER
        self.plant = plant or Plant(rig, seed=seed, now=asyncio.get_running_loop().time, parameters=parameters)
        self.drives = Drives(self.plant)
        self.lines: dict[str, Bus] = {}
        self.devices: dict[str, WireDevice] = {}
        self._servers: list[asyncio.Server] = []
        self._terminals: list[PseudoTerminal] = []
        self._cameras: CameraServer | None = None
        self._folder: TemporaryDirectory[str] | None = None
        """Where the terminals are found."""
        for name, spec in rig.devices.items():
            device = self.devices[name] = _build(name, spec, self.drives)
            device.belong_to(lab_number)
            if spec.link not in self.lines:
                self.lines[spec.link] = _line(spec.link, device)
            self.lines[spec.link].attach(device)
        watchdog = rig.safety.watchdog
        fed = () if watchdog is None else watchdog.feeds
        if watchdog is not None:
            self.drives.contacts[watchdog.relay] = self._feed
        for name, device in self.devices.items():
            if name not in fed:  # the contact is open until it is closed
                device.power_on()
        self._warm_bath()

    def _warm_bath(self) -> None:
        """Bring the thermostat's bath to the skin's set-point: a lab begins with warm tissue."""
        skin = self.rig.organs.skin
        keeper = None if skin is None else self.devices.get(skin.heater.partition(".")[0])
        if skin is not None and isinstance(keeper, (Eurotherm3200, HuberPb, Julabo)):
            keeper.bath.become(skin.setpoint_c)

    def _feed(self, closed: bool) -> None:
        """Switch the power of the devices on the watchdog's contact."""
        watchdog = self.rig.safety.watchdog
        for name in () if watchdog is None else watchdog.feeds:
            if closed:
                self.devices[name].power_on()
            else:
                self.devices[name].power_off()

    async def opener(self, url: SimUrl, settings: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a `sim:` link in memory. `settings` do not matter: memory has no baud rate of its own.

        Raises ConnectionRefusedError while the line is unplugged, FileNotFoundError when the lab has no such line.
        """
        for link, line in self.lines.items():
            if url.scheme == "sim" and link.partition("?")[0] == f"sim:{url.target}":
                return open_in_memory(line)
        raise FileNotFoundError(
            f"the lab in software has no line {url.scheme}:{url.target}; it has {', '.join(self.lines)}."
            " Likely cause: another rig file than the lab's. Next: compare the links of the two"
        )

    async def serve_tcp(self, host: str = "127.0.0.1", base_port: int = 0) -> dict[str, str]:
        """Serve each line on a TCP port of its own, from `base_port` on (0: any that are free).

        Returns link → "tcp://host:port". Any number of clients may be connected to a line at once: each receives the
        answers to its own requests, and everything that devices say unasked. Raises OSError when a port is taken.
        """
        loop = asyncio.get_running_loop()
        endpoints: dict[str, str] = {}
        for number, (link, line) in enumerate(self.lines.items()):
            port = base_port + number if base_port else 0
            server = await loop.create_server(lambda line=line: TcpClient(line), host, port)  # type: ignore[misc]
            self._servers.append(server)
            shown = f"[{host}]" if ":" in host else host
            endpoints[link] = f"tcp://{shown}:{server.sockets[0].getsockname()[1]}"
        return endpoints

    def in_view(self, chamber: str) -> TissueInView | None:
        """Return what a camera over `chamber` sees; None where there is no tissue."""
        tissue = self.plant.truth().tissue.get(chamber)
        if tissue is None:
            return None
        form = list(self.rig.vessels).index(chamber)
        return TissueInView(tissue.diameter_mm, tissue.viability, tissue.dead_fraction, form)

    async def serve_cameras(self, host: str = "127.0.0.1", port: int = 0) -> dict[str, str]:
        """Serve the simulated cameras of the rig over HTTP, on one port; return camera → address of its image."""
        cameras = {
            name: ServedCamera(partial(self.in_view, spec.chamber), spec.settings, spec.pixel_um)
            for name, spec in self.rig.cameras.items()
            if spec.model == "simulated"
        }
        if not cameras:
            return {}
        self._cameras = CameraServer(cameras)
        return await self._cameras.start(host, port)

    async def serve_pty(self) -> dict[str, str]:
        """Serve each line on a pseudo-terminal; return link → path, in a folder of their own.

        A line that is unplugged is gone from there until it is plugged in again, under the same name. A pseudo-terminal
        takes any baud rate and parity that a client sets, so it proves neither.
        """
        endpoints: dict[str, str] = {}
        folder = self._folder = TemporaryDirectory(prefix="choroid-lab-")
        for link, line in self.lines.items():
            name = re.sub(r"\W+", "-", link.partition("?")[0].removeprefix("sim:")).strip("-")
            terminal = PseudoTerminal(line, Path(folder.name) / name)
            self._terminals.append(terminal)
            endpoints[link] = terminal.path
        return endpoints

    async def close(self) -> None:
        """Stop serving, hang up every client, and take the power from every device."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        if self._cameras is not None:
            await self._cameras.close()
        for line in self.lines.values():
            line.unplug()
        for terminal in self._terminals:
            terminal.close()
        self._terminals.clear()
        if self._folder is not None:
            self._folder.cleanup()
        for device in self.devices.values():
            device.power_off()
        for server in servers:
            await server.wait_closed()
        await asyncio.sleep(0)  # the hung-up connections close in the next turn of the loop


def _build(name: str, spec: DeviceSpec, plant: PlantPort) -> WireDevice:
    if spec.model not in DEVICES:
        why = f" ({reason})" if (reason := DEVICES.why_absent(spec.model)) else ""
        raise ValueError(
            f"{name}: the lab in software has no device of model {spec.model}{why}; it has {', '.join(DEVICES)}."
            " Next: choose one of these, or connect a real device"
        )
    return DEVICES[spec.model](name, spec, plant)


def _line(link: str, device: WireDevice) -> Bus:
    """Return the line of a link, at the device's factory speed unless the link gives another (`?baud=…&echo=1`)."""
    options = {key: values[-1] for key, values in parse_qs(link.partition("?")[2]).items()}
    return Bus(link, baud=int(options.get("baud", device.baud)), echo=options.get("echo", "0") == "1")
