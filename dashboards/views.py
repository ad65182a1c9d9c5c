"""Make the answers that combine or convert what the controller knows; the others are read from its objects as they are
(:class:`dashboards.models.base.Projection`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

from controller.alarms.lines import shared_lines
from controller.capabilities.catalogue import capabilities_of
from controller.hazards.rest import rest_periods
from controller.journal.terms import Entry
from controller.ledger.ledger import Ledger
from controller.ledger.saving import DAY_S, saved_fraction, scheduled_ul
from controller.rig.description import Rig
from controller.rig.probes import culture_ph, loop_oxygen, oxygen_target_pct, thermometer
from controller.rig.schematic import describe, hearts
from controller.rig.surroundings import zone_of
from controller.rig.temperature_limits import temperature_limits
from dashboards.models.books import DecisionModel, LedgerModel, RetreatModel, VesselContent
from dashboards.models.rig import Goal, RigView, TissueView
from protocols.retreat import RESUMED

UNCERTAINTY_SD = 3.0
"""Width of a stated bound in standard deviations."""
ML = 1000.0


def _environment_goals(rig: Rig) -> list[Goal]:
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


def rig_view(rig: Rig, *, user: str, role: str, faults: bool = False) -> RigView:
    """Return the rig, from which the page draws its schematic, as the user `user` sees it."""
    organs, safety = rig.organs, rig.safety
    return RigView(
        name=rig.name,
        time_zone=rig.time_zone,
        description=rig.description,
        simulated=rig.simulated,
        mixed=rig.mixed,
        faults=faults,
        tissue=[TissueView.model_validate({"chamber": chamber, **vars(of)}) for chamber, of in rig.tissue.items()],
        electrodes=rig.nerves.electrodes if rig.nerves else 0,
        cameras=list(rig.cameras),
        goals=[
            *_environment_goals(rig),
            *(
                _goal(limit.point, "kPa", None, None, limit.high_kpa)
                for limit in (safety.over_pressure_heart, safety.over_pressure_filter, *safety.over_pressure.values())
                if limit is not None
            ),
        ],
        hearts=hearts(rig),
        mass_point=None if organs.kidney is None else organs.kidney.mass,
        periods_s=rest_periods(rig),
        return_valve=None if organs.immune is None else organs.immune.valve,
        shared_lines={line: list(devices) for line, devices in shared_lines(rig).items()},
        schematic=describe(rig),
        capabilities=[each.to_json() for each in capabilities_of(rig)],
        user=user,
        role=role,
    )


def _goal(point: str, unit: str, setpoint: float | None, low: float | None, high: float | None) -> Goal:
    """Return the target of a reading, and the limits of its interlock (both in `unit`)."""
    return Goal(point=point, unit=unit, setpoint=setpoint, low=low, high=high)


def weighed_vessel(rig: Rig) -> str | None:
    """Return the vessel by whose balance the ledger is checked: that of the kidney."""
    return None if rig.organs.kidney is None else rig.organs.kidney.vessel


def ledger_view(rig: Rig, ledger: Ledger, weighed: str | None, now: datetime, bound_ul: float | None) -> LedgerModel:
    """Return the medium ledger (mL); `bound_ul` is the mass-balance bound.

    The balance error is the volume that no transfer explains. Its uncertainty is three standard deviations of the volumes
    moved and weighed, whatever the uncertainty of the bottles' contents. The ledger cannot be checked more accurately
    than the volume of the `weighed` vessel is known: by the balance, or, while the balance does not answer, by the
    pumps, whose uncertainties then add up in it. Without a kidney, no vessel is weighed for it.
    """
    totals, volumes, error = ledger.totals, ledger.volumes(), ledger.unexplained()
    days = (now - ledger.opened).total_seconds() / DAY_S
    error_ul = UNCERTAINTY_SD * math.hypot(error.sd_ul, 0.0 if weighed is None else volumes[weighed].sd_ul)
    return LedgerModel(
        fresh_ml=totals.fresh_ul / ML,
        drawn_ml=totals.drawn_ul / ML,
        given_back_ml=totals.given_back_ul / ML,
        recycled_ml=totals.recycled_ul / ML,
        discarded_ml=totals.discarded_ul / ML,
        glucose_ml=totals.glucose_ul / ML,
        base_ml=totals.base_ul / ML,
        evaporated_ml=totals.evaporated_ul / ML,
        mass_balance_error_ml=error.ul / ML,
        mass_balance_uncertainty_ml=error_ul / ML,
        days=days,
        scheduled_ml=scheduled_ul(rig, days) / ML,
        saved_fraction=saved_fraction(rig, totals.fresh_ul, days),
        bound_ml=None if bound_ul is None else bound_ul / ML,
        bound_ratio=totals.fresh_ul / bound_ul if bound_ul else None,
        vessels=[
            VesselContent(name=name, ml=volume.ul / ML, sd_ml=volume.sd_ul / ML) for name, volume in volumes.items()
        ],
    )


def decision_views(entries: Iterable[Entry], limit: int) -> list[DecisionModel]:
    """Return the latest decisions with their grades, from rows `note.recycle` and `note.grade`, newest first.

    A cycle writes its grade before its decision, so in this order the grade follows.
    """
    found: list[DecisionModel] = []
    for entry in entries:
        body = entry.body
        if entry.kind == "note.recycle":
            if len(found) == limit:
                break
            found.append(_decision(entry))
        elif found and (found[-1].run, found[-1].cycle) == (entry.run, body.get("cycle")):
            found[-1].of, found[-1].grade_reasons = body.get("of", "batch"), list(body.get("reasons", ()))
    return found


def retreat_view(entry: Entry | None) -> RetreatModel | None:
    """Return the retreat of the present run from its last row `note.recycle_retreat` or `note.recycle_resumed`; None while it
    recycles.
    """
    if entry is None or entry.kind == f"note.{RESUMED}":
        return None
    body = entry.body
    return RetreatModel(
        seq=entry.seq,
        utc=entry.utc,
        run=entry.run,
        text=body["text"],
        exchanged_ml_d=body["exchanged_ul_d"] / ML,
    )


def _decision(entry: Entry) -> DecisionModel:
    body = entry.body
    decision = body["decision"]
    chosen = decision["chosen"]
    moved = ("drawn", "fresh", "given_back", "discarded", "dialysate")
    return DecisionModel(
        seq=entry.seq,
        utc=entry.utc,
        run=entry.run,
        cycle=body["cycle"],
        of="loop" if chosen["action"] == "rest" else "batch",
        grade=body["grade"],
        limiting=body["limiting"],
        grade_reasons=[],
        action=chosen["action"],
        eur=chosen["eur"],
        risk=chosen["risk"],
        worst=chosen["worst"],
        reason=decision["reason"],
        others=[
            {name: other.get(name, "") for name in ("action", "eur", "refused", "still")}
            for other in decision["others"]
        ],
        **{f"{name}_ml": body.get(f"{name}_ul", 0.0) / ML for name in moved},
    )
