"""What carries readings away from the controller."""

from __future__ import annotations

from typing import Protocol

from controller.core.state import State


class Sink(Protocol):
    """Something that carries readings away (MQTT, say). It must return at once and never fail."""

    name: str
    """What alarms call it."""

    @property
    def problem(self) -> str | None:
        """Why nothing gets through at present, for people."""

    def offer(self, state: State) -> None:
        """Take this tick's snapshot."""
