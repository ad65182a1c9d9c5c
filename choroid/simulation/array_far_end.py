"""The far end of an electrode card in a simulated laboratory: a server that speaks the card's protocol, before the array."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from choroid.common.extras import load_extra
from sim.neurons.array import SAMPLE_RATE_HZ, SimulatedArray, compiled
from sim.rhx.server import RhxServer


class ArrayFarEnd(Protocol):
    """A server before a simulated array."""

    link: str
    """The link by which its card reaches it."""
    options: dict[str, Any]
    """Options of the card, as the rig file has them."""

    def close(self) -> None:
        """End it."""
        ...


class RhxFarEnd:
    """An RHX server. It listens again when its client has left: no operator is there to press Connect."""

    def __init__(self, array: SimulatedArray, host: str, ports: tuple[int, int]) -> None:
        self._server = RhxServer(array, SAMPLE_RATE_HZ, relisten=True, host=host, ports=ports)
        shown = f"[{host}]" if ":" in host else host
        self.link = f"tcp://{shown}:{self._server.command_port}"
        self.options: dict[str, Any] = {
            "waveform_port": self._server.waveform_port,
            "channels": list(self._server.channels),
        }

    def close(self) -> None:
        """End the server."""
        self._server.close()


class OpenEphysFarEnd:
    """A publisher as the plugin ZMQ Interface of the Open Ephys GUI is one."""

    def __init__(self, array: SimulatedArray, host: str, ports: tuple[int, int]) -> None:
        server = load_extra("sim.open_ephys", "open-ephys", needed_for="card: open-ephys", otherwise=_ANOTHER)
        self._server = server.ZmqInterface(array, SAMPLE_RATE_HZ, host=host, port=ports[0])
        shown = f"[{host}]" if ":" in host else host
        self.link = f"tcp://{shown}:{self._server.port}"
        self.options: dict[str, Any] = {}

    def close(self) -> None:
        """End the publisher."""
        self._server.close()


class LslFarEnd:
    """An outlet of LSL, with a name of its own."""

    def __init__(self, array: SimulatedArray, host: str, ports: tuple[int, int]) -> None:
        outlet = load_extra("sim.lsl", "lsl", needed_for="card: lsl", otherwise=_ANOTHER)
        name = f"choroid-{os.getpid()}"
        self._outlet = outlet.LslOutlet(array, SAMPLE_RATE_HZ, name)
        self.link = f"lsl:{name}"
        self.options: dict[str, Any] = {}

    def close(self) -> None:
        """Withdraw the outlet."""
        self._outlet.close()


_ANOTHER = "choose another card"
FAR_ENDS: Mapping[str, Callable[[SimulatedArray, str, tuple[int, int]], ArrayFarEnd]] = {
    "intan-rhx": RhxFarEnd,
    "open-ephys": OpenEphysFarEnd,
    "lsl": LslFarEnd,
}
"""Cards whose hardware a server can stand for. The simulated card has no far end: it is the array."""
PORTS = 2
"""Ports that a far end takes."""


def serve_array(card: str, array: SimulatedArray, *, host: str = "127.0.0.1", base_port: int = 0) -> ArrayFarEnd:
    """Start the far end of a card.

    Args:
        card: Its name; one of :data:`FAR_ENDS`.
        array: The array before which it stands.
        host: The address on which it listens.
        base_port: The first of its :data:`PORTS` ports; 0: any that are free.
    """
    compiled()
    return FAR_ENDS[card](array, host, (base_port, base_port + 1 if base_port else 0))
