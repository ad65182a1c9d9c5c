"""Health of a controller, for the page, the health port and external monitors (D6)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerHealth:
    """Whether the control loop is alive, and why not."""

    ok: bool
    reasons: tuple[str, ...]
    tick_age_s: float
