"""Alarms after ISA-18.2: their definitions and their states."""

from controller.alarms.definitions import DEFINITIONS, URGENCY, Definition, Priority, alarm_kind
from controller.alarms.states import ROWS, Alarm, Alarms, AlarmState, ShelfError

__all__ = [
    "DEFINITIONS",
    "ROWS",
    "URGENCY",
    "Alarm",
    "AlarmState",
    "Alarms",
    "Definition",
    "Priority",
    "ShelfError",
    "alarm_kind",
]
