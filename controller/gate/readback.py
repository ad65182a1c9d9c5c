"""Compare a status with its command, and convert commands to plain data."""

from __future__ import annotations

from controller.safety.terms import Seen
from drivers.commands import (
    FLOW_TOLERANCE,
    Command,
    Dispense,
    Level,
    LevelStatus,
    PumpStatus,
    Run,
    Status,
    Stop,
    Switch,
    SwitchStatus,
)

LEVEL_TOLERANCE = 0.02
LEVEL_GRAIN = 0.02
"""Maximum deviation of a level from the command: a share of it, plus the last digit of a gas controller (mL/min)."""
PULSE_GRAIN_S = 0.3
PULSE_GRACE_S = 3.0
"""A pulse may end this much early (relays count in tenths), and may be seen on this long after its end (polls wait)."""


def mismatch(command: Command, status: Status, since_s: float) -> str | None:
    """Return how `status`, read `since_s` seconds after `command` was sent, deviates from it; None if it agrees (A7)."""
    match status:
        case PumpStatus():
            return _pump_mismatch(command, status)
        case SwitchStatus():
            return _switch_mismatch(command, status, since_s)
        case LevelStatus():
            return _level_mismatch(command, status)


def _pump_mismatch(command: Command, status: PumpStatus) -> str | None:
    match command:
        case Run(flow_ul_min=flow):
            if not status.running:
                return "the pump stands"
            if abs(status.flow_ul_min - flow) > FLOW_TOLERANCE * abs(flow):
                return f"the pump runs at {status.flow_ul_min:g} instead of {flow:g} µL/min"
            return None
        case Dispense():
            return None  # it may have ended already; the delivered volume is measured, not read back
        case Stop():
            return "the pump still runs" if status.running else None
    return _no_answer(command, status)


def _switch_mismatch(command: Command, status: SwitchStatus, since_s: float) -> str | None:
    match command:
        case Switch(on=True, for_s=None):
            return None if status.on else "the switch is off"
        case Switch(on=True, for_s=float(for_s)):
            if not status.on and since_s < for_s - PULSE_GRAIN_S:
                return "the switch is off before its time"
            if status.on and since_s > for_s + PULSE_GRACE_S:
                return f"the switch is still on {since_s - for_s:.0f} s after its time"
            return None
        case Switch(on=False) | Stop():
            return "the switch is on" if status.on else None
    return _no_answer(command, status)


def _level_mismatch(command: Command, status: LevelStatus) -> str | None:
    match command:
        case Level(value=value):
            if abs(status.setpoint - value) > LEVEL_GRAIN + LEVEL_TOLERANCE * abs(value):
                return f"the set-point is {status.setpoint:g} instead of {value:g}"
            return None
        case Stop():
            return f"the set-point is {status.setpoint:g} instead of 0" if status.setpoint > LEVEL_GRAIN else None
    return _no_answer(command, status)


def _no_answer(command: Command, status: Status) -> str:
    return f"{type(status).__name__} is no answer to {type(command).__name__}"


def seen(status: Status, at_s: float) -> Seen:
    """Convert a status to the kernel's data type."""
    match status:
        case PumpStatus(running=running, flow_ul_min=flow):
            return Seen(running, flow, at_s)
        case SwitchStatus(on=on):
            return Seen(on, 1.0 if on else 0.0, at_s)
        case LevelStatus(setpoint=setpoint):
            return Seen(setpoint > 0.0, setpoint, at_s)


def command_text(command: Command) -> list[str | float | bool | None]:
    """Convert a command to plain data for the journal and the API: its name, then its values."""
    match command:
        case Run(flow_ul_min=flow):
            return ["run", flow]
        case Dispense(volume_ul=volume, flow_ul_min=flow, dose_id=dose):
            return ["dispense", volume, flow, dose]
        case Switch(on=on, for_s=for_s):
            return ["switch", on, for_s]
        case Level(value=value):
            return ["level", value]
        case Stop():
            return ["stop"]
