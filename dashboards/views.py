"""Convert the controller's objects to plain data for the API, with a unit in every name or in a separate field.

Plain dictionaries, because the live feed makes them four times a second; :mod:`dashboards.models` declares their shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from controller.alarms.lines import shared_lines
from controller.alarms.states import Alarm
from controller.capabilities.catalogue import capabilities_of
from controller.core.state import ActuatorView, Reading, State
from controller.hazards.rest import rest_periods
from controller.journal.terms import Entry
from controller.ledger.ledger import Ledger
from controller.ledger.saving import DAY_S, saved_fraction, scheduled_ul
from controller.rig.description import Rig
from controller.rig.probes import culture_ph, loop_oxygen, oxygen_target_pct, thermometer
from controller.rig.schematic import describe, hearts
from controller.rig.surroundings import zone_of
from controller.rig.temperature_limits import temperature_limits
from controller.runs.questions import OpenQuestion
from controller.runs.views import RunView, StepView
from drivers.commands import Command, Dispense, Level, LevelStatus, PumpStatus, Run, Stop, Switch, SwitchStatus
from nerves.summary import NervesSummary
from protocols.answers import MEDIA_TYPES
from protocols.registry import Recipe
from protocols.retreat import RESUMED

UNCERTAINTY_SD = 3.0
"""Width of a stated bound in standard deviations."""
ML = 1000.0


def _environment_goals(rig: Rig) -> list[dict[str, Any]]:
    """Return targets and limits of temperature, oxygen and pH, as far as they are read where the tissue lives."""
    skin = rig.organs.skin
    limits = {limit.point: (limit.low_c, limit.high_c) for _, limit in temperature_limits(rig)}
    goals = []
    for point, chamber in _thermometers(rig).items():
        low_c, high_c = limits.pop(point, (None, None))
        target_c = zone_of(rig, chamber).temperature_c if skin is None else skin.setpoint_c
        goals.append(_goal(point, "degC", target_c, low_c, high_c))
    goals += [_goal(point, "degC", None, low_c, high_c) for point, (low_c, high_c) in limits.items()]
    oxygen = loop_oxygen(rig)
    if oxygen is not None:
        goals.append(_goal(oxygen, "%", oxygen_target_pct(rig), None, None))
    return [*goals, *(_goal(point, "pH", target, None, None) for point, target in culture_ph(rig).items())]


def _thermometers(rig: Rig) -> dict[str, str]:
    """Return the thermometers of the chambers with tissue, each with the first chamber that it sees."""
    found: dict[str, str] = {}
    for chamber in rig.tissue:
        point = thermometer(rig, chamber)
        if point is not None:
            found.setdefault(point, chamber)
    return found


def rig_view(rig: Rig) -> dict[str, Any]:
    """Return the rig, from which the page draws its schematic."""
    organs, safety = rig.organs, rig.safety
    return {
        "name": rig.name,
        "time_zone": rig.time_zone,
        "description": rig.description,
        "simulated": rig.simulated,
        "mixed": rig.mixed,
        "tissue": _tissue_views(rig),
        "electrodes": rig.nerves.electrodes if rig.nerves else 0,
        "cameras": list(rig.cameras),
        "goals": [
            *_environment_goals(rig),
            *(
                _goal(limit.point, "kPa", None, None, limit.high_kpa)
                for limit in (safety.over_pressure_heart, safety.over_pressure_filter, *safety.over_pressure.values())
                if limit is not None
            ),
        ],
        "hearts": hearts(rig),
        "mass_point": None if organs.kidney is None else organs.kidney.mass,
        "periods_s": rest_periods(rig),
        "return_valve": None if organs.immune is None else organs.immune.valve,
        "shared_lines": {line: list(devices) for line, devices in shared_lines(rig).items()},
        "schematic": describe(rig),
        "capabilities": [each.to_json() for each in capabilities_of(rig)],
    }


def _tissue_views(rig: Rig) -> list[dict[str, Any]]:
    """Return the tissue of each chamber, in the order of the rig file."""
    return [
        {
            "chamber": chamber,
            "count": of.count,
            "diameter_mm": of.diameter_mm,
            "age_d": of.age_d,
            "batch": of.batch,
            "cell_line": of.cell_line,
            "capacity": of.capacity,
        }
        for chamber, of in rig.tissue.items()
    ]


def _goal(point: str, unit: str, setpoint: float | None, low: float | None, high: float | None) -> dict[str, Any]:
    """Return the target of a reading, and the limits of its interlock (both in `unit`)."""
    return {"point": point, "unit": unit, "setpoint": setpoint, "low": low, "high": high}


def reading_view(reading: Reading) -> dict[str, Any]:
    """Return one reading; `at_s` is rig time, on the scale of the state's own `at_s`."""
    return {
        "value": _finite(reading.value),
        "unit": reading.unit,
        "quality": reading.quality.value,
        "stable": reading.stable,
        "at_s": _finite(reading.at_s),
        "detail": reading.detail,
    }


def actuator_view(view: ActuatorView) -> dict[str, Any]:
    """Return one actuator: status, last command, basal state, and what enforces that state.

    With a `fault` it does not answer, and `status` is its last report, of `at_s`.
    """
    status: dict[str, Any] | None = None
    match view.status:
        case PumpStatus(running=running, flow_ul_min=flow, delivered_ul=delivered):
            status = {"kind": "pump", "on": running, "flow_ul_min": flow, "delivered_ul": delivered}
        case SwitchStatus(on=on):
            status = {"kind": "switch", "on": on}
        case LevelStatus(setpoint=setpoint, measured=measured):
            status = {"kind": "level", "on": setpoint > 0, "setpoint_ml_min": setpoint, "measured_ml_min": measured}
    return {
        "status": status,
        "commanded": None if view.commanded is None else command_view(view.commanded),
        "basal": command_view(view.basal),
        "guarantee": view.guarantee.value,
        "at_s": _finite(view.at_s),
        "lease_until_s": None if view.lease_until_s is None else _finite(view.lease_until_s),
        "fault": view.fault,
    }


def command_view(command: Command) -> dict[str, Any]:
    """Return a command as its name and numbers."""
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


def state_view(state: State) -> dict[str, Any]:
    """Return a whole snapshot."""
    return {
        "at_s": state.at_s,
        "utc": state.utc,
        "readings": {point: reading_view(reading) for point, reading in state.readings.items()},
        "actuators": {name: actuator_view(view) for name, view in state.actuators.items()},
        "volumes": {name: {"ul": round(v.ul, 1), "sd_ul": round(v.sd_ul, 1)} for name, v in state.volumes.items()},
        "trips": [
            {
                "interlock": trip.interlock,
                "point": trip.point,
                "detail": trip.detail,
                "since_s": _finite(trip.since_s),
                "actuators": list(trip.actuators),
                "latched": trip.latched,
            }
            for trip in state.trips
        ],
        "links": dict(state.links),
    }


def recipe_view(recipe: Recipe) -> dict[str, Any]:
    """Return one protocol with its parameters."""
    return {
        "name": recipe.name,
        "title": recipe.title,
        "params": [
            {
                "name": param.name,
                "unit": param.unit,
                "default": param.default,
                "low": param.low,
                "high": param.high,
                "help": param.help,
            }
            for param in recipe.params
        ],
    }


def step_view(step: StepView) -> dict[str, Any]:
    """Return one step of a run, and of its result only what people read."""
    return {
        "n": step.n,
        "verb": step.verb,
        "branch": step.branch,
        "args": {name: value for name, value in step.args.items() if isinstance(value, str | int | float)},
        "state": step.state,
        "result": _result(step.result),
    }


def _result(result: Any) -> dict[str, Any] | None:
    """Return an amount, a measurement, or nothing; other results of a step are in the journal."""
    if not isinstance(result, dict):
        return None
    if "text" in result:
        return {"answer": result["text"], **({"file": result["file"]} if "file" in result else {})}
    if "ul" in result:
        return {"ul": result["ul"], "low_ul": result.get("low"), "high_ul": result.get("high")}
    interval = result.get("interval")
    if interval is not None and "unit" in result:
        return {"value": interval["value"], "low": interval["low"], "high": interval["high"], "unit": result["unit"]}
    return None


def run_view(run: RunView, *, steps: int = 200) -> dict[str, Any]:
    """Return one run with its latest steps."""
    return {
        "id": run.id,
        "protocol": run.protocol,
        "state": run.state.value,
        "ended": run.state.ended,
        "step": run.step,
        "started_utc": run.started_utc,
        "params": dict(run.params),
        "progress": [step_view(step) for step in run.progress[-steps:]],
        "messages": list(run.messages),
        "question": None if run.question is None else question_view(run.question),
    }


def question_view(question: OpenQuestion) -> dict[str, Any]:
    """An open question, with what is a valid answer."""
    form = question.answer
    default = None if form is None else form.default
    return {
        "step": question.n,
        "message": question.message,
        "kind": "" if form is None else form.kind,
        "wants": "" if form is None else form.wants,
        "unit": "" if form is None else form.unit,
        "choices": [] if form is None else list(form.choices),
        "default": "" if form is None or default is None else form.text(default),
        "accept": [] if form is None else [MEDIA_TYPES[each] for each in form.types],
    }


def alarm_view(alarm: Alarm) -> dict[str, Any]:
    """Return one alarm, with its response."""
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
        "suppressed_by": alarm.suppressed_by,
        "suppression_reason": alarm.suppression_reason,
        "until_utc": alarm.until_utc,
    }


def weighed_vessel(rig: Rig) -> str | None:
    """Return the vessel by whose balance the ledger is checked: that of the kidney."""
    return None if rig.organs.kidney is None else rig.organs.kidney.vessel


def ledger_view(rig: Rig, ledger: Ledger, weighed: str | None, now: datetime, bound_ul: float | None) -> dict[str, Any]:
    """Return the medium ledger (mL); `bound_ul` is the mass-balance bound.

    The balance error is the volume that no transfer explains. Its uncertainty is three standard deviations of the volumes
    moved and weighed, whatever the uncertainty of the bottles' contents. The ledger cannot be checked more accurately
    than the volume of the `weighed` vessel is known: by the balance, or, while the balance does not answer, by the
    pumps, whose uncertainties then add up in it. Without a kidney, no vessel is weighed for it.
    """
    totals, volumes, error = ledger.totals, ledger.volumes(), ledger.unexplained()
    days = (now - ledger.opened).total_seconds() / DAY_S
    error_ul = UNCERTAINTY_SD * math.hypot(error.sd_ul, 0.0 if weighed is None else volumes[weighed].sd_ul)
    return {
        "fresh_ml": totals.fresh_ul / ML,
        "drawn_ml": totals.drawn_ul / ML,
        "given_back_ml": totals.given_back_ul / ML,
        "recycled_ml": totals.recycled_ul / ML,
        "discarded_ml": totals.discarded_ul / ML,
        "glucose_ml": totals.glucose_ul / ML,
        "base_ml": totals.base_ul / ML,
        "evaporated_ml": totals.evaporated_ul / ML,
        "mass_balance_error_ml": error.ul / ML,
        "mass_balance_uncertainty_ml": error_ul / ML,
        "days": days,
        "scheduled_ml": scheduled_ul(rig, days) / ML,
        "saved_fraction": saved_fraction(rig, totals.fresh_ul, days),
        "bound_ml": None if bound_ul is None else bound_ul / ML,
        "bound_ratio": totals.fresh_ul / bound_ul if bound_ul else None,
        "vessels": [
            {"name": name, "ml": volume.ul / ML, "sd_ml": volume.sd_ul / ML} for name, volume in volumes.items()
        ],
    }


def nerves_view(summary: NervesSummary | None) -> dict[str, Any] | None:
    """Return the latest firing summary."""
    if summary is None:
        return None
    return {
        "at_s": summary.at_s,
        "firing_rate_hz": summary.firing_rate_hz,
        "active_electrodes": summary.active_electrodes,
        "electrodes": summary.electrodes,
        "observed_electrodes": summary.observed,
        "rates_hz": [round(rate, 3) for rate in summary.rates_hz],
        "states": list(summary.states),
    }


def decision_views(entries: Iterable[Entry], limit: int) -> list[dict[str, Any]]:
    """Return the latest decisions with their grades, from rows `note.recycle` and `note.grade`, newest first.

    A cycle writes its grade before its decision, so in this order the grade follows.
    """
    found: list[dict[str, Any]] = []
    for entry in entries:
        body = entry.body
        if entry.kind == "note.recycle":
            if len(found) == limit:
                break
            found.append(_decision(entry))
        elif found and (found[-1]["run"], found[-1]["cycle"]) == (entry.run, body.get("cycle")):
            found[-1] |= {"of": body.get("of", "batch"), "grade_reasons": list(body.get("reasons", ()))}
    return found


def retreat_view(entry: Entry | None) -> dict[str, Any] | None:
    """Return the retreat of the present run from its last row `note.recycle_retreat` or `note.recycle_resumed`; None while it
    recycles.
    """
    if entry is None or entry.kind == f"note.{RESUMED}":
        return None
    body = entry.body
    return {
        "seq": entry.seq,
        "utc": entry.utc,
        "run": entry.run,
        "text": body["text"],
        "exchanged_ml_d": body["exchanged_ul_d"] / ML,
    }


def _decision(entry: Entry) -> dict[str, Any]:
    body = entry.body
    decision = body["decision"]
    chosen = decision["chosen"]
    moved = ("drawn", "fresh", "given_back", "discarded", "dialysate")
    return {
        "seq": entry.seq,
        "utc": entry.utc,
        "run": entry.run,
        "cycle": body["cycle"],
        "of": "loop" if chosen["action"] == "rest" else "batch",
        "grade": body["grade"],
        "limiting": body["limiting"],
        "grade_reasons": [],
        "action": chosen["action"],
        "eur": chosen["eur"],
        "risk": chosen["risk"],
        "worst": chosen["worst"],
        "reason": decision["reason"],
        "others": [
            {name: other.get(name, "") for name in ("action", "eur", "refused", "still")}
            for other in decision["others"]
        ],
        **{f"{name}_ml": body.get(f"{name}_ul", 0.0) / ML for name in moved},
    }


def entry_view(entry: Entry) -> dict[str, Any]:
    """Return one row of the journal."""
    return {
        "seq": entry.seq,
        "utc": entry.utc,
        "kind": entry.kind,
        "run": entry.run,
        "body": dict(entry.body),
        "sha256": entry.hash,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
