"""Interface of the sinks that export readings."""

from __future__ import annotations

from typing import Protocol

from controller.core.state import State


class Sink(Protocol):
    """A destination of readings, such as MQTT. It must return at once and never fail."""

    name: str
    """Its name in alarms."""

    @property
    def problem(self) -> str | None:
        """Why no readings get through at present, for people; None if they do."""

    def offer(self, state: State) -> None:
        """Accept this tick's snapshot."""
