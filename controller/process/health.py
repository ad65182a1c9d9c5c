"""What health is of a controller, for the page, the health port and whoever watches from outside (D6)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerHealth:
    """Whether the control loop lives, and why not."""

    ok: bool
    reasons: tuple[str, ...]
    tick_age_s: float
