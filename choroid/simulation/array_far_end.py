"""The far end of an electrode card in a simulated laboratory: a server that speaks the card's protocol, before the array."""

from __future__ import annotations

from typing import Any, Protocol

from sim.neurons.array import SAMPLE_RATE_HZ, SimulatedArray, compiled
from sim.rhx.server import RhxServer


class FarEnd(Protocol):
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


FAR_ENDS = {"intan-rhx": RhxFarEnd}
"""Cards whose hardware a server can stand for. The simulated card has no far end: it is the array."""
PORTS = 2
"""Ports that a far end takes."""


def serve_array(card: str, array: SimulatedArray, *, host: str = "127.0.0.1", base_port: int = 0) -> FarEnd:
    """Start the far end of a card.

    Args:
        card: Its name; one of :data:`FAR_ENDS`.
        array: The array before which it stands.
        host: The address on which it listens.
        base_port: The first of its :data:`PORTS` ports; 0: any that are free.
    """
    compiled()
    return FAR_ENDS[card](array, host, (base_port, base_port + 1 if base_port else 0))
