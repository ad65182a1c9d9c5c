"""Actuators: status and commands as plain data that name their own units."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import field_validator

from dashboards.models.base import Projection
from drivers.commands import Command, Dispense, Level, LevelStatus, PumpStatus, Run, Status, Stop, Switch, SwitchStatus


class ActuatorState(Projection):
    """One actuator: its own status, the last command, its basal state, and who enforces that (device, guard or host).

    `status`, `commanded` and `basal` name their own units. `fault` says why it does not answer; it is empty while it does.
    With a fault, `status` is the last report, of `at_s`.
    """

    status: dict[str, Any] | None
    commanded: dict[str, Any] | None
    basal: dict[str, Any]
    guarantee: Literal["device", "guard", "host"]
    at_s: float | None
    lease_until_s: float | None
    fault: str

    @field_validator("status", mode="before")
    @classmethod
    def _status(cls, status: Status | None) -> dict[str, Any] | None:
        match status:
            case PumpStatus(running=running, flow_ul_min=flow, delivered_ul=delivered):
                return {"kind": "pump", "on": running, "flow_ul_min": flow, "delivered_ul": delivered}
            case SwitchStatus(on=on):
                return {"kind": "switch", "on": on}
            case LevelStatus(setpoint=setpoint, measured=measured):
                return {"kind": "level", "on": setpoint > 0, "setpoint_ml_min": setpoint, "measured_ml_min": measured}
        return None

    @field_validator("commanded", "basal", mode="before")
    @classmethod
    def _command(cls, command: Command | None) -> dict[str, Any] | None:
        match command:
            case Run(flow_ul_min=flow):
                return {"verb": "run", "flow_ul_min": flow}
            case Dispense(volume_ul=volume, flow_ul_min=flow):
                return {"verb": "dispense", "volume_ul": volume, "flow_ul_min": flow}
            case Switch(on=on, for_s=for_s):
                return {"verb": "switch", "on": on, "for_s": for_s}
            case Level(value=value):
                return {"verb": "level", "value_ml_min": value}
            case Stop():
                return {"verb": "stop"}
        return None
