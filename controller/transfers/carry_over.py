"""Carry-over: the share of a dose that is other medium, left in the lines that it passes."""

from __future__ import annotations

from controller.rig.description import Rig
from controller.rig.selectors import PumpedPath


def carry_over_refusal(rig: Rig, path: PumpedPath, volume_ul: float, other_ul: float, bound_pct: float) -> str:
    """Return why a dose may not be given for its carry-over; an empty text if it may.

    Args:
        rig: The rig.
        path: The path of the dose.
        volume_ul: The dose (µL).
        other_ul: How much of it would be other medium (µL).
        bound_pct: The maximum share of that (%).
    """
    if rig.vessels[path.target].kind == "waste" or other_ul <= bound_pct / 100.0 * volume_ul:
        return ""
    selectors = " and ".join(f"“{name}”" for name, _ in path.positions) or "the line"
    return (
        f"carry-over: {100.0 * other_ul / volume_ul:.1f} % of {volume_ul / 1000:.3f} mL would be other medium that the lines"
        f" to “{path.target}” hold; the bound is {bound_pct:g} %. Likely cause: another medium passed them last. Next: rinse"
        f" {selectors} with “{path.source}” first, or raise max_carry_over"
    )
