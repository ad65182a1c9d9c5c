"""What the API shows: the controller's own objects as plain, JSON-able data with units."""

from __future__ import annotations

import math
from typing import Any

from controller.alarms import Alarm
from controller.execution.run import RunView, StepView
from controller.process import Controller
from controller.rig.schematic import describe
from controller.safety.gate import command_text
from controller.state import ActuatorView, Reading, State
from drivers.device import LevelStatus, PumpStatus, SwitchStatus


def rig_view(controller: Controller) -> dict[str, Any]:
    """The rig: what the page draws its schematic from."""
    rig = controller.rig
    return {
        "name": rig.name,
        "description": rig.description,
        "simulated": rig.simulated,
        "mixed": rig.mixed,
        "organoid": {
            "count": rig.organoid.count,
            "diameter_mm": rig.organoid.diameter_mm,
            "age_d": rig.organoid.age_d,
            "chamber": rig.organoid.chamber,
        },
        "electrodes": rig.nerves.electrodes if rig.nerves else 0,
        "setpoints": {
            "temperature_c": rig.organs.skin.setpoint_c,
            "ph": rig.organs.lung.ph_setpoint,
            "oxygen_pct": rig.organs.lung.oxygen_setpoint_pct,
            "heart_ul_min": rig.organs.heart.flow_ul_min,
        },
        "schematic": describe(rig),
    }


def reading_view(reading: Reading, now_s: float) -> dict[str, Any]:
    """One reading; `age_s` is how old it is in rig time."""
    finite = math.isfinite(reading.value)
    return {
        "value": reading.value if finite else None,
        "unit": reading.unit,
        "quality": reading.quality.value,
        "age_s": round(now_s - reading.at_s, 2) if math.isfinite(reading.at_s) else None,
        "detail": reading.detail,
    }


def actuator_view(view: ActuatorView) -> dict[str, Any]:
    """One actuator: what it does, what it was told, what it falls back to."""
    status: dict[str, Any] = {}
    match view.status:
        case PumpStatus(running=running, flow_ul_min=flow, delivered_ul=delivered):
            status = {"kind": "pump", "on": running, "flow_ul_min": flow, "delivered_ul": delivered}
        case SwitchStatus(on=on):
            status = {"kind": "switch", "on": on}
        case LevelStatus(setpoint=setpoint, measured=measured):
            status = {"kind": "level", "on": setpoint > 0, "setpoint": setpoint, "measured": measured}
    return status | {
        "commanded": None if view.commanded is None else command_text(view.commanded),
        "basal": command_text(view.basal),
        "guarantee": view.guarantee.value,
    }


def state_view(state: State) -> dict[str, Any]:
    """A whole snapshot."""
    return {
        "at_s": state.at_s,
        "utc": state.utc,
        "readings": {name: reading_view(reading, state.at_s) for name, reading in state.readings.items() if reading.unit},
        "actuators": {name: actuator_view(view) for name, view in state.actuators.items()},
        "volumes": {name: {"ul": round(v.ul, 1), "sd_ul": round(v.sd_ul, 1)} for name, v in state.volumes.items()},
        "trips": [
            {"interlock": trip.interlock, "point": trip.point, "detail": trip.detail, "since_s": trip.since_s}
            for trip in state.trips
        ],
        "links": dict(state.links),
    }


def step_view(step: StepView) -> dict[str, Any]:
    """One step of a run."""
    return {"n": step.n, "verb": step.verb, "args": dict(step.args), "state": step.state, "result": step.result}


def run_view(run: RunView, *, steps: int = 200) -> dict[str, Any]:
    """One run with its latest steps."""
    return {
        "id": run.id,
        "protocol": run.protocol,
        "state": run.state.value,
        "step": run.step,
        "started_utc": run.started_utc,
        "params": dict(run.params),
        "progress": [step_view(step) for step in run.progress[-steps:]],
        "messages": list(run.messages),
    }


def alarm_view(alarm: Alarm) -> dict[str, Any]:
    """One alarm, with what to do about it."""
    return {
        "id": alarm.id,
        "kind": alarm.kind,
        "source": alarm.source,
        "state": alarm.state.value,
        "priority": alarm.priority,
        "detail": alarm.detail,
        "raised_utc": alarm.raised_utc,
        "consequence": alarm.consequence,
        "response": alarm.response,
        "respond_within": alarm.respond_within,
        "acknowledged_by": alarm.acknowledged_by,
    }


def ledger_view(controller: Controller) -> dict[str, Any]:
    """Where the medium went (mL)."""
    totals = controller.ledger.totals
    return {
        "fresh_ml": totals.fresh_ul / 1000,
        "drawn_ml": totals.drawn_ul / 1000,
        "recycled_ml": totals.recycled_ul / 1000,
        "discarded_ml": totals.discarded_ul / 1000,
        "glucose_ml": totals.glucose_ul / 1000,
        "base_ml": totals.base_ul / 1000,
        "evaporated_ml": totals.evaporated_ul / 1000,
        "unaccounted_ml": totals.unaccounted_ul / 1000,
        "recycled_fraction": totals.recycled_fraction,
    }
