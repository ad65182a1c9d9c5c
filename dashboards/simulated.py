"""Controls that only a simulated rig has: its speed and its faults."""

from __future__ import annotations

from typing import Any, Protocol


class SpeedControl(Protocol):
    """The speed of a simulated rig; a real one has none."""

    @property
    def speed(self) -> float:
        """Times real time."""

    def set_speed(self, speed: float) -> None:
        """Change it; raises ValueError outside its range."""


class FaultsControl(Protocol):
    """Faults of a simulated lab, made by hand; a real one has none."""

    def kinds(self) -> list[dict[str, Any]]:
        """What can go wrong: `kind, group, meaning, targets, momentary`."""

    def lasting(self) -> list[dict[str, Any]]:
        """What is wrong at this moment: `number, kind, target, meaning, left_s`."""

    def make(self, kind: str, target: str, for_s: float) -> None:
        """Inject a fault for `for_s` (s; 0: until it is cleared). Raises ValueError for an impossible one."""

    def end(self, number: int) -> str:
        """End a fault and return its description; raise KeyError for one that does not last."""
