"""Controls that only a simulated rig has: its speed and its faults."""

from __future__ import annotations

from typing import Any, Protocol


class SpeedControl(Protocol):
    """The speed of a simulated rig; a real rig has none."""

    @property
    def speed(self) -> float:
        """Return the speed factor against real time."""

    def set_speed(self, speed: float) -> None:
        """Change the speed; raise ValueError outside its range."""


class FaultsControl(Protocol):
    """Faults of a simulated lab, injected by hand; a real rig has none."""

    def kinds(self) -> list[dict[str, Any]]:
        """Return the kinds of faults: `kind, group, meaning, targets, momentary`."""

    def lasting(self) -> list[dict[str, Any]]:
        """Return the present faults: `number, kind, target, meaning, left_s`."""

    def make(self, kind: str, target: str, for_s: float) -> None:
        """Inject a fault for `for_s` (s; 0: until it is cleared). Raise ValueError for an impossible one."""

    def end(self, number: int) -> str:
        """End a fault and return its description; raise KeyError for one that does not last."""
