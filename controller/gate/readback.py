"""Does an output do what it was told? And commands as plain text for the journal."""

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
"""How far a level may be from the command: a share of it, and for gases the last digit (mL/min)."""
PULSE_GRAIN_S = 0.3
PULSE_GRACE_S = 3.0
"""A pulse may end so much before its time and be seen on so long after it: relays count in tenths, polls wait."""


def mismatch(command: Command, status: Status, since_s: float) -> str | None:
    """What is wrong when `status`, read `since_s` seconds after the command went out, is not what it asked for (A7)."""
    match command, status:
        case Run(flow_ul_min=flow), PumpStatus(running=running, flow_ul_min=seen):
            if not running:
                return "the pump stands"
            if abs(seen - flow) > FLOW_TOLERANCE * abs(flow):
                return f"the pump runs at {seen:g} instead of {flow:g} µL/min"
        case Dispense(), PumpStatus():
            pass  # it may have ended already; how much was given is measured, not read back
        case Stop(), PumpStatus(running=running):
            if running:
                return "the pump still runs"
        case Switch(on=True, for_s=None), SwitchStatus(on=seen_on):
            if not seen_on:
                return "the switch is off"
        case Switch(on=True, for_s=float(for_s)), SwitchStatus(on=seen_on):
            if not seen_on and since_s < for_s - PULSE_GRAIN_S:
                return "the switch is off before its time"
            if seen_on and since_s > for_s + PULSE_GRACE_S:
                return f"the switch is still on {since_s - for_s:.0f} s after its time"
        case ((Switch(on=False) | Stop()), SwitchStatus(on=seen_on)):
            if seen_on:
                return "the switch is on"
        case Level(value=value), LevelStatus(setpoint=setpoint):
            if abs(setpoint - value) > LEVEL_GRAIN + LEVEL_TOLERANCE * abs(value):
                return f"the set-point is {setpoint:g} instead of {value:g}"
        case Stop(), LevelStatus(setpoint=setpoint):
            if setpoint > LEVEL_GRAIN:
                return f"the set-point is {setpoint:g} instead of 0"
        case _:
            return f"{type(status).__name__} is no answer to {type(command).__name__}"
    return None


def seen(status: Status, at_s: float) -> Seen:
    """A status in the kernel's words."""
    match status:
        case PumpStatus(running=running, flow_ul_min=flow):
            return Seen(running, flow, at_s)
        case SwitchStatus(on=on):
            return Seen(on, 1.0 if on else 0.0, at_s)
        case LevelStatus(setpoint=setpoint):
            return Seen(setpoint > 0.0, setpoint, at_s)


def command_text(command: Command) -> list[str | float | bool | None]:
    """A command as plain data for the journal and the API: its name, then its values."""
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
