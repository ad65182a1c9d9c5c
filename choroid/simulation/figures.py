"""Figures of a simulated run: the controller's estimates compared with the plant's truth."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controller.core.run_states import RunState
from controller.journal.terms import Entry
from controller.ledger.saving import DAY_S, saved_fraction, scheduled_ul
from controller.process.controller import Controller
from controller.transfers.routes import route_of_dose, routes_of
from controller.vitals.vitals import why_unscored
from sim.lab import SimulatedLab
from sim.plant.truth import PlantTruth

SIGMAS = 3.0
ML = 1000.0


def figures(lab: SimulatedLab, controller: Controller, run_id: str) -> dict[str, Any]:
    """Return the figures of `choroid simulate --json` except time and speed. Volumes in mL, scores 0 to 1.

    The mass balance is that of the worst vessel: ledger minus truth, against three standard deviations of the
    ledger and what a running dose may have moved; `vessels` lists all.
    """
    truth = lab.plant.truth()
    believed = controller.ledger.volumes()
    moving = under_way(controller)
    vessels: dict[str, dict[str, float]] = {}
    for name, volume in believed.items():
        true_ul = truth.volumes_ul[name]
        vessels[name] = {
            "ledger_ml": round(volume.ul / ML, 4),
            "true_ml": round(true_ul / ML, 4),
            "error_ml": round((volume.ul - true_ul) / ML, 4),
            "uncertainty_ml": round((SIGMAS * volume.sd_ul + moving.get(name, 0.0)) / ML, 4),
        }
    worst = max(vessels, key=lambda name: abs(vessels[name]["error_ml"]) / max(vessels[name]["uncertainty_ml"], 1e-6))
    grades: dict[str, int] = dict.fromkeys("ABCD", 0)
    for row in controller.journal.entries(kinds=("note.grade",)):
        grades[row.body["grade"]] += 1
    totals = controller.ledger.totals
    run = controller.runs.get(run_id)
    rig = controller.rig
    days = (controller.clock.utc() - controller.ledger.opened).total_seconds() / DAY_S
    scores = controller.scores or {}
    return {
        "transactions": controller.devices.transactions,
        "journal_rows": controller.journal.next_seq - 1,
        "journal_sha256": controller.journal.sha256(),
        "run_state": run.state.value,
        "run_messages": list(run.messages),
        "holds": holds(controller, run_id),
        "params": dict(run.params),
        **estimated(scores.get("viability")),
        **rated("care_rating", scores.get("care_rating")),
        **rated("welfare", scores.get("welfare")),
        **rated("happiness", scores.get("happiness")),
        "viability_true": round(truth.viability, 6),
        "grade_counts": grades,
        **decisions(controller),
        "fresh_medium_ml": round(totals.fresh_ul / ML, 3),
        "recycled_ml": round(totals.recycled_ul / ML, 3),
        "discarded_ml": round(totals.discarded_ul / ML, 3),
        "stocks_ml": round((totals.glucose_ul + totals.base_ul) / ML, 3),
        "dialysate_ml": round(totals.dialysate_ul / ML, 3),
        "drawn_ml": round(totals.drawn_ul / ML, 3),
        "scheduled_ml": round(scheduled_ul(rig, days) / ML, 3),
        "saved_fraction": saved_fraction(rig, totals.fresh_ul, days),
        "mass_balance_vessel": worst,
        "mass_balance_error_ml": vessels[worst]["error_ml"],
        "mass_balance_uncertainty_ml": vessels[worst]["uncertainty_ml"],
        "vessels": vessels,
        "has_kidney": rig.organs.kidney is not None,
        "unscored": why_unscored(rig),
        "true_loop": None if rig.loop is None else composition(truth, rig.loop),
        "true_chambers": {
            name: {"viability": round(truth.tissue[name].viability, 6), **composition(truth, name)}
            for name in rig.tissue
        },
        "alarms": controller.alarms.raised,
        "alarms_active": [alarm.id for alarm in controller.alarms.active()],
        "violations": violations(lab, controller, vessels),
    }


def composition(truth: PlantTruth, vessel: str) -> dict[str, float]:
    """Return the true composition of the medium in a vessel."""
    medium = truth.concentrations[vessel]
    return {
        "lactate_mm": round(medium["lactate"], 3),
        "ammonia_mm": round(medium["ammonia"], 4),
        "glucose_mm": round(medium["glucose"], 3),
        "ph": round(truth.ph[vessel], 3),
        "osmolality_mosm": round(medium["osmoles"], 1),
    }


def holds(controller: Controller, run_id: str) -> list[dict[str, Any]]:
    """Return the times when the run waited for a person: `from_utc`, `until_utc` (None: it still does), and `why`."""
    found: list[dict[str, Any]] = []
    why = ""
    for row in controller.journal.entries(kinds=("run.message", "run.state")):
        if row.run != run_id:
            continue
        if row.kind == "run.message":
            why = row.body["text"]
        elif row.body["to"] == RunState.HELD:
            found.append({"from_utc": row.utc, "until_utc": None, "why": why})
        elif row.body["from"] == RunState.HELD and found:
            found[-1]["until_utc"] = row.utc
    return found


def estimated(viability: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the estimate of viability: median, 90 % interval and sentences; None where there is none yet."""
    found = viability or {}
    ends = {f"viability{end}": found.get(key) for end, key in (("", "value"), ("_low", "low"), ("_high", "high"))}
    return ends | {"viability_sentences": found.get("sentences", [])}


def rated(name: str, score: Mapping[str, Any] | None) -> dict[str, float | None]:
    """Return a score with its range, coverage (`_confidence`) and known part; None before the first score."""
    found = score or {"score": 0.0, "coverage": 0.0, "low": 0.0, "high": 1.0, "of_known": None}
    return {
        name: found["score"],
        f"{name}_confidence": found["coverage"],
        f"{name}_low": found["low"],
        f"{name}_high": found["high"],
        f"{name}_of_known": found["of_known"],
    }


def under_way(controller: Controller) -> dict[str, float]:
    """Return, by vessel, the maximum (µL) that doses without an outcome may have moved by now.

    The ledger books a dose at its end, so its standard deviations do not include this.
    """
    doses: dict[tuple[str | None, int], Entry] = {}
    for row in controller.journal.entries(kinds=("step.act", "step.refused", "moved")):
        if row.kind == "step.act":
            doses[row.run, row.body["n"]] = row
        elif "n" in row.body:
            doses.pop((row.run, row.body["n"]), None)
    routes = routes_of(controller.rig).values()
    most: dict[str, float] = {}
    for row in doses.values():
        route = route_of_dose(routes, row.body["line"], row.body.get("ports", {}))
        trust = controller.upkeep.trust(route.pump)
        lasted_s = (controller.clock.utc() - datetime.fromisoformat(row.utc)).total_seconds()
        pumped_ul = min(row.body["ul"], row.body["flow_ul_min"] * max(lasted_s, 0.0) / 60.0)
        max_ul = pumped_ul * trust.gain * (1.0 + SIGMAS * trust.rel_sd) + SIGMAS * trust.dose_sd_ul
        for vessel in (route.source, route.target):
            most[vessel] = most.get(vessel, 0.0) + max_ul
    return most


def decisions(controller: Controller) -> dict[str, Any]:
    """Return the recycler's choices with their counts, the cost of their consumables (EUR, without risk), the last
    reason.
    """
    actions: dict[str, int] = {}
    eur, reason = 0.0, ""
    for row in controller.journal.entries(kinds=("note.recycle",)):
        chosen = row.body["decision"]["chosen"]
        actions[chosen["action"]] = actions.get(chosen["action"], 0) + 1
        eur += sum(cost for name, cost in chosen["costs"].items() if name != "risk")
        reason = row.body["decision"]["reason"]
    return {"actions": actions, "consumables_eur": round(eur, 2), "last_reason": reason}


def violations(lab: SimulatedLab, controller: Controller, vessels: dict[str, dict[str, float]]) -> list[str]:
    """Return violations: overflow, a pump run dry, a ledger off by more than it may be, a broken journal chain."""
    found = [f"{at_s:.0f} s: {text}" for at_s, text in lab.plant.events]
    for name, vessel in vessels.items():
        if abs(vessel["error_ml"]) > max(vessel["uncertainty_ml"], 0.001):
            beyond = f"beyond {vessel['uncertainty_ml']} mL"
            found.append(f"the ledger of {name} is off by {vessel['error_ml']} mL, {beyond}")
    try:
        controller.journal.verify()
    except Exception as error:
        found.append(f"journal: {error}")
    return found
