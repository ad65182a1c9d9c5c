"""Selectors: a dose needs its ports connected, and a valve moves only while the pumps of its common line stand. Pure."""

from __future__ import annotations

from controller.safety.terms import Intent, Limits, PumpLimits, View
from drivers.commands import Command, Level


def selected(intent: Intent, pump: PumpLimits, view: View, limits: Limits) -> PumpLimits | str:
    """Return the limits of a pump on the way that the intent of a dose names, or why it may not dose."""
    way = pump.on_way(intent.positions)
    if way is None:
        named = ", ".join(f"{valve} at {level:g}" for valve, level in intent.positions.items()) or "no position"
        return f"selector: {intent.actuator} has no way with {named}"
    for valve, level in intent.positions.items():
        if not stands_at(valve, level, view, limits):
            return f"selector: {valve} is not known to stand at position {level:g}"
    return way


def stands_at(valve: str, level: float, view: View, limits: Limits) -> bool:
    """Return whether the valve of a selector reports this level, in a status that is not stale."""
    seen, selector = view.seen.get(valve), limits.selectors.get(valve)
    return (
        seen is not None and selector is not None and seen.level == level and _fresh(seen.at_s, selector.stale_s, view)
    )


def refusal_to_turn(valve: str, command: Command, view: View, limits: Limits) -> str | None:
    """Return why the valve of a selector may not be set to a position, or None if it may."""
    selector = limits.selectors[valve]
    if not isinstance(command, Level):
        return "a selector is only set to a position"
    if command.value not in selector.levels:
        return f"selector: no line of {valve} has position {command.value:g}"
    for name in selector.pumps:
        pump = view.seen.get(name)
        if pump is None or pump.on or any(other.running and other.actuator == name for other in view.underway):
            return f"selector: {name} is not known to stand, and {valve} moves only while it does"
    return None


def _fresh(at_s: float, stale_s: float, view: View) -> bool:
    return view.now_s - at_s <= stale_s
