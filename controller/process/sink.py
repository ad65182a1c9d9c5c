"""Interface of the sinks that export readings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from controller.core.discarded import Discarded
from controller.core.state import State


class Sink(Protocol):
    """A destination of readings, such as MQTT. It must return at once and never fail."""

    name: str
    """Its name in alarms."""

    @property
    def causes(self) -> Mapping[str, str]:
        """The present causes of alarms, by kind: details for people."""

    @property
    def discarded(self) -> tuple[Discarded, ...]:
        """What was discarded so far."""

    def offer(self, state: State) -> None:
        """Accept this tick's snapshot."""
